from veristream.actions import *

queue: Seq[Int[0, 3], 2] = [1]
x: Int[0, 3] = 0


@action
def step():
    global x
    x = queue[x]
