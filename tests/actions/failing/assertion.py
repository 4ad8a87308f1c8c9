from veristream.actions import *

x: Int[0, 3] = 0


@action
def step():
    global x
    assert x < 1, "x is small"
    x += 1
