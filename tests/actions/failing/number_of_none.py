from veristream.actions import *

x: Int[-1, 3] = 0
y: Maybe[Int[0, 3]] = None


@action
def step():
    global x, y
    y = x
    x = -1
