"""Which identifiers validators admit to the validation channel: signatures, sequence numbers, keys.

There are one correct producer, one Byzantine party that sees everything ever signed, and a channel that
orders identifiers by consensus (`tendermint.py` shows that it can). Kabis's paper, section 4.2: a secure
identifier has the topic, the partition, the producer, and a signature of key, value, topic and partition.
Ours signs the sequence number as well; a batch is one event. Anybody can replay signed data at any time;
no party can sign for another unless the key is shared or stolen.

Each constant below switches off one defence. The paper's signature is `SIGNS_SEQUENCE=0`; its prototype's,
which joins the fields without their lengths, is also valid for another topic: `SIGNS_TOPIC=0` too.
"""

from veristream.actions import *

PUSHES = constant(2)  # events of the correct producer
ATTACKS = constant(2)  # identifiers that the Byzantine party submits
TOPICS = constant(2)
VALIDATORS = constant(4)  # number 0 is Byzantine
SUBMITS = constant(2)  # F + 1: the number of validators to which a producer sends an identifier

VERIFY = constant(True)  # 0: validators order whatever they receive
CHECKED = constant(True)  # 0: consumers deliver whatever is ordered
SIGNS_TOPIC = constant(True)
SIGNS_SEQUENCE = constant(True)
SEQUENCED = constant(True)  # 0: validators do not check sequence numbers
OWN_KEYS = constant(True)  # 0: one key for everybody, as in the prototype
FENCES = constant(True)  # 0: a producer that signed two events with one number is not stopped
REVOKES = constant(False)  # 1: the correct producer's key may be stolen, and is then revoked
AT_HEIGHT = constant(True)  # 0: consumers judge a key by its current status

LENGTH = PUSHES + ATTACKS
CONTENTS = PUSHES + 1  # the last one is the Byzantine party's
NUMBERS = PUSHES + 1  # one more than the correct producer needs


class Party(Enum):
    CORRECT = 0
    BYZANTINE = 1


class Identifier(Record):
    """An identifier, which the channel orders; `content` stands for the event's hash."""

    producer: Party
    topic: Int[0, TOPICS - 1]
    sequence: Int[0, NUMBERS - 1]
    content: Int[0, CONTENTS - 1]


pushed_to: Map[Int[0, PUSHES - 1], Maybe[Int[0, TOPICS - 1]]] = None  # the topic of each pushed event
proposed: Set[Int[0, PUSHES - 1]] = set()  # events with an identifier at a correct validator
ordered: Seq[Identifier, LENGTH] = []
attacks: Int[0, ATTACKS] = 0
fenced: Map[Party, bool] = False
stolen: bool = False
revoked_at: Maybe[Int[0, LENGTH]] = None  # the height of the revocation


def sequence_of(content):
    """Returns the sequence number of a pushed event in its topic."""
    return sum(pushed_to[other] == pushed_to[content] for other in range(PUSHES) if other < content)


def is_signed(producer, topic, sequence, content):
    """Whether a valid signature can exist: made by the producer for this, or for an ambiguous encoding."""
    if producer == Party.BYZANTINE or not OWN_KEYS or stolen:
        return True
    return any(
        content == mine
        and pushed_to[mine] is not None
        and (not SIGNS_TOPIC or topic == pushed_to[mine])
        and (not SIGNS_SEQUENCE or sequence == sequence_of(mine))
        for mine in range(PUSHES)
    )


def next_of(producer, topic):
    """Returns the next sequence number that validators expect."""
    return sum(entry.producer == producer and entry.topic == topic for entry in ordered)


def is_admitted(producer, topic, sequence, content):
    return (
        (not VERIFY or is_signed(producer, topic, sequence, content))
        and (not SEQUENCED or sequence == next_of(producer, topic))
        and (not FENCES or not fenced[producer])
        and (producer == Party.BYZANTINE or revoked_at is None)
    )


@action
def idle():
    """Does nothing, so that a run never has to take an unfair step because no other is possible."""
    require(True)


class Producer(Role):
    """The correct producer."""

    next: Int[0, PUSHES] = 0

    @action
    def push(self, topic: Int[0, TOPICS - 1], first: Int[0, VALIDATORS - 1]):
        """Signs an event and sends its identifier to some validators, perhaps to the Byzantine one too."""
        require(self.next < PUSHES)
        pushed_to[self.next] = topic
        if any((first + k) % VALIDATORS != 0 for k in range(SUBMITS)):
            proposed.add(self.next)
        self.next += 1

    @action(fair="weak")
    def revoke(self):
        global revoked_at
        require(stolen and revoked_at is None)
        revoked_at = len(ordered)


@action(fair="weak")
def order_pushed(content: Int[0, PUSHES - 1]):
    """A correct validator proposes an identifier it received, once."""
    require(content in proposed)
    topic = pushed_to[content]
    require(topic is not None)
    require(is_admitted(Party.CORRECT, topic, sequence_of(content), content))
    proposed.remove(content)
    ordered.append(Identifier(Party.CORRECT, topic, sequence_of(content), content))


@action
def steal_key():
    global stolen
    require(REVOKES and not stolen)
    stolen = True


@action
def attack(
    producer: Party,
    topic: Int[0, TOPICS - 1],
    sequence: Int[0, NUMBERS - 1],
    content: Int[0, CONTENTS - 1],
):
    """The Byzantine validator proposes anything, in any name; the others admit it or not."""
    global attacks
    require(attacks < ATTACKS and is_admitted(producer, topic, sequence, content))
    attacks += 1
    ordered.append(Identifier(producer, topic, sequence, content))


