"""Functions that change the state: arguments keep their values at the call, aliases do not."""

from veristream.actions import *


class Box(Role, count=2):
    items: Seq[Int[0, 2], 2] = []
    total: Int[0, 4] = 0

    def put(self, n):
        self.items.append(n)
        self.total += n

    def is_full(self):
        return len(self.items) == 2

    @action
    def fill(self, n: Int[0, 2]):
        require(not self.is_full())
        self.put(n)
        move(self, Box[1 - self.id], self.total)

    @action
    def empty(self):
        require(self.is_full())
        drain(self.items, self.total)
        self.total = 0


moved: Int[0, 6] = 0
marks: Set[Int[0, 4]] = set()


def move(source, target, before):
    """`before` is what it was, whatever happens here."""
    global moved
    source.total = 0
    note(marks, before)
    if not target.is_full() and before > 1:
        target.put(before - 1)
        source.items.pop()
    source.total = before if target.total == before else min(4, before + source.total)
    before = before + 1
    moved = before


def note(where, n):
    n = n % 5
    where.add(n)


def drain(queue, n):
    for _ in range(2):
        first = queue.pop(0)
        n = n - first if n > 0 else 0
    if n == 0 and len(queue) == 0:
        marks.clear()


@always
def consistent():
    return all(len(b.items) > 0 or b.total < 4 for b in Box)
