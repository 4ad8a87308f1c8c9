"""nsqlookupd: how an nsqd that was removed or died is announced again.

An nsqd registers a topic when a producer first publishes to it, and unregisters it when the topic is
deleted. To move a topic away from an nsqd, an operator sets a tombstone at nsqlookupd, which hides the
nsqd for `--tombstone-lifetime`, and deletes the topic at the nsqd meanwhile; nsqadmin does both. The
requests of an nsqd travel in order on one connection, whose end removes all that it registered.

The actions have the names of client calls and of nsqlookupd's commands, so that each run can be executed.
"""

from veristream.actions import *

DELETES = constant(False)  # 1: the operator deletes the topic at the nsqd, within the tombstone's lifetime
PUBLISHES = constant(1)  # by a producer that nobody told to publish elsewhere
EXPIRES = constant(True)  # 0: no tombstone's lifetime ends
KILLS = constant(0)
HALF_OPEN = constant(False)  # 1: nsqlookupd does not see the end of the connection of a dead nsqd
INACTIVE = constant(True)  # --inactive-producer-timeout; 0: it never ends

WIRE_MAX = 2 * PUBLISHES + KILLS


class Command(Enum):
    """What an nsqd sends to nsqlookupd; CLOSE is the end of its connection."""

    REGISTER = 0
    UNREGISTER = 1
    CLOSE = 2


wire: Seq[Command, WIRE_MAX] = []


class Nsqd(Role):
    alive: bool = True
    topic: bool = False
    published: Int[0, PUBLISHES] = 0

    @action(fair="weak")
    def publish(self):
        """A producer publishes, which creates the topic unless it exists."""
        require(self.alive and self.published < PUBLISHES)
        self.published += 1
        if not self.topic:
            self.topic = True
            wire.append(Command.REGISTER)

    @action(fair="weak")
    def delete_topic(self):
        """POST /topic/delete by the operator."""
        require(DELETES and self.alive and self.topic and Operator[0].removed and not Operator[0].deleted)
        self.topic = False
        Operator[0].deleted = True
        wire.append(Command.UNREGISTER)

    @action
    def kill(self):
        require(KILLS > 0 and self.alive)
        self.alive = False
        if not HALF_OPEN:
            wire.append(Command.CLOSE)


class Operator(Role):
    removed: bool = False
    deleted: bool = False

    @action(fair="weak")
    def tombstone(self):
        """POST /topic/tombstone at nsqlookupd, once."""
        require(Lookupd[0].listed and not self.removed)
        self.removed = True
        Lookupd[0].tombstone = True


class Lookupd(Role):
    listed: bool = False
    tombstone: bool = False
    pings: bool = True  # 0: none has come for so long that the nsqd is hidden

    @action(fair="weak")
    def register(self):
        """A known entry is left as it is, with its tombstone."""
        require(len(wire) > 0 and wire[0] == Command.REGISTER)
        wire.pop(0)
        self.listed = True

    @action(fair="weak")
    def unregister(self):
        """UNREGISTER, or the end of the connection; the tombstone goes with the entry."""
        require(len(wire) > 0 and wire[0] != Command.REGISTER)
        wire.pop(0)
        self.listed = False
        self.tombstone = False

    @action(fair="weak")
    def expire(self):
        """The tombstone's lifetime ends. An operator who deletes the topic does so before."""
        require(EXPIRES and self.tombstone and not DELETES)
        self.tombstone = False

    @action(fair="weak")
    def miss_pings(self):
        require(INACTIVE and self.pings and not Nsqd[0].alive)
        self.pings = False


class Consumer(Role):
    found: bool = False  # in the last lookup
    found_removed: bool = False

    @action(fair="weak")
    def lookup(self):
        """GET /lookup?topic=..."""
        require(self.found != is_announced())
        self.found = is_announced()
        self.found_removed = self.found_removed or (is_announced() and Operator[0].removed)


def is_announced():
    return Lookupd[0].listed and not Lookupd[0].tombstone and Lookupd[0].pings


@always
def removed_stays_out():
    """No consumer that asks after the removal is sent to the nsqd."""
    return not Consumer[0].found_removed


@always
def announced_is_alive():
    return not is_announced() or Nsqd[0].alive


@leads_to
def dead_is_forgotten():
    """A consumer's lookups eventually leave a dead nsqd out."""
    return not Nsqd[0].alive, not is_announced()


@exists
def consumer_finds():
    return Consumer[0].found


@exists
def removal_is_complete():
    return Operator[0].removed and not Lookupd[0].listed and wire == [] and Nsqd[0].alive
