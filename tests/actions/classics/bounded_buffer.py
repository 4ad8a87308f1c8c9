"""Producers and consumers share a bounded buffer, a lock and one condition to wait on.

The blocking queue of M. Charpentier's lectures, later M. Kuppe's TLA+ tutorial *BlockingQueue*: who
puts or takes something wakes any one that sleeps, a producer or a consumer. It is free of deadlock if
and only if there are at most twice as many threads as places in the buffer. Waking all of them
(`-D WAKE_ALL=1`) is the repair.
"""

from veristream.actions import *

PRODUCERS = constant(2)
CONSUMERS = constant(1)
CAPACITY = constant(1)
WAKE_ALL = constant(0)


class Thread(Role, count=PRODUCERS + CONSUMERS):
    """The first are producers, the others consumers; each step is made while holding the lock."""

    def produces(self):
        return self.id < PRODUCERS

    @action
    def put(self, woken: Maybe[Thread]):
        require(self.produces() and self not in asleep and len(buffer) < CAPACITY)
        require(can_wake(woken))
        buffer.append(self)
        wake(woken)

    @action
    def take(self, woken: Maybe[Thread]):
        require(not self.produces() and self not in asleep and len(buffer) > 0)
        require(can_wake(woken))
        buffer.pop(0)
        wake(woken)

    @action
    def fall_asleep(self):
        require(self not in asleep)
        require(len(buffer) == CAPACITY if self.produces() else len(buffer) == 0)
        asleep.add(self)


buffer: Seq[Thread, CAPACITY] = []  # who produced
asleep: Set[Thread] = set()


def can_wake(woken):
    """Somebody who sleeps, or nobody where nobody sleeps; all are woken at once in the repair."""
    if asleep == set() or WAKE_ALL == 1:
        return woken is None
    return woken is not None and woken in asleep


def wake(woken):
    if WAKE_ALL == 1:
        asleep.clear()
    elif woken is not None:
        asleep.remove(woken)


@always
def somebody_is_awake():
    """The tutorial's invariant: its violation is the deadlock."""
    return len(asleep) < len(Thread)


@always
def only_producers_fill_it():
    return all(t.produces() for t in buffer)


@exists
def the_buffer_fills_up():
    return len(buffer) == CAPACITY


no_deadlock = deadlock_free()
