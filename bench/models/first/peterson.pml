/* Peterson's mutual exclusion as a user of SPIN writes it; mutual exclusion is an assertion. */
bool wants[2], turn;
byte inside;

active [2] proctype process() {
  do
  :: wants[_pid] = true;
     turn = 1 - _pid;
     (!wants[1 - _pid] || turn == _pid);
     inside++;
     assert(inside == 1);
     inside--;
     wants[_pid] = false
  od
}
