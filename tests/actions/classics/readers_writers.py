"""Readers and writers: many may read at once, a writer must be alone.

Courtois, Heymans and Parnas, *Concurrent control with "readers" and "writers"* (1971). In their first
problem no reader waits because a writer does: writers may starve. In the second
(`-D WRITERS_FIRST=1`) no reader begins while a writer waits: readers may starve.
"""

from veristream.actions import *

READERS = constant(3)
WRITERS = constant(2)
WRITERS_FIRST = constant(0)


class Step(Enum):
    AWAY = 0
    WAITING = 1
    BUSY = 2


class Reader(Role, count=READERS):
    step: Step = Step.AWAY

    @action
    def ask(self):
        require(self.step == Step.AWAY)
        self.step = Step.WAITING

    @action(fair="strong")
    def begin(self):
        require(self.step == Step.WAITING)
        require(all(w.step != Step.BUSY for w in Writer))
        require(WRITERS_FIRST == 0 or all(w.step != Step.WAITING for w in Writer))
        self.step = Step.BUSY

    @action(fair="weak")
    def end(self):
        require(self.step == Step.BUSY)
        self.step = Step.AWAY


class Writer(Role, count=WRITERS):
    step: Step = Step.AWAY

    @action
    def ask(self):
        require(self.step == Step.AWAY)
        self.step = Step.WAITING

    @action(fair="strong")
    def begin(self):
        require(self.step == Step.WAITING)
        require(all(r.step != Step.BUSY for r in Reader))
        require(all(w.step != Step.BUSY for w in Writer))
        self.step = Step.BUSY

    @action(fair="weak")
    def end(self):
        require(self.step == Step.BUSY)
        self.step = Step.AWAY


@always
def writers_are_alone():
    writing = sum(w.step == Step.BUSY for w in Writer)
    reading = sum(r.step == Step.BUSY for r in Reader)
    return writing == 0 or (writing == 1 and reading == 0)


@exists
def all_read_at_once():
    return all(r.step == Step.BUSY for r in Reader)


@leads_to
def readers_get_in(r: Reader):
    """Holds in the first problem, not in the second."""
    return r.step == Step.WAITING, r.step == Step.BUSY


@leads_to
def writers_get_in(w: Writer):
    """Holds in the second problem, not in the first."""
    return w.step == Step.WAITING, w.step == Step.BUSY


no_deadlock = deadlock_free()
