from veristream.actions import *

x: Int[0, 2] = 0


@action
def step():
    global x
    x += 1
