"""What nsqd's settings promise of one channel: memory and disk, time-outs, and RDY.

A producer publishes numbered messages; nsqd keeps up to `MEMORY` of them in memory and the others on disk,
where they are durable after the next sync. A consumer is sent as many messages as its RDY count allows;
those that it does not finish in time are queued again. nsqd is killed (-9), or stopped (SIGTERM), which
writes to disk all that it holds.

Real nodes are run under the same settings by `veristream reproduce --real nsq`.
"""

from veristream.actions import *

MEMORY = constant(2)  # --mem-queue-size
SYNC_EVERY = constant(2)  # --sync-every
MESSAGES = constant(2)
RDY = constant(1)
KILLS = constant(1)
STOPS = constant(0)
TIMEOUTS = constant(0)  # of deliveries, --msg-timeout
WIRE = constant(False)  # 1: a message that nsqd has sent may still be on the way when nsqd is killed

kills: Int[0, KILLS] = 0
stops: Int[0, STOPS] = 0
timeouts: Int[0, TIMEOUTS] = 0


class Nsqd(Role):
    up: bool = True
    memory: Set[Int[0, MESSAGES - 1]] = set()
    file: Set[Int[0, MESSAGES - 1]] = set()  # to be read from disk, durable or not
    durable: Set[Int[0, MESSAGES - 1]] = set()  # what a restart reads from disk
    unsynced: Int[0, SYNC_EVERY] = 0
    flying: Set[Int[0, MESSAGES - 1]] = set()

    @action(fair="weak")
    def sync(self):
        """After so many writes or after a while: writes and the position of reading become durable."""
        require(self.up and self.durable != self.file)
        self.durable = self.file
        self.unsynced = 0

    @action
    def kill(self):
        global kills
        require(self.up and kills < KILLS)
        kills += 1
        self.up = False
        self.memory.clear()
        self.file.clear()
        self.flying.clear()

    @action
    def stop(self):
        global stops
        require(self.up and stops < STOPS)
        stops += 1
        self.up = False
        self.durable = self.file | self.memory | self.flying
        self.memory.clear()
        self.file.clear()
        self.flying.clear()

    @action(fair="weak")
    def restart(self):
        require(not self.up)
        self.up = True
        self.file = self.durable
        self.unsynced = 0


class Producer(Role):
    next: Int[0, MESSAGES] = 0
    acknowledged: Set[Int[0, MESSAGES - 1]] = set()

    @action(fair="weak")
    def publish(self):
        """nsqd answers OK when the message is in memory, or written to disk."""
        require(Nsqd[0].up and self.next < MESSAGES)
        if len(Nsqd[0].memory) < MEMORY:
            Nsqd[0].memory.add(self.next)
        else:
            Nsqd[0].file.add(self.next)
            if Nsqd[0].unsynced + 1 >= SYNC_EVERY:
                Nsqd[0].durable = Nsqd[0].file
                Nsqd[0].unsynced = 0
            else:
                Nsqd[0].unsynced += 1
        self.acknowledged.add(self.next)
        self.next += 1


class Consumer(Role):
    received: Set[Int[0, MESSAGES - 1]] = set()
    has: Set[Int[0, MESSAGES - 1]] = set()
    done: Set[Int[0, MESSAGES - 1]] = set()  # finished
    twice: bool = False
    again: bool = False  # something finished was delivered again
    disorder: bool = False  # a message came for the first time after a later one

    @action(fair="weak")
    def receive(self, message: Int[0, MESSAGES - 1]):
        """From memory and from disk in any order; a read from disk is durable at the next sync."""
        require(Nsqd[0].up and len(Nsqd[0].flying) < RDY and self.has <= Nsqd[0].flying)
        require(message in Nsqd[0].memory or message in Nsqd[0].file)
        Nsqd[0].memory.discard(message)
        Nsqd[0].file.discard(message)
        Nsqd[0].flying.add(message)
        if not WIRE:
            self.take(message)

    @action(fair="weak")
    def arrive(self, message: Int[0, MESSAGES - 1]):
        require(WIRE and Nsqd[0].up and message in Nsqd[0].flying and message not in self.has)
        self.take(message)

    def take(self, message):
        self.twice = self.twice or message in self.received
        self.again = self.again or message in self.done
        self.disorder = self.disorder or (
            message not in self.received and any(other > message for other in self.received)
        )
        self.has.add(message)
        self.received.add(message)

    @action(fair="weak")
    def finish(self, message: Int[0, MESSAGES - 1]):
        """FIN; nsqd refuses one that comes too late."""
        require(Nsqd[0].up and message in self.has)
        self.has.discard(message)
        if message in Nsqd[0].flying:
            Nsqd[0].flying.discard(message)
            self.done.add(message)

    @action
    def time_out(self, message: Int[0, MESSAGES - 1]):
        """nsqd queues a delivered message again."""
        global timeouts
        require(timeouts < TIMEOUTS and message in Nsqd[0].flying)
        timeouts += 1
        Nsqd[0].flying.discard(message)
        self.has.discard(message)
        if len(Nsqd[0].memory) < MEMORY:
            Nsqd[0].memory.add(message)
        else:
            Nsqd[0].file.add(message)

    @action(fair="weak")
    def notice_loss(self):
        """The connection is gone; the consumer connects again with nothing in flight."""
        require(not self.has <= Nsqd[0].flying)
        self.has.clear()


@always
def acknowledged_is_delivered(message: Int[0, MESSAGES - 1]):
    """What nsqd answered with OK was delivered, or nsqd has it."""
    return (
        not Nsqd[0].up
        or message not in Producer[0].acknowledged
        or message in Consumer[0].received
        or message in Nsqd[0].memory
        or message in Nsqd[0].file
        or (WIRE and message in Nsqd[0].flying)
    )


@always
def acknowledged_is_processed(message: Int[0, MESSAGES - 1]):
    """What nsqd answered with OK was finished, or nsqd has it."""
    return (
        not Nsqd[0].up
        or message not in Producer[0].acknowledged
        or message in Consumer[0].done
        or message in Nsqd[0].memory
        or message in Nsqd[0].file
        or message in Nsqd[0].flying
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
    """A message that the consumer finished in time is not delivered again."""
    return not Consumer[0].again


@always
def in_flight_is_bounded():
    return len(Consumer[0].has) <= RDY


@exists
def everything_is_finished():
    return len(Consumer[0].done) == MESSAGES


@exists
def acknowledged_survives_a_kill():
    return kills > 0 and Nsqd[0].up and Producer[0].acknowledged <= Nsqd[0].file and len(Nsqd[0].file) > 0
