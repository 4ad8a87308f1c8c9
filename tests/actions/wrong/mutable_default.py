from veristream.actions import *

x: Int[0, 3] = 0


def note(n, log=[]):
    log.append(n)


@action
def step():
    note(x)
