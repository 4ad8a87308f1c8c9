/* The messaging of kafka.net as a user of SPIN writes it, for two followers of each partition. An assignment
   after a message is one atomic step with it, as in kafka.net. What differs: the end of a loop is a step of its
   own, messages to the two followers are written one after the other instead of counted, and channels between
   two processes are declared as used by one reader and one writer where SPIN allows it. */
#ifndef PARTITIONS
#define PARTITIONS 2
#endif
#ifndef RECORDS
#define RECORDS 1
#endif

mtype = { ok };
chan ask = [PARTITIONS] of { byte };
chan told[PARTITIONS] = [1] of { byte };
chan publish[PARTITIONS] = [1] of { byte };
chan acknowledge[PARTITIONS] = [1] of { mtype };
chan replicate[PARTITIONS * 2] = [1] of { byte };
chan stored[PARTITIONS * 2] = [1] of { mtype };
chan join = [PARTITIONS] of { byte };
chan assign[PARTITIONS] = [1] of { byte };
chan fetch[PARTITIONS] = [1] of { mtype };
chan deliver[PARTITIONS] = [1] of { byte };

proctype zookeeper() {
  byte p;
  xr ask;
end:
  do
  :: ask?p -> told[p]!p
  od
}

proctype producer(byte p) {
  byte sent, l;
  do
  :: sent < RECORDS ->
     ask!p;
     told[p]?l;
     atomic { publish[l]!(sent + 1); sent++ };
     acknowledge[p]?ok
  :: else -> break
  od
}

proctype leader(chan records, fetches, first, second, first_stored, second_stored; byte l) {
  byte log, committed, read;
  xr records;
  xr fetches;
  xs first;
  xs second;
  xr first_stored;
  xr second_stored;
end:
  do
  :: records?log ->
     first!log;
     second!log;
     first_stored?ok;
     atomic { second_stored?ok; committed = log };
     acknowledge[l]!ok
  :: atomic { read < committed && nempty(fetches) -> fetches?ok; read++ };
     deliver[l]!read
  od
}

proctype follower(chan in, out) {
  byte log;
  xr in;
  xs out;
end:
  do
  :: in?log -> out!ok
  od
}

proctype coordinator() {
  byte c, joined;
  xr join;
  do
  :: joined < PARTITIONS -> atomic { join?c; joined++ }
  :: else -> break
  od;
  c = 0;
  do
  :: c < PARTITIONS -> atomic { assign[c]!c; c++ }
  :: else -> break
  od
}

proctype consumer(byte c) {
  byte partition, got, r;
  join!c;
  assign[c]?partition;
  do
  :: got < RECORDS ->
     fetch[partition]!ok;
     atomic { deliver[c]?r; assert(r == got + 1); got = r }
  :: else -> break
  od
}

init {
  byte l;
  atomic {
    run zookeeper();
    run coordinator();
    for (l : 0 .. PARTITIONS - 1) {
      run producer(l);
      run leader(publish[l], fetch[l], replicate[2 * l], replicate[2 * l + 1], stored[2 * l], stored[2 * l + 1], l);
      run consumer(l);
      run follower(replicate[2 * l], stored[2 * l]);
      run follower(replicate[2 * l + 1], stored[2 * l + 1])
    }
  }
}
