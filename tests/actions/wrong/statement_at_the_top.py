from veristream.actions import *

x: Int[0, 3] = 0

for i in range(3):
    x += 1
