"""Table 1 of Kabis's paper: the guarantees of an event, depending on who validates.

Section 5.1: a validable event goes to all Kafka replicas, and its identifier to the validation channel; an
unvalidable one goes only to the first replica. A consumer that does not validate reads the first replica,
in its order; one that validates reads identifiers in the channel's order, and fetches their events from any
replica. There are two producers, one partition, consumers of both kinds, and two replicas of which the
first may be Byzantine. Producers do not stop; `storage.py` covers what happens if they do.
"""

from veristream.actions import *

FIRST_BYZANTINE = constant(False)  # 1: the first replica may show anything to any consumer
TOTAL = constant(3)  # the number of events of all producers
CONSUMERS = constant(2)  # of each kind
LIES = constant(2)  # the number of events that a consumer accepts from a Byzantine replica

PRODUCERS = 2
EVENTS = 2  # the maximum number of events of one producer


class Producer(Role, count=PRODUCERS):
    validable: Map[Int[0, EVENTS - 1], bool] = False
    pushed: Int[0, EVENTS] = 0
    identified: Int[0, EVENTS] = 0  # the number of events with an identifier that is ordered or not needed

    @action
    def push(self, validate: bool):
        """Pushes an event; the producer chooses whether it can be validated."""
        require(self.pushed < EVENTS and sum(one.pushed for one in Producer) < TOTAL)
        self.validable[self.pushed] = validate
        self.pushed += 1

    @action(fair="weak")
    def identify(self):
        """The channel orders the next identifier; an unvalidable event has none."""
        require(self.identified < self.pushed)
        if self.validable[self.identified]:
            identifiers.append(Event(self, self.identified))
        self.identified += 1


class Event(Record):
    producer: Producer
    number: Int[0, EVENTS - 1]
    forged: bool = False


class Replica(Role, count=2):
    """A Kafka replica; a Byzantine one may show anything, so its log does not matter."""

    log: Seq[Event, TOTAL] = []
    seen: Map[Producer, Int[0, EVENTS]] = 0

    @action(fair="weak")
    def append(self, producer: Producer):
        require(self.seen[producer] < producer.pushed and not (FIRST_BYZANTINE and self.id == 0))
        if self.id == 0 or producer.validable[self.seen[producer]]:
            self.log.append(Event(producer, self.seen[producer]))
        self.seen[producer] += 1


identifiers: Seq[Event, TOTAL] = []


@action
def idle():
    """Does nothing, so that a run never has to take an unfair step because no other is possible."""
    require(True)


class Plain(Role, count=CONSUMERS):
    """A consumer that does not validate."""

    delivered: Seq[Event, TOTAL] = []

    @action(fair="weak")
    def poll(self):
        require(len(self.delivered) < len(Replica[0].log))
        self.delivered.append(Replica[0].log[len(self.delivered)])

    @action
    def poll_a_lie(self, producer: Producer, number: Int[0, EVENTS - 1], forge: bool):
        """Reads any pushed event, or a forged one."""
        require(FIRST_BYZANTINE and len(self.delivered) < LIES)
        require(forge or number < producer.pushed)
        self.delivered.append(Event(producer, number, forge))


class Validating(Role, count=CONSUMERS):
    """A validating consumer; a false event does not match its identifier, so it asks the other replica."""

    delivered: Seq[Event, TOTAL] = []

    @action(fair="weak")
    def fetch(self):
        require(len(self.delivered) < len(identifiers))
        require(any(identifiers[len(self.delivered)] in replica.log for replica in Replica))
        self.delivered.append(identifiers[len(self.delivered)])


def is_in_order(one, other):
    """Whether the events are of different producers or the first has the lower number."""
    return one.producer != other.producer or one.number < other.number


@always
def unvalidable_is_not_delivered(consumer: Validating):
    """Table 1, second row, first column."""
    return all(event.producer.validable[event.number] for event in consumer.delivered)


@leads_to
def basic_is_delivered(producer: Producer, number: Int[0, EVENTS - 1]):
    """Table 1, first row: delivered to consumers that do not validate, whatever the producer does."""
    return producer.pushed > number, all(
        Event(producer, number) in consumer.delivered for consumer in Plain
    )


@leads_to
def extended_is_delivered(producer: Producer, number: Int[0, EVENTS - 1]):
    """Table 1, second row, second column: delivered even if a replica is Byzantine."""
    return producer.pushed > number and producer.validable[number], all(
        Event(producer, number) in consumer.delivered for consumer in Validating
    )


@always
def plain_first_in_first_out(consumer: Plain):
    return all(
        first >= second
        or second >= len(consumer.delivered)
        or is_in_order(consumer.delivered[first], consumer.delivered[second])
        for first in range(TOTAL)
        for second in range(TOTAL)
    )


@always
def validating_first_in_first_out(consumer: Validating):
    return all(
        first >= second
        or second >= len(consumer.delivered)
        or is_in_order(consumer.delivered[first], consumer.delivered[second])
        for first in range(TOTAL)
        for second in range(TOTAL)
    )


@always
def plain_total_order(one: Plain, other: Plain):
    """All consumers that do not validate see the same order."""
    return all(
        index >= len(one.delivered)
        or index >= len(other.delivered)
        or one.delivered[index] == other.delivered[index]
        for index in range(TOTAL)
    )


@always
def validating_total_order(one: Validating, other: Validating):
    """All consumers that validate see the same order."""
    return all(
        index >= len(one.delivered)
        or index >= len(other.delivered)
        or one.delivered[index] == other.delivered[index]
        for index in range(TOTAL)
    )


@always
def one_order_for_both_kinds():
    """Validating and non-validating consumers agree on the order of two events."""
    return all(
        not (comes_before(one, other) and was_validated_before(other, one))
        for one in Producer
        for other in Producer
    )


def comes_before(one, other):
    """Whether a plain consumer has delivered the first events of two producers in this order."""
    return any(
        first < second
        and second < len(Plain[0].delivered)
        and Plain[0].delivered[first] == Event(one, 0)
        and Plain[0].delivered[second] == Event(other, 0)
        for first in range(TOTAL)
        for second in range(TOTAL)
    )


def was_validated_before(one, other):
    return any(
        first < second
        and second < len(Validating[0].delivered)
        and Validating[0].delivered[first] == Event(one, 0)
        and Validating[0].delivered[second] == Event(other, 0)
        for first in range(TOTAL)
        for second in range(TOTAL)
    )


@always
def plain_no_forgery(consumer: Plain):
    return all(not event.forged for event in consumer.delivered)


@always
def validating_no_forgery(consumer: Validating):
    return all(not event.forged and event.number < event.producer.pushed for event in consumer.delivered)


@always
def plain_is_provable(consumer: Plain):
    """Non-repudiation: every delivered event has a signed and ordered identifier."""
    return all(event in identifiers for event in consumer.delivered)


@always
def validating_is_provable(consumer: Validating):
    return all(event in identifiers for event in consumer.delivered)


@exists
def each_class_of_the_table():
    """One event is basic and not delivered to validating consumers, another is basic and extended."""
    return any(
        Event(producer, 0) in Plain[0].delivered
        and not producer.validable[0]
        and Event(producer, 1) in Plain[0].delivered
        and Event(producer, 1) in Validating[0].delivered
        for producer in Producer
    )


@exists
def extended_of_two_producers():
    return all(Event(producer, 0) in Validating[0].delivered for producer in Producer)


@exists
def lie_is_believed_by_who_does_not_validate():
    return any(event.forged for event in Plain[0].delivered) and len(Validating[0].delivered) > 0
