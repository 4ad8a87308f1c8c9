/* The philosophers of philosophers.net as a user of SPIN writes them; the same five steps. All may starve
   together, so search with -E. */
#ifndef N
#define N 10
#endif

bool fork[N];

active [N] proctype philosopher() {
  do
  :: skip;  /* sit */
     atomic { !fork[_pid] -> fork[_pid] = true };
     atomic { !fork[(_pid + 1) % N] -> fork[(_pid + 1) % N] = true };
     fork[_pid] = false;
     fork[(_pid + 1) % N] = false
  od
}
