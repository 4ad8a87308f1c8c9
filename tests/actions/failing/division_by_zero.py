from veristream.actions import *

x: Int[0, 3] = 3


@action
def step():
    global x
    x = 3 // x - 1
