from veristream.actions import *


class R(Record):
    n: Int[0, 3] = 0


r: R = R()


@action
def step():
    global r
    r = R(n=r.n + 2)
