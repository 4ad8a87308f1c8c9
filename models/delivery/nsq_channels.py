"""NSQ's topics and channels: who gets a copy of what, and what a requeue does to the order.

nsqd copies each message of a topic to the channels that exist at that moment. While there is no channel,
the topic keeps its messages, and the first channel gets them all; a channel that is created later misses
what was copied before. A channel is created by the first consumer that subscribes to it, or over HTTP.

Messages stay in memory here, in one queue for each channel; with `--mem-queue-size` exceeded there is no
order at all (`nsq_topic`). The actions have the names of client calls, so that each run can be executed.
"""

from veristream.actions import *

CHANNELS = constant(2)
MESSAGES = constant(1)
CREATES_FIRST = constant(False)  # 1: the producer publishes only once all channels exist
REQUEUES = constant(0)  # REQ by consumers, without a delay

requeues: Int[0, REQUEUES] = 0
topic: Seq[Int[0, MESSAGES - 1], MESSAGES] = []  # published, not yet copied to channels


class Channel(Role, count=CHANNELS):
    """A channel with its only consumer, whose RDY count is 1."""

    exists: bool = False
    queue: Seq[Int[0, MESSAGES - 1], MESSAGES] = []
    flying: Maybe[Int[0, MESSAGES - 1]] = None
    received: Set[Int[0, MESSAGES - 1]] = set()
    overtaken: bool = False  # a message was delivered after a later one

    @action(fair="weak")
    def subscribe(self):
        """SUB creates the channel."""
        require(not self.exists)
        self.exists = True

    @action(fair="weak")
    def deliver(self):
        require(self.flying is None and len(self.queue) > 0)
        message = self.queue[0]
        self.overtaken = self.overtaken or any(other > message for other in self.received)
        self.queue.pop(0)
        self.flying = message
        self.received.add(message)

    @action(fair="weak")
    def finish(self):
        require(self.flying is not None)
        self.flying = None

    @action
    def requeue(self, message: Int[0, MESSAGES - 1]):
        """REQ puts the message at the end of the channel's queue."""
        global requeues
        require(requeues < REQUEUES and self.flying == message)
        requeues += 1
        self.flying = None
        self.queue.append(message)


class Producer(Role):
    next: Int[0, MESSAGES] = 0

    @action(fair="weak")
    def publish(self):
        require(self.next < MESSAGES)
        require(not CREATES_FIRST or all(one.exists for one in Channel))
        topic.append(self.next)
        self.next += 1


class Nsqd(Role):
    @action(fair="weak")
    def copy(self):
        """The topic's message pump: one copy for each channel that exists."""
        require(len(topic) > 0 and any(one.exists for one in Channel))
        message = topic[0]
        topic.pop(0)
        for one in Channel:
            if one.exists:
                one.queue.append(message)


@always
def channel_gets_everything(message: Int[0, MESSAGES - 1], channel: Channel):
    """Each channel has, or has delivered, every message that its topic has passed on."""
    return (
        not channel.exists
        or message >= Producer[0].next
        or message in topic
        or message in channel.queue
        or message in channel.received
    )


@always
def handled_in_order(channel: Channel):
    """No delivery, first or not, comes after that of a later message."""
    return not channel.overtaken


@leads_to
def everything_arrives(channel: Channel):
    """A channel that exists from the beginning receives every message."""
    return channel.exists and Producer[0].next == 0, len(channel.received) == MESSAGES


@exists
def everything_is_finished():
    return all(len(one.received) == MESSAGES and one.flying is None for one in Channel) and (
        requeues == REQUEUES
    )
