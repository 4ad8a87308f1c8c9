"""A producer's events of one partition: those that wait, and those in flight."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from hashlib import sha256

from veristream.kabis.client.pushes import Parcel
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import SESSION_BYTES, PlainAppend
from veristream.kabis.protocol.receipts import StorageReceipt
from veristream.kabis.protocol.seal import Sealer

NEVER_MS = 1 << 62


@dataclass(slots=True)
class Attempts:
    """Whom we have asked and not heard of, and when to ask those again who failed."""

    asked: set[str] = field(default_factory=set)
    again_ms: dict[str, int] = field(default_factory=dict)

    def may_ask(self, party: str, now_ms: int) -> bool:
        """Whether it is the party's turn."""
        return party not in self.asked and self.again_ms.get(party, 0) <= now_ms

    def again(self) -> int:
        """When the next of those that failed is to be asked; whoever is asked now does not count."""
        return min(
            (when for party, when in self.again_ms.items() if party not in self.asked), default=NEVER_MS
        )

    def answered(self, party: str) -> None:
        """The party said something of use."""
        self.asked.discard(party)
        self.again_ms.pop(party, None)

    def failed(self, party: str, again_ms: int) -> None:
        """The party is asked again then."""
        self.asked.discard(party)
        self.again_ms[party] = again_ms


@dataclass(slots=True)
class Flight:
    """A signed batch that is not admitted yet. It never changes: a sequence number is signed once.

    `parcel` is None when nobody waits for it any more, or when it was signed before a restart.
    """

    parcel: Parcel | None
    batch: Batch
    data: bytes
    digest: bytes
    written: bool
    attempts: Attempts = field(default_factory=Attempts)
    receipts: dict[str, StorageReceipt] = field(default_factory=dict)
    transaction: bytes | None = None
    validators_asked: int = 0
    submit_ms: int = 0
    problem: str = ""


@dataclass(slots=True)
class PlainFlight:
    """Events on their way to the one storage party of a topic that is not validated."""

    parcel: Parcel
    append: PlainAppend
    attempts: Attempts = field(default_factory=Attempts)
    problem: str = ""


@dataclass(slots=True)
class PartitionQueue:
    """Parcels that wait, the chain of signed batches in flight, and the append that is sent unsigned.

    The chain is `known` once it is certain what was signed before; until then nothing is signed.
    """

    topic: str
    partition: int
    session: bytes
    sealer: Sealer | None = None
    open: Parcel | None = None
    ready: deque[Parcel] = field(default_factory=deque)
    known: bool = False
    asked_sequence: int = 0
    attempts: Attempts = field(default_factory=Attempts)
    answers: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    next_sequence: int = 0
    last: bytes = ZERO_DIGEST
    flights: deque[Flight] = field(default_factory=deque)
    plain: PlainFlight | None = None
    plain_sequence: int = 0

    def close_open(self) -> None:
        """Nothing more goes into the open parcel."""
        if self.open is not None:
            self.ready.append(self.open)
            self.open = None

    def has_room(self, in_flight: int, *, validated: bool) -> bool:
        """Whether one more parcel would leave at once, where so many may be on their way.

        Batches that were signed before the topic ceased to be validated wait, and nothing waits for them.
        """
        leaving = len(self.flights) if validated else int(self.plain is not None)
        return leaving + len(self.ready) < (in_flight if validated else 1)

    def begin_plain(self) -> int:
        """Sends the next parcel out unsigned; gives how many events that is."""
        parcel = self.ready.popleft()
        place = PartitionName(self.topic, self.partition)
        append = PlainAppend(place, self.session, self.plain_sequence, tuple(parcel.take_leaves()))
        self.plain_sequence += 1
        self.plain = PlainFlight(parcel, append)
        return len(append.leaves)

    def give_up_plain(self) -> PlainFlight:
        """Lets go of what is out unsigned.

        The party may still miss it, and takes none out of order: so a new session begins.
        """
        assert self.plain is not None, "there is something to give up"
        given_up, self.plain = self.plain, None
        self.session = sha256(self.session).digest()[:SESSION_BYTES]
        self.plain_sequence = 0
        return given_up

    def parcels(self) -> list[Parcel]:
        """All that somebody waits for, oldest first."""
        flying = [flight.parcel for flight in self.flights if flight.parcel is not None]
        if self.plain is not None:
            flying.append(self.plain.parcel)
        return [*flying, *self.ready, *([self.open] if self.open is not None else [])]

    def find(self, digest: bytes) -> Flight | None:
        """The batch on its way that has this digest."""
        return next((flight for flight in self.flights if flight.digest == digest), None)
