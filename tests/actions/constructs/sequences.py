"""Sequences: both ends, indices, loops, equality with literals, a bound that is exceeded."""

from veristream.actions import *

BOUND = constant(3)
SHORT = BOUND - 1

queue: Seq[Int[0, 1], BOUND] = [1]
log: Seq[Int[0, 1], SHORT] = []
seen: Map[Int[0, 2], Int[0, 1]] = 0
last: Int[0, 1] = 0


@action
def put(n: Int[0, 1]):
    require(n not in queue or len(queue) > 1)
    queue.append(n)


@action
def take():
    require(len(queue) > 0 and len(log) < SHORT)
    n = queue.pop(0)
    log.append(n)


@action
def take_newest():
    global last
    require(queue != [])
    seen[len(queue)] = queue.pop()
    last = seen[0]


@action
def rotate():
    require(len(queue) > 1)
    queue.append(queue[0])
    queue.pop(0)
    queue[0] = queue[-1]


@action
def rewrite():
    global log
    require(len(log) == SHORT or log == [0, 1])
    log = [log[-1], log[0]]
    log[0] = log.pop(0)


@action
def count():
    """The range is that of the length at the start."""
    global last
    require(len(queue) == 2)
    for i in range(len(queue)):
        queue.append(queue[i])
        last = i
    queue.clear()


@action
def peek():
    """Fails where the queue is empty."""
    global last
    require(len(log) == 1)
    last = queue[-1]


@always
def few():
    return sum(1 for n in queue if n == 1) <= 1 or any(n == m for n in queue for m in log)
