"""RabbitMQ as its clients see it: a publisher with or without confirms, and consumers that requeue.

Nothing crashes here, unlike in `rabbitmq_queue`: what is lost is lost on the way to the broker, and what
is out of order is so because a consumer gave it back. The actions have the names of client calls and of
the broker's methods, so that each run can be executed: a proxy holds what was published, or cuts the
connection.

A message that is requeued returns to its place in a classic queue. So a later one overtakes it only if it
was delivered already: to the same consumer, which may hold `PREFETCH` messages, or to another one.
"""

from veristream.actions import *

CONFIRMS = constant(False)  # 1: the publisher waits for confirms, and publishes again what it misses
MESSAGES = constant(2)
CONSUMERS = constant(1)
PREFETCH = constant(2)  # basic.qos of each consumer
CUTS = constant(0)  # of the publisher's connection
REQUEUES = constant(0)

COPIES_MAX = MESSAGES * (CUTS + 1)

cuts: Int[0, CUTS] = 0
requeues: Int[0, REQUEUES] = 0
wire: Seq[Int[0, MESSAGES - 1], COPIES_MAX] = []  # from the publisher to the broker
ready: Seq[Int[0, MESSAGES - 1], COPIES_MAX] = []  # in the queue, without those that a consumer holds
confirming: Set[Int[0, MESSAGES - 1]] = set()  # confirms that the broker owes or that are under way
delivered: Set[Int[0, MESSAGES - 1]] = set()  # to any consumer
disorder: bool = False  # a message was delivered for the first time after a later one


class Publisher(Role):
    next: Int[0, MESSAGES] = 0
    unsure: Set[Int[0, MESSAGES - 1]] = set()  # published, with neither a confirm nor a hope of one
    acknowledged: Set[Int[0, MESSAGES - 1]] = set()  # what the application takes for done

    @action(fair="weak")
    def publish(self):
        require(self.next < MESSAGES)
        wire.append(self.next)
        if not CONFIRMS:
            self.acknowledged.add(self.next)
        self.next += 1

    @action(fair="weak")
    def confirm(self, message: Int[0, MESSAGES - 1]):
        require(message in confirming)
        confirming.discard(message)
        self.unsure.discard(message)
        self.acknowledged.add(message)

    @action
    def cut(self):
        """The connection breaks with all that is on its way in either direction; another one is opened."""
        global cuts
        require(cuts < CUTS)
        cuts += 1
        wire.clear()
        confirming.clear()
        for message in range(MESSAGES):
            if CONFIRMS and message < self.next and message not in self.acknowledged:
                self.unsure.add(message)

    @action(fair="weak")
    def publish_again(self, message: Int[0, MESSAGES - 1]):
        require(message in self.unsure)
        self.unsure.discard(message)
        wire.append(message)


class Broker(Role):
    @action(fair="weak")
    def enqueue(self):
        """Takes the next message from the connection; it is confirmed once it is in the queue."""
        require(len(wire) > 0)
        message = wire[0]
        wire.pop(0)
        ready.append(message)
        if CONFIRMS:
            confirming.add(message)


class Consumer(Role, count=CONSUMERS):
    has: Seq[Int[0, MESSAGES - 1], PREFETCH] = []  # delivered, neither acknowledged nor given back
    received: Set[Int[0, MESSAGES - 1]] = set()
    overtaken: bool = False  # a message came after a later one

    @action(fair="weak")
    def deliver(self):
        """basic.deliver of the head of the queue."""
        global disorder
        require(len(ready) > 0 and len(self.has) < PREFETCH)
        message = ready[0]
        self.overtaken = self.overtaken or any(other > message for other in self.received)
        disorder = disorder or (message not in delivered and any(other > message for other in delivered))
        delivered.add(message)
        ready.pop(0)
        self.has.append(message)
        self.received.add(message)

    @action(fair="weak")
    def acknowledge(self):
        """basic.ack of the message that the application is at."""
        require(len(self.has) > 0)
        self.has.pop(0)

    @action
    def requeue(self):
        """basic.nack with requeue, of the message that the application is at."""
        global requeues
        require(requeues < REQUEUES and len(self.has) > 0)
        requeues += 1
        message = self.has[0]
        self.has.pop(0)
        restore(message)


def restore(message):
    """Puts a message back at its place: messages are numbered in the order of publishing."""
    ready.append(message)
    for _ in range(COPIES_MAX - 1):
        for k in range(COPIES_MAX - 1):
            if k + 1 < len(ready) and ready[k] > ready[k + 1]:
                swap(k)


def swap(k):
    """Exchanges two neighbours."""
    first = ready[k]
    ready[k] = ready[k + 1]
    ready[k + 1] = first


@always
def acknowledged_is_delivered(message: Int[0, MESSAGES - 1]):
    """What the publisher takes for done is on its way, in the queue, or was delivered."""
    return (
        message not in Publisher[0].acknowledged
        or message in wire
        or message in ready
        or message in delivered
    )


@always
def delivered_in_order():
    """First deliveries are in the order of publishing."""
    return not disorder


@always
def handled_in_order(consumer: Consumer):
    """No delivery to a consumer, first or not, comes after that of a later message."""
    return not consumer.overtaken


@always
def stored_once(message: Int[0, MESSAGES - 1]):
    """The broker never has two copies of a message, in the queue and with consumers."""
    places = sum(ready[k] == message for k in range(COPIES_MAX) if k < len(ready)) + sum(
        one.has[k] == message for one in Consumer for k in range(PREFETCH) if k < len(one.has)
    )
    return places <= 1


@exists
def everything_is_done():
    return (
        len(Publisher[0].acknowledged) == MESSAGES
        and wire == []
        and ready == []
        and all(one.has == [] for one in Consumer)
        and cuts == CUTS
        and requeues == REQUEUES
    )
