"""A bag of records: messages that are lost, repeated and taken in any order."""

from veristream.actions import *

CAPACITY = constant(2)


class Kind(Enum):
    PING = 0
    PONG = 1


class Node(Role, count=2):
    sent: Int[0, 2] = 0
    got: Set[Kind] = set()

    @action
    def send(self, other: Node):
        require(other != self and self.sent < 2)
        network.add(Message(Kind.PING, sender=self, number=self.sent, to=other))
        self.sent += 1

    @action
    def receive(self):
        m = any_of(network)
        require(m.to == self)
        network.remove(m)
        self.got.add(m.kind)
        if m.kind == Kind.PING:
            network.add(replace(m, kind=Kind.PONG, sender=m.to, to=m.sender))


class Message(Record):
    kind: Kind
    sender: Node
    to: Node
    number: Int[0, 1] = 0


network: Bag[Message, CAPACITY] = []


@action
def lose():
    m = any_of(network)
    network.remove(m)


@action
def repeat():
    """Fails where the bag is full."""
    m = any_of(network)
    require(m.number == 1)
    network.add(m)


@action
def drop_all():
    require(len(network) == CAPACITY and Message(Kind.PONG, Node[0], Node[1], 1) in network)
    network.clear()


@always
def not_to_oneself():
    return all(m.sender != m.to for m in network)


@leads_to
def answered(n: Node):
    return any(m.sender == n and m.kind == Kind.PING for m in network), Kind.PONG in n.got
