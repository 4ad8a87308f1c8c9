from veristream.actions import *


class Node(Role, count=2):
    n: Int[0, 1] = 0


peer: Maybe[Node] = Node[0]


@action
def step():
    global peer
    peer.n = 1
    peer = None
