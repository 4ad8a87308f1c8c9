"""Functions that return values: branches, names, nested calls, methods, captured names."""

from veristream.actions import *

LIMIT = constant(2)


class Process(Role, count=3):
    ticket: Int[0, LIMIT] = 0
    waiting: bool = False

    def before(self, other):
        if self.ticket == other.ticket:
            return self.id < other.id
        return self.ticket < other.ticket

    def first(self):
        return all(self.before(p) for p in Process if p != self and p.waiting)

    def next(self):
        return Process[(self.id + 1) % len(Process)]

    @action
    def draw(self):
        require(not self.waiting)
        self.waiting = True
        self.ticket = bounded(highest() + 1)

    @action
    def serve(self):
        require(self.waiting and self.first())
        self.waiting = False
        self.ticket = 0
        if self.next().next().waiting:
            self.next().next().ticket = clamp(self.next().ticket, 0, LIMIT - 1)


def highest():
    found = 0
    if any(p.ticket == 1 for p in Process):
        found = 1
    if any(p.ticket == 2 for p in Process):
        found = found + 1 if found == 1 else 2
    return found


def bounded(n):
    return n if n <= LIMIT else LIMIT


def clamp(n, low: Int[0, 5], high):
    least = max(n, low)
    if least > high:
        least = high
    elif least == 0:
        pass
    return least


@always
def one_first():
    waiting = {p for p in Process if p.waiting}
    if len(waiting) == 0:
        return True
    return sum(p.first() for p in waiting) == 1


@leads_to
def served(p: Process):
    first = p.first()
    return p.waiting and first, not p.waiting
