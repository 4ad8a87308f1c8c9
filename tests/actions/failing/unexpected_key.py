from veristream.actions import *

x: Int[0, 5] = 0
table: Map[Int[0, 2], bool] = False


@action
def step():
    global x
    table[x] = True
    x += 3
