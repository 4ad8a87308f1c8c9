from veristream.actions import *

x: Maybe[Int[0, 3]] = 3
y: Int[0, 9] = 0


@action
def step():
    global x, y
    y = x + 1
    x = None
