from veristream.actions import *

x: Int[0, 3] = 0


@always
def small():
    return x < 4
