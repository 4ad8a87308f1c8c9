from veristream.actions import *

bag: Bag[Int[0, 3], 2] = [1]


@action
def step():
    bag.remove(1)