@action
def show_two(content: Int[0, CONTENTS - 1]):
    """Presents evidence: another event is signed with the number of an ordered one."""
    entry = any_of(ordered)
    require(not fenced[entry.producer] and entry.content != content)
    require(is_signed(entry.producer, entry.topic, entry.sequence, entry.content))
    require(is_signed(entry.producer, entry.topic, entry.sequence, content))
    fenced[entry.producer] = True


class Consumer(Role, count=2):
    """A validating consumer (table 1); it reads the channel in order, at its own pace."""

    position: Int[0, LENGTH] = 0
    left_out: Set[Int[0, LENGTH - 1]] = set()

    @action(fair="weak")
    def read(self):
        require(REVOKES and self.position < len(ordered))
        if ordered[self.position].producer == Party.CORRECT and is_revoked(self.position):
            self.left_out.add(self.position)
        self.position += 1


def is_revoked(height):
    """Whether a consumer considers the key revoked at a height."""
    return revoked_at is not None and (not AT_HEIGHT or height >= revoked_at)


def is_delivered(entry):
    """Whether consumers deliver an entry, apart from revocation; all make the same checks."""
    return not CHECKED or is_signed(entry.producer, entry.topic, entry.sequence, entry.content)


@always
def no_forgery():
    """Events delivered in the correct producer's name were pushed by it, unless its key was stolen."""
    return stolen or all(
        entry.producer == Party.BYZANTINE
        or not is_delivered(entry)
        or any(entry.content == mine and pushed_to[mine] is not None for mine in range(PUSHES))
        for entry in ordered
    )


@always
def no_splicing(mine: Int[0, PUSHES - 1]):
    """No event is delivered in a topic to which it was not pushed."""
    return stolen or all(
        entry.producer == Party.BYZANTINE or entry.content != mine or entry.topic == pushed_to[mine]
        for entry in ordered
        if is_delivered(entry)
    )


@always
def no_replay(mine: Int[0, PUSHES - 1]):
    """No event is delivered twice."""
    return stolen or sum(is_entry_of(entry, mine) for entry in ordered) <= 1


@always
def first_in_first_out(topic: Int[0, TOPICS - 1]):
    """In each topic, events are delivered in the order in which they were pushed (table 1, basic)."""
    return stolen or all(
        i >= j
        or not is_entry_of(ordered[i], later)
        or not is_entry_of(ordered[j], earlier)
        or ordered[i].topic != topic
        or ordered[j].topic != topic
        for i in range(LENGTH)
        for j in range(LENGTH)
        if i < len(ordered) and j < len(ordered)
        for earlier in range(PUSHES)
        for later in range(PUSHES)
        if earlier < later
    )


def is_entry_of(entry, mine):
    return entry.producer == Party.CORRECT and entry.content == mine and is_delivered(entry)


@always
def one_event_a_number():
    """No two events are ordered with the same number: an equivocation is detected before it does harm."""
    return all(
        i >= j
        or ordered[i].producer != ordered[j].producer
        or ordered[i].topic != ordered[j].topic
        or ordered[i].sequence != ordered[j].sequence
        for i in range(LENGTH)
        for j in range(LENGTH)
        if i < len(ordered) and j < len(ordered)
    )


@always
def no_framing():
    """No other party can make the correct producer look like an equivocator."""
    return stolen or not fenced[Party.CORRECT]


@transition
def equivocator_stops():
    """Nothing of a producer is ordered after the evidence against it."""
    return not fenced[Party.BYZANTINE] or after(attacks_in_own_name()) == attacks_in_own_name()


def attacks_in_own_name():
    return sum(entry.producer == Party.BYZANTINE for entry in ordered)


@leads_to
def pushed_is_ordered(mine: Int[0, PUSHES - 1]):
    """Every pushed event is eventually ordered: it is not censored, and its number is not taken."""
    return (
        pushed_to[mine] is not None and not stolen,
        any(is_entry_of(entry, mine) for entry in ordered) or stolen,
    )


@always
def consumers_agree():
    """Two consumers that have read an identifier have both delivered it or both left it out."""
    return all(
        height >= Consumer[0].position
        or height >= Consumer[1].position
        or (height in Consumer[0].left_out) == (height in Consumer[1].left_out)
        for height in range(LENGTH)
    )


@always
def revoked_key_is_refused():
    """Nothing is ordered in a producer's name after its key was revoked."""
    return revoked_at is None or all(
        height < revoked_at or height >= len(ordered) or ordered[height].producer == Party.BYZANTINE
        for height in range(LENGTH)
    )


@exists
def both_are_ordered_in_one_topic():
    return any(
        all(
            any(is_entry_of(entry, mine) and entry.topic == topic for entry in ordered)
            for mine in range(PUSHES)
        )
        for topic in range(TOPICS)
    )


@exists
def attack_is_ordered_between():
    """The Byzantine party's own event is ordered between two of the correct producer."""
    return len(ordered) > 2 and (
        ordered[0].producer == Party.CORRECT
        and ordered[1].producer == Party.BYZANTINE
        and ordered[2].producer == Party.CORRECT
    )


@exists
def sent_by_another():
    """The Byzantine validator submits the correct producer's identifier, which is harmless."""
    return any(is_entry_of(entry, 0) for entry in ordered) and attacks == 1 and 0 in proposed


@exists
def equivocator_is_fenced():
    return fenced[Party.BYZANTINE]


@exists
def stolen_key_is_used():
    """An event that was never pushed is ordered in the producer's name before the revocation."""
    return revoked_at is not None and any(
        entry.producer == Party.CORRECT and entry.content >= PUSHES for entry in ordered
    )
