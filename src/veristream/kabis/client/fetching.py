"""Getting the batches that the ledger speaks of from storage parties that may be silent or lie.

A batch is known by the header that was admitted, so that whatever a party gives is held against it: a party
that gives anything else has lied, and the producer has not. One party is asked first, another one when the
answer is missing, late or wrong; the first good answer counts, whoever gives it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from veristream.errors import ModelError
from veristream.kabis.client.consumed import Consumed, Origin, Place
from veristream.kabis.client.errors import BelowLowWaterError, UnknownTopicError
from veristream.kabis.client.pushes import Failure
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Admission, Partition
from veristream.kabis.protocol.batch import Batch, BatchError
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SignatureError, Verify
from veristream.kabis.protocol.receipts import StorageAbsence

DEMOTED_MS = 5_000
BUSY_FACTOR = 4
"""How many times as long a party may take that answers other questions meanwhile."""
SUSPICIONS_KEPT = 1000


class WrongAnswerError(Exception):
    """What a party gave is not the batch that was admitted."""


def check_answer(admission: Admission, data: bytes) -> Batch:
    """The admitted batch in a party's answer; its events are those that were signed."""
    try:
        batch = Batch.decode(data)
        if batch.header != admission.signed.header:
            raise WrongAnswerError("another batch than was asked for")
        batch.verify_contents()
    except (DecodeError, BatchError) as error:
        raise WrongAnswerError(str(error)) from error
    return batch


def find_forgery(admission: Admission, ledger: Ledger, verify: Verify) -> ModelError | None:
    """What stops a partition: a batch that was admitted though its producer never signed it."""
    header = admission.signed.header
    key = ledger.key(header.producer, header.key_epoch)
    assert key is not None, "a batch was admitted under a key"
    return find_false_signature(admission, key.public, verify)


def find_false_signature(admission: Admission, public: bytes, verify: Verify) -> ModelError | None:
    """The same, by the key that the ledger has of the producer."""
    header = admission.signed.header
    try:
        admission.signed.verify(public, verify)
    except SignatureError:
        return ModelError(
            f"{header.topic}-{header.partition}: the validators admitted a batch at index "
            f"{admission.first_index} that {header.producer} never signed",
            hint="more than F validators lie: the chain cannot be trusted any more",
        )
    return None


def require_party(genesis: Genesis, name: str) -> None:
    """Raises ModelError if no storage party is called that."""
    names = [party.name for party in genesis.storage]
    if name not in names:
        raise ModelError(f"there is no storage party {name!r}", hint=f"there are {', '.join(names)}")


def require_partition(ledger: Ledger, place: Place) -> Partition:
    """How far a partition is; raises UnknownTopicError if the ledger has no such partition."""
    policy = ledger.topic(place[0])
    if policy is None or not 0 <= place[1] < policy.partitions:
        raise UnknownTopicError(f"{place[0]}-{place[1]}", "no such topic or partition")
    return ledger.partition(*place)


def find_index(ledger: Ledger, place: Place, time_ms: int) -> int | None:
    """The first index in a block of this time or later; None if there is none yet."""
    low_water = require_partition(ledger, place).low_water
    for admission in ledger.admissions(*place, low_water):
        if admission.time_ms >= time_ms:
            return max(low_water, admission.first_index)
    return None


