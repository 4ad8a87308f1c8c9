from veristream.actions import *

queue: Seq[Int[0, 3], 2] = []


@action
def step():
    queue.append(3)
