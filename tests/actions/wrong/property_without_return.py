from veristream.actions import *

x: Int[0, 3] = 0


@action
def step():
    pass


@always
def small():
    if x < 3:
        return True
