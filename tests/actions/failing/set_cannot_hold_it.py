from veristream.actions import *

seen: Set[Int[0, 3]] = set()
x: Int[0, 9] = 0


@action
def step():
    global x
    x += 2
    seen.add(x)
