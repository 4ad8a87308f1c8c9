from veristream.actions import *

seen: Set[Int[0, 3]] = {1}


@action
def step():
    seen.remove(1)
