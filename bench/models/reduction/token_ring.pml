/* The token ring of token_ring.net as a user of SPIN writes it, with channels declared as used by one reader
   and one writer. What differs: mutual exclusion is an assertion where the token is
   used, which is a step of its own, and so is the choice of who makes the token. */
#ifndef N
#define N 8
#endif

mtype = { token };
chan link[N] = [1] of { mtype };
byte users;

active [N] proctype station() {
  chan in = link[_pid];
  chan out = link[(_pid + 1) % N];
  xr in;
  xs out;

  if
  :: _pid == 0 -> out!token
  :: else
  fi;
  do
  :: in?token -> out!token
  :: skip ->  /* work until the token is needed */
     in?token;
     users++;
     assert(users == 1);
     users--;
     out!token
  od
}
