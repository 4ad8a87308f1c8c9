from veristream.actions import *

queue: Seq[Int[0, 3], 2] = [1]


@action
def step():
    require(queue[0] == 1)
    queue.clear()
