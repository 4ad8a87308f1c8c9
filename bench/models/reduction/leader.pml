/* Leader election on a one-way ring (Dolev, Klawe and Rodeh, 1982), in the style of the model that comes with
   SPIN: one process for each node, and channels declared as used by one reader and one writer. What differs
   from leader.net: a choice after a message is a step of its own, and so is an assignment after sending. */
#ifndef N
#define N 4
#endif
#define ROOM (2 * N)

mtype = { one, two, winner };
chan link[N] = [ROOM] of { mtype, byte };
byte leaders;

active [N] proctype node() {
  chan in = link[(_pid + N - 1) % N];
  chan out = link[_pid];
  byte mine = (N + 2 - _pid) % N + 1;
  byte maximum = mine;
  byte nr, neighbour;
  bool isactive = true, knows = false;
  xr in;
  xs out;

  out!one(mine);
end:
  do
  :: in?one(nr) ->
     if
     :: isactive ->
        if
        :: nr != maximum -> out!two(nr); neighbour = nr
        :: else -> assert(nr == N); knows = true; out!winner(nr)
        fi
     :: else -> out!one(nr)
     fi
  :: in?two(nr) ->
     if
     :: isactive ->
        if
        :: neighbour > nr && neighbour > maximum -> maximum = neighbour; out!one(neighbour)
        :: else -> isactive = false
        fi
     :: else -> out!two(nr)
     fi
  :: in?winner(nr) ->
     if
     :: nr == mine -> leaders++; assert(leaders == 1)
     :: else
     fi;
     if
     :: knows
     :: else -> out!winner(nr)
     fi;
     break
  od
}
