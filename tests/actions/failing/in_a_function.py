from veristream.actions import *

x: Int[0, 2] = 0


def bump(n):
    global x
    x = n + 1


@action
def step():
    bump(x)
