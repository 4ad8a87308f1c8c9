from veristream.actions import *

x: Int[0, 3] = 0


@action
def x():
    pass
