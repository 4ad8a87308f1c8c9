/* The dining philosophers as a user of SPIN writes them; the same six steps as in philosophers.net.
   What differs: nothing. A test and the assignment after it are one atomic step. */
#ifndef N
#define N 8
#endif

bool taken[N];

active [N] proctype philosopher() {
  byte first = (_pid == N - 1 -> 0 : _pid);
  byte second = (_pid == N - 1 -> _pid : _pid + 1);
  do
  :: skip;  /* sit */
     atomic { !taken[first] -> taken[first] = true };
     atomic { !taken[second] -> taken[second] = true };
     skip;  /* eat */
     taken[second] = false;
     taken[first] = false
  od
}
