from veristream.actions import *

x: Int[0, 3] = 0


@action
def step():
    global x
    x = 3 - x


def forgotten():
    global x
    x = 1
