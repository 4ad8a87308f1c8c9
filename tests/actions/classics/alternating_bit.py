"""The alternating bit protocol: messages in order over channels that lose them.

Bartlett, Scantlebury and Wilkinson, *A note on reliable full-duplex transmission over half-duplex
links* (1969). One bit is enough on channels that lose and repeat, if they keep the order; where a
message can be overtaken (`-D OVERTAKE=1`) an old one is taken for a new one. All arrives only if the
channels do not lose forever what is sent forever: strong fairness, weak is not enough.
"""

from veristream.actions import *

MESSAGES = constant(3)
CAPACITY = constant(2)
OVERTAKE = constant(0)


class Packet(Record):
    bit: Int[0, 1]
    number: Int[0, MESSAGES - 1]  # what is transmitted; the protocol looks at the bit alone


data: Seq[Packet, CAPACITY] = []
acknowledgements: Seq[Int[0, 1], CAPACITY] = []


class Sender(Role):
    bit: Int[0, 1] = 0
    sent: Int[0, MESSAGES] = 0  # acknowledged messages

    @action(fair="weak")
    def send(self):
        """For the first time or once more."""
        require(self.sent < MESSAGES and len(data) < CAPACITY)
        data.append(Packet(bit=self.bit, number=self.sent))

    @action(fair="weak")
    def hear(self):
        require(acknowledgements != [])
        bit = acknowledgements.pop(0)
        if bit == self.bit and self.sent < MESSAGES:
            self.sent += 1
            self.bit = 1 - self.bit


class Receiver(Role):
    bit: Int[0, 1] = 0  # of the message that is next
    received: Int[0, MESSAGES] = 0
    last: Int[-1, MESSAGES - 1] = -1

    @action(fair="weak")
    def receive(self):
        require(data != [])
        packet = data.pop(0)
        self.take(packet)

    @action
    def receive_the_newest(self):
        require(OVERTAKE == 1 and len(data) > 1)
        packet = data.pop()
        self.take(packet)

    @action(fair="weak")
    def acknowledge(self):
        """What came last, again and again."""
        require(self.received > 0 and len(acknowledgements) < CAPACITY)
        acknowledgements.append(1 - self.bit)

    def take(self, packet):
        if packet.bit == self.bit:
            self.bit = 1 - self.bit
            self.last = packet.number
            self.received = min(self.received + 1, MESSAGES)


@action
def lose_data():
    require(data != [])
    data.pop(0)


@action
def lose_acknowledgement():
    require(acknowledgements != [])
    acknowledgements.pop(0)


@always
def in_order():
    """What was received are the first messages, each once."""
    return all(r.last == r.received - 1 for r in Receiver)


@always
def one_step_apart():
    return 0 <= Receiver[0].received - Sender[0].sent <= 1


@eventually(fairness="strong-action")
def all_arrives():
    return Sender[0].sent == MESSAGES


@eventually
def all_arrives_whatever_is_lost():
    """Violated: every message can be lost."""
    return Sender[0].sent == MESSAGES


no_deadlock = deadlock_free()
