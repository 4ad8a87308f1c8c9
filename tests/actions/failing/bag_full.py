from veristream.actions import *

bag: Bag[Int[0, 3], 2] = []


@action
def step():
    bag.add(3)
