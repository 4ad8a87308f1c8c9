"""Push and pull: payloads on several storage clusters, one of them Byzantine, identifiers in one order.

Kabis's paper, sections 4.1, 5.1 and 5.2: a producer sends the event to all clusters and its identifier to
the validation channel, in parallel; a consumer reads identifiers in the channel's order and fetches each
event from any cluster with a matching one. The paper has F + 1 clusters. Here there are 2F + 1 by default,
and the identifier is ordered only with F + 1 storage receipts. All events belong to one partition.

- The Byzantine cluster issues any receipt that helps it, whether it stored the event or not, and serves
  anything to any consumer, or nothing. None of its actions is fair.
- A producer may stop at any time. A Byzantine producer does no more harm to others: validators check
  receipts, so it can only omit clusters, which amounts to stopping before it sent to them.
  `identifiers.py` covers what it can do with its signature.
- The validators determine the order (`tendermint.py`); here it is a single log.
"""

from veristream.actions import *

PRODUCERS = constant(2)
EVENTS = constant(2)  # the maximum number of events of a producer
CLUSTERS = constant(3)  # 2F + 1; the paper's F + 1 is 2. One of them is Byzantine
RECEIPTS = constant(2)  # F + 1: required to order an identifier; 0: the channels are independent
LENGTH = constant(3)  # the maximum number of ordered identifiers
HOLES = constant(0)  # what happens to an identifier without its event: WAITS, ORDERED or ALONE
CHECKED = constant(True)  # 0: consumers do not compare an event with its identifier
ASKS_ALL = constant(False)  # 1: a consumer waits for the answers of all clusters

WAITS = 0  # consumers wait for the event
ORDERED = 1  # validators order a decision whether the event is available, and consumers wait for it
ALONE = 2  # each consumer gives up on its own


class Decision(Enum):
    OPEN = 0
    AVAILABLE = 1
    SKIPPED = 2


@action
def idle():
    """Does nothing, so that a run never has to take an unfair step because no other is possible."""
    require(True)


class Producer(Role, count=PRODUCERS):
    pushed: Int[0, EVENTS] = 0
    alive: bool = True

    @action
    def push(self):
        """Sends the event to all clusters and the identifier to the validators."""
        require(self.alive and self.pushed < EVENTS)
        self.pushed += 1

    @action
    def stop(self):
        require(self.alive)
        self.alive = False


class Cluster(Role, count=CLUSTERS - 1):
    """A correct cluster; it keeps the order in which a producer sent."""

    stored: Map[Producer, Int[0, EVENTS]] = 0

    @action(fair="weak")
    def store(self, producer: Producer):
        """Stores an event and issues a receipt."""
        require(producer.alive and self.stored[producer] < producer.pushed)
        self.stored[producer] += 1


class Entry(Record):
    producer: Producer
    number: Int[0, EVENTS - 1]


ordered: Seq[Entry, LENGTH] = []
decisions: Map[Int[0, LENGTH - 1], Decision] = Decision.OPEN


def next_of(producer):
    """Returns the producer's next number; validators order its identifiers by number."""
    return sum(entry.producer == producer for entry in ordered)


def receipts(producer, number):
    """Counts the receipts from correct clusters."""
    return sum(cluster.stored[producer] > number for cluster in Cluster)


def is_stored(entry):
    return receipts(entry.producer, entry.number) > 0


@action(fair="weak")
def order(producer: Producer):
    """Orders an identifier with receipts of correct clusters only; the Byzantine one may be silent."""
    require(len(ordered) < LENGTH and next_of(producer) < producer.pushed)
    require(receipts(producer, next_of(producer)) >= RECEIPTS)
    ordered.append(Entry(producer, next_of(producer)))


@action
def order_with_a_lie(producer: Producer):
    """Orders an identifier with one receipt of the Byzantine cluster, true or false."""
    require(len(ordered) < LENGTH and next_of(producer) < producer.pushed)
    require(receipts(producer, next_of(producer)) == RECEIPTS - 1)
    ordered.append(Entry(producer, next_of(producer)))


@action(fair="weak")
def decide_available(index: Int[0, LENGTH - 1]):
    """Validators order that the event is available; they have seen it at a correct cluster."""
    require(HOLES == ORDERED and index < len(ordered) and decisions[index] == Decision.OPEN)
    require(is_stored(ordered[index]))
    decisions[index] = Decision.AVAILABLE


@action(fair="weak")
def decide_skip(index: Int[0, LENGTH - 1]):
    """Validators order that the event is skipped, after a time-out."""
    require(HOLES == ORDERED and index < len(ordered) and decisions[index] == Decision.OPEN)
    decisions[index] = Decision.SKIPPED