def origin_of(admission: Admission) -> Origin:
    """What the events of an admitted batch have in common."""
    header = admission.signed.header
    return Origin(
        header.topic,
        header.partition,
        header.producer,
        admission.height,
        admission.time_ms,
        admission.digest,
    )


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an answer may take, from the question on, or from the party's last good answer since.

    A party that gives one batch after the other is busy, and asking another for the same would only make
    everybody busier; but it gains no more than `BUSY_FACTOR` times the time by that.
    """

    timeout_ms: int
    heard_ms: dict[str, int] = field(default_factory=dict)

    def hear(self, party: str, now_ms: int) -> None:
        """Notes a good answer."""
        self.heard_ms[party] = now_ms

    def end_ms(self, party: str, asked_ms: int) -> int:
        """From when on the answer to a question is late."""
        since_ms = max(asked_ms, self.heard_ms.get(party, 0))
        return min(since_ms + self.timeout_ms, asked_ms + BUSY_FACTOR * self.timeout_ms)


@dataclass(slots=True)
class Wanted:
    """An admitted batch that is to be delivered; `events` once it is here, empty if it was skipped.

    `size_bytes` is how large it is taken to be until it is here.
    """

    admission: Admission
    parties: list[str]
    size_bytes: int
    events: list[Consumed] | None = None
    asked: dict[str, int] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    absences: dict[str, StorageAbsence] = field(default_factory=dict)
    confessing: bool = False
    round_ms: int = 0
    taken: int = 0

    def next_party(self, now_ms: int, patience: Patience) -> str | None:
        """Whom to ask now: nobody while an answer may still come in time, or all have failed."""
        if self.events is not None or self.round_ms > now_ms:
            return None
        if any(end_ms > now_ms for end_ms in self._ends_ms(patience)):
            return None
        return next((party for party in self.parties if party not in self.asked), None)

    def due_ms(self, patience: Patience) -> int:
        """When to look again."""
        return max([self.round_ms, *self._ends_ms(patience)])

    def is_over(self, now_ms: int, patience: Patience) -> bool:
        """Whether everybody was asked and nobody is going to answer in time."""
        return self.failed.issuperset(self.parties) or self.due_ms(patience) <= now_ms

    def _ends_ms(self, patience: Patience) -> list[int]:
        return [
            patience.end_ms(party, when) for party, when in self.asked.items() if party not in self.failed
        ]

    def begin_again(self, when_ms: int) -> None:
        """All have failed: ask everybody once more, from then on."""
        self.asked.clear()
        self.failed.clear()
        self.round_ms = when_ms


@dataclass(slots=True)
class Reader:
    """One partition as a consumer reads it by the ledger's order.

    The window holds the batches from `position` on up to `fetch_index`.
    """

    place: Place
    position: int
    fetch_index: int
    window: deque[Wanted] = field(default_factory=deque)
    failure: Failure | None = None

    def seek(self, index: int) -> None:
        """Goes on from an index."""
        self.position = self.fetch_index = index
        self.failure = None

    def drop(self) -> int:
        """Lets go of what is here and of what is on its way; gives how many buffered bytes that frees."""
        freed = sum(wanted.size_bytes for wanted in self.window)
        self.window.clear()
        self.fetch_index = self.position
        return freed

    def find(self, first_index: int) -> Wanted | None:
        """The batch in the window that begins there."""
        return next((each for each in self.window if each.admission.first_index == first_index), None)

    def check_low_water(self, low_water: int) -> None:
        """Reading below the mark is an error, until somebody seeks."""
        if self.position < low_water:
            self.failure = BelowLowWaterError(*self.place, self.position, low_water)

    def take(self, count_max: int) -> tuple[list[Consumed], int]:
        """The next events in order, as many as are here, and how many buffered bytes that frees."""
        taken: list[Consumed] = []
        freed = 0
        while self.window and self.window[0].events is not None and len(taken) < count_max:
            head = self.window[0]
            events = self.window[0].events
            end = min(len(events), head.taken + count_max - len(taken))
            taken += events[head.taken : end]
            head.taken = end
            if end < len(events):
                self.position = events[end].index
            else:
                self.window.popleft()
                freed += head.size_bytes
                self.position = head.admission.next_index
        if not self.window:
            self.position = max(self.position, self.fetch_index)
        return taken, freed

    @property
    def ready(self) -> bool:
        """Whether there is something to take or to say."""
        return self.failure is not None or (bool(self.window) and self.window[0].events is not None)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A storage party did not give what it should; nothing in it speaks against a producer."""

    party: str
    digest: bytes
    why: str


class Standing:
    """How the storage parties have behaved towards us, and whom to ask first therefore.

    `nearest` is asked before all others while it behaves.
    """

    def __init__(self, nearest: str | None = None) -> None:
        self._nearest = nearest
        self.suspicions: deque[Suspicion] = deque(maxlen=SUSPICIONS_KEPT)
        self.counts: Counter[str] = Counter()
        self._demoted_ms: dict[str, int] = {}

    def suspect(self, party: str, digest: bytes, why: str, now_ms: int) -> None:
        """Notes it, and asks others first for a while."""
        self.suspicions.append(Suspicion(party, digest, why))
        self.counts[party] += 1
        self.demote(party, now_ms)

    def demote(self, party: str, now_ms: int) -> None:
        """Asks others first for a while."""
        self._demoted_ms[party] = now_ms + DEMOTED_MS

    def order(self, admission: Admission, parties: Sequence[str], now_ms: int) -> list[str]:
        """Whom to ask for a batch, one after the other: the nearest, those that vouched, then the others.

        Those that vouched take turns, by the batch's digest, so that they share the work.
        """
        vouched = list(admission.parties)
        turn = admission.digest[0] % len(vouched)
        order = [*vouched[turn:], *vouched[:turn]]
        order += [party for party in parties if party not in order]
        return sorted(
            order, key=lambda name: (self._demoted_ms.get(name, 0) > now_ms, name != self._nearest)
        )
