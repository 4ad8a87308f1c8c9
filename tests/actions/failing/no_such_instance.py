from veristream.actions import *


class Node(Role, count=2):
    pass


number: Int[0, 5] = 0
peer: Maybe[Node] = None


@action
def step():
    global peer, number
    peer = Node[number]
    number += 1
