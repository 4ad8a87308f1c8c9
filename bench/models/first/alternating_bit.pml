/* The alternating bit protocol of models/alternating_bit as a user of SPIN writes it. What differs: the answer
   to a message is computed in steps of its own. */
#ifndef VALUES
#define VALUES 3
#endif
#ifndef CAPACITY
#define CAPACITY 2
#endif

chan data = [CAPACITY] of { byte, bit };
chan acks = [CAPACITY] of { bit };

active proctype sender() {
  byte value;
  bit b, a;
  xs data;
  do
  :: data!value, b
  :: acks?a ->
     if
     :: a == b -> b = 1 - b; value = (value + 1) % VALUES
     :: else
     fi
  od
}

active proctype receiver() {
  byte value, awaited;
  bit b, expected;
  xs acks;
  do
  :: data?value, b ->
     if
     :: b == expected ->
        assert(value == awaited);
        awaited = (awaited + 1) % VALUES;
        expected = 1 - expected
     :: else
     fi;
     acks!b
  od
}

active proctype line() {
  do
  :: data?_, _
  :: acks?_
  od
}
