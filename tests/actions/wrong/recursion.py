from veristream.actions import *

class Kind(Enum):
    PING = 0
    PONG = 1


class Message(Record):
    kind: Kind
    number: Int[0, 3] = 0


class Node(Role, count=2):
    count: Int[0, 3] = 0
    peer: Maybe[Node] = None


x: Int[0, 3] = 0
flag: bool = False
seen: Set[Int[0, 3]] = set()
queue: Seq[Int[0, 3], 2] = []
network: Bag[Message, 2] = []
table: Map[Kind, Int[0, 3]] = 0


@action
def step():
    down(x)


def down(n):
    queue.append(n)
    down(n - 1)