class Consumer(Role, count=2):
    """A validating consumer (table 1)."""

    position: Int[0, LENGTH] = 0
    skipped: Set[Int[0, LENGTH - 1]] = set()
    forged: bool = False

    def is_next(self, decision):
        return self.position < len(ordered) and (HOLES != ORDERED or decisions[self.position] == decision)

    @action(fair="weak")
    def fetch(self):
        """Fetches from a correct cluster; the Byzantine one may be silent."""
        require(not ASKS_ALL and self.is_next(Decision.AVAILABLE) and is_stored(ordered[self.position]))
        self.position += 1

    @action
    def fetch_from_the_byzantine(self):
        """Fetches what the producer sent from the Byzantine cluster, which may serve only this consumer."""
        require(self.is_next(Decision.AVAILABLE) and (not ASKS_ALL or is_stored(ordered[self.position])))
        self.position += 1

    @action
    def fetch_forged(self):
        """Accepts a forged event; a consumer that verifies the signature asks the next cluster instead."""
        require(not CHECKED and self.is_next(Decision.AVAILABLE))
        self.forged = True
        self.position += 1

    @action(fair="weak")
    def skip(self):
        """Skips an event by the ordered decision."""
        require(HOLES == ORDERED and self.is_next(Decision.SKIPPED))
        self.skipped.add(self.position)
        self.position += 1

    @action(fair="weak")
    def give_up(self):
        """Skips an event by this consumer's own decision, after a time-out."""
        require(HOLES == ALONE and self.is_next(Decision.OPEN))
        self.skipped.add(self.position)
        self.position += 1


def is_acknowledged(index):
    """Whether the producer is told that the event is ordered and (if that is decided) will be delivered."""
    return index < len(ordered) and (HOLES != ORDERED or decisions[index] == Decision.AVAILABLE)


def is_answered(producer, number):
    """Whether the producer knows what happened to the event."""
    return any(
        index < len(ordered)
        and ordered[index] == Entry(producer, number)
        and (HOLES != ORDERED or decisions[index] != Decision.OPEN)
        for index in range(LENGTH)
    )


@always
def consumers_agree():
    """Both consumers have delivered or both have skipped each event they passed: one validated order."""
    return all(
        index >= Consumer[0].position
        or index >= Consumer[1].position
        or (index in Consumer[0].skipped) == (index in Consumer[1].skipped)
        for index in range(LENGTH)
    )


@always
def first_in_first_out(producer: Producer):
    """Events of a producer are ordered as it sent them, without gaps (table 1, basic)."""
    return all(
        entry.producer != producer or entry.number == 0 or Entry(producer, entry.number - 1) in ordered
        for entry in ordered
    )


@transition
def order_stands():
    """An ordered identifier keeps its position."""
    return after(len(ordered)) >= len(ordered) and all(
        index >= len(ordered)
        or (
            after(ordered[index].producer) == ordered[index].producer
            and after(ordered[index].number) == ordered[index].number
        )
        for index in range(LENGTH)
    )


@always
def no_forgery():
    """A delivered event matches its identifier, and was therefore signed by the producer."""
    return not any(consumer.forged for consumer in Consumer)


@always
def acknowledged_is_stored(index: Int[0, LENGTH - 1]):
    """A correct cluster has every acknowledged event, whatever the producer does afterwards."""
    return not is_acknowledged(index) or is_stored(ordered[index])


@leads_to
def acknowledged_is_delivered(index: Int[0, LENGTH - 1]):
    """Every consumer delivers every acknowledged event, even if one cluster lies or is silent."""
    return is_acknowledged(index), all(
        consumer.position > index and index not in consumer.skipped for consumer in Consumer
    )


@leads_to
def nobody_blocks(index: Int[0, LENGTH - 1]):
    """Every consumer eventually passes every ordered identifier."""
    return len(ordered) > index, all(consumer.position > index for consumer in Consumer)


@leads_to
def push_is_answered(producer: Producer, number: Int[0, EVENTS - 1]):
    """A producer that does not stop learns what happened to its event, as long as the log has room."""
    return producer.pushed > number, (
        is_answered(producer, number) or not producer.alive or len(ordered) == LENGTH
    )


@exists
def all_is_delivered():
    return all(consumer.position == LENGTH and consumer.skipped == set() for consumer in Consumer)


@exists
def lie_helps():
    """Ordered with the Byzantine cluster's receipt while a correct cluster does not have the event."""
    return any(receipts(entry.producer, entry.number) == CLUSTERS - 2 for entry in ordered)


@exists
def producer_stops_after_the_acknowledgement():
    """The event is delivered although one correct cluster will never have it."""
    return any(
        consumer.position > 0
        and not ordered[0].producer.alive
        and receipts(ordered[0].producer, 0) == CLUSTERS - 2
        for consumer in Consumer
        if len(ordered) > 0
    )


@exists
def consumers_are_apart():
    return Consumer[0].position == 0 and Consumer[1].position == LENGTH


@exists
def hole_is_skipped():
    """Both consumers skip a hole and deliver the next event."""
    return all(0 in consumer.skipped and consumer.position == 2 for consumer in Consumer)
