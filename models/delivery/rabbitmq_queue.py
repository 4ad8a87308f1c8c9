"""What RabbitMQ's settings promise of one queue: confirms, durability, mirrors and quorums, and prefetch.

A producer publishes numbered messages; the queue's leader keeps them, and copies them to mirrors or
followers. Nodes are killed and return with what is on their disks. A consumer holds up to `PREFETCH`
messages; it acknowledges them, rejects one, or loses its connection, and what it held is delivered again,
at its place in the queue.

Real nodes are run under the same settings by `veristream reproduce --real rabbitmq`.
"""

from veristream.actions import *

KIND = constant(
    0
)  # 0: a classic queue on one node; 1: mirrored, synchronised by hand only; 2: a quorum queue
CONFIRMS = constant(True)  # 0: publishing counts as acknowledged
PERSISTENT = constant(True)  # delivery mode 2; a quorum queue stores everything
PREFETCH = constant(1)
MESSAGES = constant(2)
NODES = constant(1)
KILLS = constant(1)
REJECTS = constant(0)
CUTS = constant(0)  # of the consumer's connection

CLASSIC = 0
MIRRORED = 1
QUORUM = 2

kills: Int[0, KILLS] = 0
rejects: Int[0, REJECTS] = 0
cuts: Int[0, CUTS] = 0
wire: Set[Int[0, MESSAGES - 1]] = set()  # published, not yet at the leader
held: Set[Int[0, MESSAGES - 1]] = set()  # by the consumer, as the leader knows


class Node(Role, count=NODES):
    up: bool = True
    joined: bool = True  # a mirror gets what is published from now on
    queue: Set[Int[0, MESSAGES - 1]] = set()  # in memory
    disk: Set[Int[0, MESSAGES - 1]] = set()

    @action
    def store(self):
        message = any_of(self.queue)
        require(self.up and (PERSISTENT or KIND == QUORUM) and message not in self.disk)
        self.disk.add(message)

    @action
    def clean(self):
        """Removes from disk what the consumer has acknowledged."""
        message = any_of(self.disk)
        require(
            leader is not None and self.up and message not in self.queue and message not in leader.queue
        )
        self.disk.discard(message)

    @action
    def copy(self):
        """A follower of a quorum queue writes what the leader has."""
        require(KIND == QUORUM and self.up and leader is not None and leader != self)
        message = any_of(leader.queue)
        require(message not in self.disk)
        self.disk.add(message)

    @action
    def kill(self):
        global kills, leader
        require(self.up and kills < KILLS)
        kills += 1
        self.up = False
        self.joined = False
        self.queue.clear()
        if leader == self:
            leader = None
            wire.clear()
            held.clear()

    @action(fair="weak")
    def restart(self):
        """A mirror returns empty while another node leads, and is not synchronised."""
        require(not self.up)
        self.up = True
        if KIND == MIRRORED and leader is not None:
            self.disk.clear()

    @action
    def join(self):
        require(KIND == MIRRORED and self.up and not self.joined and leader is not None)
        self.joined = True

    @action(fair="weak")
    def lead(self):
        """A mirror with what it has (ha-promote-on-failure=always), else what is on disk."""
        global leader
        require(leader is None and self.up)
        require(KIND != MIRRORED or self.joined or all(not one.joined for one in Node))
        require(KIND != QUORUM or 2 * sum(one.up and one.disk <= self.disk for one in Node) > NODES)
        leader = self
        if KIND != MIRRORED or not self.joined:
            self.queue = self.disk
        self.joined = True


leader: Maybe[Node] = None


class Producer(Role):
    next: Int[0, MESSAGES] = 0
    acknowledged: Set[Int[0, MESSAGES - 1]] = set()

    @action(fair="weak")
    def publish(self):
        require(leader is not None and self.next < MESSAGES)
        wire.add(self.next)
        if not CONFIRMS:
            self.acknowledged.add(self.next)
        self.next += 1

    @action(fair="weak")
    def arrive(self):
        """The leader takes the next message, and all mirrors that have joined do."""
        message = any_of(wire)
        require(leader is not None and all(other >= message for other in wire))
        wire.discard(message)
        for one in Node:
            if one == leader or (KIND == MIRRORED and one.up and one.joined):
                one.queue.add(message)

    @action(fair="weak")
    def confirm(self, message: Int[0, MESSAGES - 1]):
        """A transient message is confirmed when it is in the queue, others when they are on disk."""
        require(CONFIRMS and leader is not None and message in leader.queue)
        require(message not in self.acknowledged)
        require(
            2 * sum(message in one.disk for one in Node) > NODES
            if KIND == QUORUM
            else not PERSISTENT
            or all(message in one.disk for one in Node if one == leader or (one.up and one.joined))
        )
        self.acknowledged.add(message)


class Consumer(Role):
    received: Set[Int[0, MESSAGES - 1]] = set()
    has: Set[Int[0, MESSAGES - 1]] = set()
    done: Set[Int[0, MESSAGES - 1]] = set()  # acknowledged
    twice: bool = False
    again: bool = False  # something acknowledged was delivered again
    disorder: bool = False  # a message came for the first time after a later one

    @action(fair="weak")
    def receive(self, message: Int[0, MESSAGES - 1]):
        require(leader is not None and len(self.has) < PREFETCH and message in leader.queue)
        require(message not in held and all(other in held or other >= message for other in leader.queue))
        held.add(message)
        self.has.add(message)
        self.twice = self.twice or message in self.received
        self.again = self.again or message in self.done
        self.disorder = self.disorder or (
            message not in self.received and any(other > message for other in self.received)
        )
        self.received.add(message)

    @action(fair="weak")
    def acknowledge(self, message: Int[0, MESSAGES - 1]):
        """The client is not told whether the acknowledgement arrived."""
        require(message in self.has)
        self.has.discard(message)
        self.done.add(message)
        if leader is not None and message in held:
            held.discard(message)
            for one in Node:
                if one.up:
                    one.queue.discard(message)

    @action
    def reject(self, message: Int[0, MESSAGES - 1]):
        global rejects
        require(rejects < REJECTS and message in self.has and message in held)
        rejects += 1
        self.has.discard(message)
        held.discard(message)

    @action
    def cut(self):
        """The consumer's connection breaks, and it opens another one."""
        global cuts
        require(cuts < CUTS and self.has != set())
        cuts += 1
        self.has.clear()
        held.clear()

    @action(fair="weak")
    def notice_loss(self):
        require(leader is None and self.has != set())
        self.has.clear()


@always
def acknowledged_is_delivered(message: Int[0, MESSAGES - 1]):
    """What was acknowledged to the producer was delivered, or whoever leads has it."""
    return (
        leader is None
        or message not in Producer[0].acknowledged
        or message in Consumer[0].received
        or message in leader.queue
        or message in wire
    )


@always
def delivered_once():
    return not Consumer[0].twice


@always
def delivered_in_order():
    """First deliveries are in the order of publishing."""
    return not Consumer[0].disorder


@always
def acknowledged_is_never_delivered_again():
    return not Consumer[0].again


@always
def in_flight_is_bounded():
    """The consumer holds no more messages than its prefetch count."""
    return len(Consumer[0].has) <= PREFETCH


@exists
def everything_is_delivered():
    return len(Consumer[0].done) == MESSAGES


@exists
def acknowledged_survives_a_kill():
    """Messages are kept through a kill of their leader, and delivered by another one or after a restart."""
    return (
        kills > 0
        and leader is not None
        and Producer[0].acknowledged != set()
        and (Producer[0].acknowledged <= leader.queue and Consumer[0].received == set())
    )
