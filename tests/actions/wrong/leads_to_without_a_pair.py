from veristream.actions import *

x: Int[0, 3] = 0


@action
def step():
    pass


@leads_to
def goes_on():
    return x > 0
