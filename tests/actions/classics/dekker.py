"""Dekker's mutual exclusion for two processes, the first solution with loads and stores alone.

E. W. Dijkstra, *Cooperating sequential processes* (1965), section 2.1. It excludes and starves nobody
if every process that can go on does; without the turn (`-D POLITE=0`), the section's third attempt,
it still excludes, but both can raise their flags and wait for each other forever.
"""

from veristream.actions import *

POLITE = constant(1)


class Step(Enum):
    IDLE = 0
    CHECKING = 1  # the flag is up: is the other's?
    YIELDING = 2  # the flag is down until it is our turn
    CRITICAL = 3
    LEAVING = 4  # the turn is given away, the flag still up


class Process(Role, count=2):
    step: Step = Step.IDLE
    flag: bool = False

    def other(self):
        return Process[1 - self.id]

    @action
    def ask(self):
        """No fairness: a process may stay away forever."""
        require(self.step == Step.IDLE)
        self.flag = True
        self.step = Step.CHECKING

    @action(fair="weak")
    def enter(self):
        require(self.step == Step.CHECKING and not self.other().flag)
        self.step = Step.CRITICAL

    @action(fair="weak")
    def give_way(self):
        require(POLITE == 1 and self.step == Step.CHECKING)
        require(self.other().flag and turn != self)
        self.flag = False
        self.step = Step.YIELDING

    @action(fair="weak")
    def ask_again(self):
        require(self.step == Step.YIELDING and turn == self)
        self.flag = True
        self.step = Step.CHECKING

    @action(fair="weak")
    def leave(self):
        global turn
        require(self.step == Step.CRITICAL)
        turn = self.other()
        self.step = Step.LEAVING

    @action(fair="weak")
    def lower_flag(self):
        require(self.step == Step.LEAVING)
        self.flag = False
        self.step = Step.IDLE


turn: Process = Process[0]


@always
def mutual_exclusion():
    return not all(p.step == Step.CRITICAL for p in Process)


@leads_to
def who_asks_comes_in(p: Process):
    return p.step in {Step.CHECKING, Step.YIELDING}, p.step == Step.CRITICAL


no_deadlock = deadlock_free()
