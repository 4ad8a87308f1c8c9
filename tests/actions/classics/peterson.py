"""Peterson's mutual exclusion for two processes, each read and write a step of its own.

G. L. Peterson, *Myths about the mutual exclusion problem* (1981). It excludes and starves nobody. With
the two writes of the entry the wrong way round (`-D SWAPPED=1`) both processes come in: the usual
exercise of textbooks.
"""

from veristream.actions import *

SWAPPED = constant(0)


class Step(Enum):
    IDLE = 0
    WRITTEN = 1  # the first of the two writes is done
    WAITING = 2
    CRITICAL = 3


class Process(Role, count=2):
    step: Step = Step.IDLE
    flag: bool = False

    def other(self):
        return Process[1 - self.id]

    def raise_flag(self):
        self.flag = True

    def give_way(self):
        global turn
        turn = self.other()

    @action
    def ask(self):
        """No fairness: a process may stay away forever."""
        require(self.step == Step.IDLE)
        if SWAPPED == 0:
            self.raise_flag()
        else:
            self.give_way()
        self.step = Step.WRITTEN

    @action(fair="weak")
    def ask_politely(self):
        require(self.step == Step.WRITTEN)
        if SWAPPED == 0:
            self.give_way()
        else:
            self.raise_flag()
        self.step = Step.WAITING

    @action(fair="weak")
    def enter(self):
        require(self.step == Step.WAITING and (not self.other().flag or turn == self))
        self.step = Step.CRITICAL

    @action(fair="weak")
    def leave(self):
        require(self.step == Step.CRITICAL)
        self.flag = False
        self.step = Step.IDLE


turn: Process = Process[0]


@always
def mutual_exclusion():
    return not all(p.step == Step.CRITICAL for p in Process)


@leads_to
def who_asks_comes_in(p: Process):
    return p.step != Step.IDLE, p.step == Step.CRITICAL


@eventually
def each_comes_in(p: Process):
    """Violated: nobody has to ask."""
    return p.step == Step.CRITICAL


no_deadlock = deadlock_free()
