from veristream.actions import *

N = constant(5)
x: Int[0, 3] = N
