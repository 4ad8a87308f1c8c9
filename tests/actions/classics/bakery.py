"""Lamport's bakery: draw a number greater than all others, and wait for those with smaller ones.

L. Lamport, *A new solution of Dijkstra's concurrent programming problem* (1974). Every number is read
in a step of its own. It excludes, and serves in the order of the numbers; without the flag that says
that a process is choosing (`-D DOOR=0`) it does not exclude. Numbers grow without bound in the paper;
here a process that would need one above `LIMIT` goes home and may come back later.
"""

from veristream.actions import *

PROCESSES = constant(2)
LIMIT = constant(4)
DOOR = constant(1)


class Step(Enum):
    IDLE = 0
    CHOOSING = 1  # looks at the numbers of all, one after the other
    AT_THE_DOOR = 2  # waits until the next process has chosen
    IN_THE_QUEUE = 3  # waits until the next process is not before us
    CRITICAL = 4


class Process(Role, count=PROCESSES):
    step: Step = Step.IDLE
    choosing: bool = False
    number: Int[0, LIMIT] = 0
    greatest: Int[0, LIMIT] = 0  # of the numbers seen so far
    looked_at: Int[0, PROCESSES] = 0  # how many processes we are done with

    @action
    def come(self):
        """No fairness: a process may stay away forever."""
        require(self.step == Step.IDLE)
        self.choosing = True
        self.step = Step.CHOOSING

    @action(fair="weak")
    def look(self):
        require(self.step == Step.CHOOSING and self.looked_at < PROCESSES)
        self.greatest = max(self.greatest, Process[self.looked_at].number)
        self.looked_at += 1

    @action(fair="weak")
    def draw(self):
        require(self.step == Step.CHOOSING and self.looked_at == PROCESSES)
        if self.greatest < LIMIT:
            self.number = self.greatest + 1
            self.step = Step.AT_THE_DOOR
        else:
            self.step = Step.IDLE
        self.choosing = False
        self.greatest = 0
        self.looked_at = 0

    @action(fair="weak")
    def pass_the_door(self):
        require(self.step == Step.AT_THE_DOOR and self.looked_at < PROCESSES)
        require(DOOR == 0 or not Process[self.looked_at].choosing)
        self.step = Step.IN_THE_QUEUE

    @action(fair="weak")
    def move_up(self):
        require(self.step == Step.IN_THE_QUEUE)
        require(not Process[self.looked_at].is_before(self))
        self.looked_at += 1
        self.step = Step.AT_THE_DOOR

    @action(fair="weak")
    def enter(self):
        require(self.step == Step.AT_THE_DOOR and self.looked_at == PROCESSES)
        self.looked_at = 0
        self.step = Step.CRITICAL

    @action(fair="weak")
    def leave(self):
        require(self.step == Step.CRITICAL)
        self.number = 0
        self.step = Step.IDLE

    def is_before(self, other):
        """Equal numbers are possible; then the process with the smaller name goes first."""
        if self.number == other.number:
            return self.number > 0 and self.id < other.id
        return 0 < self.number < other.number


@always
def mutual_exclusion():
    return sum(p.step == Step.CRITICAL for p in Process) <= 1


@always
def numbers_differ():
    """Violated: two that look at the same time draw the same number; hence the names."""
    return all(p.number == 0 or p.number != q.number for p in Process for q in Process if p != q)


@exists
def the_limit_is_drawn():
    return any(p.number == LIMIT for p in Process)


@leads_to
def who_draws_comes_in(p: Process):
    """Unless the numbers run out: then others can come, go home and come again in front of the door."""
    return p.number > 0, p.step == Step.CRITICAL or any(q.number == LIMIT for q in Process)


no_deadlock = deadlock_free()
