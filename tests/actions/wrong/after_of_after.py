from veristream.actions import *

x: Int[0, 3] = 0


@action
def step():
    pass


@transition
def rises():
    return after(after(x)) >= x
