"""How a consumer finds the event of an identifier: algorithms 1 and 2 of Kabis's paper, and by number.

There are one correct producer, two Kafka replicas (the paper's F + 1) of which one is Byzantine, and
consumers that read the same identifiers. RULE selects how a consumer matches:

- 0, *as printed*: line 10 sets `result` to null and line 12 tests whether it is not null, so line 13 is
  never reached: queues are popped and nothing is verified.
- 1, *as intended* by the text below the algorithm: `result` is set to null once for each identifier; while
  it is null the head of the next queue is polled and compared, and a head that does not match marks the
  producer as failed at that replica; once the event is found, the other queues are popped.
- 2, *by number*: the event with the identifier's number, from any replica that has it. A replica that
  serves something else is skipped, without consequences for the producer.

The paper does not say what polling or popping an empty queue does. PATIENCE 0: it returns nothing, which
does not match. 1: polling waits for the replica, popping does not. 2: both wait.
"""

from veristream.actions import *

RULE = constant(2)
PATIENCE = constant(1)
EVENTS = constant(2)
CONSUMERS = constant(2)
BYZANTINE = constant(0)  # the Byzantine replica; consumers examine replicas in order
REPLAYS = constant(0)  # the number of replayed identifiers, which the paper's signature allows

PRINTED = 0
MEANT = 1
NUMBERED = 2

REPLICAS = 2
FORGED = -1
IDENTIFIERS = EVENTS + REPLAYS

pushed: Int[0, EVENTS] = 0
identifiers: Seq[Int[0, EVENTS - 1], IDENTIFIERS] = []  # in the validation channel's order
replays: Int[0, REPLAYS] = 0


@action
def idle():
    """Does nothing, so that a run never has to take an unfair step because no other is possible."""
    require(True)


@action
def push():
    """Pushes an event; the identifier is ordered immediately, replicas receive the event later."""
    global pushed
    require(pushed < EVENTS)
    identifiers.append(pushed)
    pushed += 1


@action
def replay():
    global replays
    again = any_of(identifiers)
    require(replays < REPLAYS)
    replays += 1
    identifiers.append(again)


class Consumer(Role, count=CONSUMERS):
    """A validating consumer: its position in the two loops of algorithm 2, and the cache of algorithm 1."""

    queues: Map[Int[0, REPLICAS - 1], Seq[Int[FORGED, EVENTS - 1], EVENTS]] = []
    fetched: Int[0, EVENTS] = 0  # from the correct replica
    served: Int[0, EVENTS] = 0  # by the Byzantine one
    failed: Set[Int[0, REPLICAS - 1]] = set()  # replicas at which the producer is marked as failed
    position: Int[0, IDENTIFIERS] = 0
    replica: Int[0, REPLICAS] = 0
    result: Maybe[Int[0, EVENTS - 1]] = None
    delivered: Seq[Int[0, EVENTS - 1], IDENTIFIERS] = []
    empty: bool = False  # whether a record without an event was returned

    @action(fair="weak")
    def fetch(self):
        """Algorithm 1, from the correct replica: all events in order, late ones appended late."""
        require(self.fetched < pushed)
        if 1 - BYZANTINE not in self.failed:
            self.queues[1 - BYZANTINE].append(self.fetched)
        self.fetched += 1

    @action
    def fetch_a_lie(self, lie: Int[FORGED, EVENTS - 1]):
        """Algorithm 1, from the Byzantine replica: any pushed event, in any order, or a forgery."""
        require(self.served < EVENTS and lie < pushed and BYZANTINE not in self.failed)
        self.queues[BYZANTINE].append(lie)
        self.served += 1

    def is_looking(self):
        return RULE != NUMBERED and self.position < len(identifiers) and self.replica < REPLICAS

    @action(fair="weak")
    def pass_over(self):
        """9: the producer is marked as failed at this replica."""
        require(self.is_looking() and self.replica in self.failed)
        self.replica += 1

    @action(fair="weak")
    def poll(self):
        """10 to 18, as intended; as printed this is never reached."""
        require(RULE == MEANT and self.is_looking() and self.replica not in self.failed)
        require(self.result is None and (PATIENCE == 0 or len(self.queues[self.replica]) > 0))
        wanted = identifiers[self.position]
        if len(self.queues[self.replica]) > 0 and self.queues[self.replica][0] == wanted:
            self.result = wanted
        else:
            self.failed.add(self.replica)
        self.drop_head()

    @action(fair="weak")
    def pop(self):
        """19 to 21: as intended, once the event is found; as printed, always."""
        require(self.is_looking() and self.replica not in self.failed)
        require(RULE == PRINTED or self.result is not None)
        require(PATIENCE < 2 or len(self.queues[self.replica]) > 0)
        self.drop_head()

    def drop_head(self):
        if len(self.queues[self.replica]) > 0:
            self.queues[self.replica].pop(0)
        self.replica += 1

    @action(fair="weak")
    def build(self):
        """22 to 26: as intended, from the event found; as printed, from a wrapper never assigned."""
        require(RULE != NUMBERED and self.replica == REPLICAS)
        if self.result is not None:
            self.delivered.append(self.result)
        elif RULE == PRINTED:
            self.empty = True
        self.result = None
        self.replica = 0
        self.position += 1

    @action(fair="weak")
    def take(self):
        """By number: takes the event from any replica, anywhere in its queue."""
        require(RULE == NUMBERED and self.position < len(identifiers))
        wanted = identifiers[self.position]
        require(wanted in self.delivered or any(wanted in self.queues[k] for k in range(REPLICAS)))
        if wanted not in self.delivered:
            self.delivered.append(wanted)
        self.position += 1


@always
def delivered_once_and_in_order(consumer: Consumer):
    """A consumer delivers the pushed events in order and without gaps."""
    return all(
        index >= len(consumer.delivered) or consumer.delivered[index] == index
        for index in range(IDENTIFIERS)
    )


@always
def no_empty_record(consumer: Consumer):
    """Every returned record contains an event."""
    return not consumer.empty


@always
def no_framing(consumer: Consumer):
    """No consumer marks the producer, which is correct, as failed at all replicas."""
    return len(consumer.failed) < REPLICAS


@always
def not_failed_at_the_correct_replica(consumer: Consumer):
    """A correct producer is not marked as failed at a correct replica."""
    return 1 - BYZANTINE not in consumer.failed


@always
def consumers_agree(one: Consumer, other: Consumer):
    """Of two consumers, one has delivered a prefix of what the other has."""
    return all(
        index >= len(one.delivered)
        or index >= len(other.delivered)
        or one.delivered[index] == other.delivered[index]
        for index in range(IDENTIFIERS)
    )


@leads_to
def pushed_is_delivered(number: Int[0, EVENTS - 1]):
    """Every pushed event is delivered to every consumer."""
    return pushed > number, all(number in consumer.delivered for consumer in Consumer)


@exists
def first_is_delivered():
    return any(len(consumer.delivered) > 0 for consumer in Consumer)


@exists
def all_is_delivered():
    return all(len(consumer.delivered) == EVENTS for consumer in Consumer)


@exists
def lie_is_seen_through():
    """The Byzantine replica served a forgery first, and the event is delivered nevertheless."""
    return any(
        len(consumer.delivered) > 0
        and consumer.served > 0
        and consumer.fetched > 0
        and (FORGED in consumer.queues[BYZANTINE] or BYZANTINE in consumer.failed)
        for consumer in Consumer
    )
