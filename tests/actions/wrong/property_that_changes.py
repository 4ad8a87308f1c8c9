from veristream.actions import *

queue: Seq[Int[0, 3], 2] = []


@action
def step():
    queue.clear()


@always
def empty():
    queue.clear()
    return len(queue) == 0
