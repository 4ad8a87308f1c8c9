"""Loops: accumulators, names set inside, nested loops, empty ranges, names that survive an iteration."""

from veristream.actions import *

N = constant(2)


class Cell(Role, count=3):
    value: Int[0, 2] = 0

    @action
    def turn(self):
        require(self.id < 2)
        self.value = (self.value + 1) % 3


total: Int[0, 20] = 0
best: Maybe[Cell] = None
trace: Seq[Int[0, 3], 2] = []


@action
def add_up():
    global total, best
    count = 0
    highest = 0
    for c in Cell:
        for d in Cell:
            if c.id < d.id and c.value == d.value:
                count += 1
        if c.value > highest:
            highest = c.value
            best = c
    factor = 1
    for _ in range(N):
        factor = factor * 2
    for _ in range(N, N):
        factor = 100
    total = count * factor + highest


@action
def walk():
    """The loop over the sequence reads what it changes elsewhere."""
    global total
    require(len(trace) < 2)
    trace.append(total % 4)
    position = 0
    for n in trace:
        position += 1
        if n > position:
            Cell[position - 1].value = n % 3
    for c in Cell:
        step = c.value
        total = (total + step * position) % 7


@action
def restart():
    require(len(trace) == 2 and all(c.value == 0 for c in Cell if c != best))
    trace.clear()


@exists
def high():
    return total > 5 and best is not None and best.value == 2
