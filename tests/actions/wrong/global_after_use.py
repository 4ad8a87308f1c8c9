from veristream.actions import *

x: Int[0, 3] = 0


@action
def step():
    require(x < 3)
    global x
    x += 1
