from veristream.actions import *

x: Int[0, 3] = 0


def min(a, b):
    return a
