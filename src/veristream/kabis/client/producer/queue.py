"""A producer's events of one partition: those that wait, and those in flight."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice

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
    """The parties that were asked and have not answered, and when to ask those again that failed."""

    asked: set[str] = field(default_factory=set)
    again_ms: dict[str, int] = field(default_factory=dict)

    def may_ask(self, party: str, now_ms: int) -> bool:
        """Whether the party may be asked now."""
        return party not in self.asked and self.again_ms.get(party, 0) <= now_ms

    def again(self) -> int:
        """Returns when to ask the next party that failed and is not being asked now."""
        return min(
            (when for party, when in self.again_ms.items() if party not in self.asked), default=NEVER_MS
        )

    def answered(self, party: str) -> None:
        """The party gave a good answer."""
        self.asked.discard(party)
        self.again_ms.pop(party, None)

    def failed(self, party: str, again_ms: int) -> None:
        """The party failed, and is asked again at this time."""
        self.asked.discard(party)
        self.again_ms[party] = again_ms


@dataclass(slots=True)
class Flight:
    """A signed batch that is not admitted yet. It never changes: a sequence number is signed once.

    `parcel` is None if nobody waits for it any more, or if it was signed before a restart.
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
    submits: int = 0
    submit_ms: int = 0
    problem: str = ""


@dataclass(slots=True)
class PlainFlight:
    """An append in flight to the one storage party of a topic that is not validated."""

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
        """Closes the open parcel, which takes no further events."""
        if self.open is not None:
            self.ready.append(self.open)
            self.open = None

    def has_room(self, in_flight: int, *, validated: bool) -> bool:
        """Whether one more parcel would be sent at once, if `in_flight` may be in flight.

        Batches that were signed before the topic ceased to be validated do not hold up unsigned appends.
        """
        leaving = len(self.flights) if validated else int(self.plain is not None)
        return leaving + len(self.ready) < (in_flight if validated else 1)

    def begin_plain(self) -> int:
        """Makes an unsigned append of the next parcel; returns the number of its events."""
        parcel = self.ready.popleft()
        place = PartitionName(self.topic, self.partition)
        append = PlainAppend(place, self.session, self.plain_sequence, tuple(parcel.take_leaves()))
        self.plain_sequence += 1
        self.plain = PlainFlight(parcel, append)
        return len(append.leaves)

    def give_up_plain(self) -> PlainFlight:
        """Gives up the unsigned append in flight.

        The party may lack it and refuses appends out of order, so a new session begins.
        """
        assert self.plain is not None, "there is something to give up"
        given_up, self.plain = self.plain, None
        self.session = sha256(self.session).digest()[:SESSION_BYTES]
        self.plain_sequence = 0
        return given_up

    def abandon(self, now_ms: int) -> Iterator[tuple[Parcel, str]]:
        """Yields the parcels in flight whose time is over, with their problems; nobody waits for them now.

        Later parcels have later deadlines, so only the first ones are looked at.
        """
        for flight in self.flights:
            if flight.parcel is None:
                continue
            if flight.parcel.deadline_ms > now_ms:
                return
            parcel, flight.parcel = flight.parcel, None
            yield parcel, flight.problem

    def deadline_ms(self) -> int:
        """Returns when the oldest parcel has waited too long."""
        waiting = (flight.parcel for flight in self.flights if flight.parcel is not None)
        others = (self.plain.parcel if self.plain is not None else None, *islice(self.ready, 1), self.open)
        oldest = next(waiting, None) or next((each for each in others if each is not None), None)
        return NEVER_MS if oldest is None else oldest.deadline_ms

    def parcels(self) -> list[Parcel]:
        """Returns all parcels that are not settled, oldest first."""
        flying = [flight.parcel for flight in self.flights if flight.parcel is not None]
        if self.plain is not None:
            flying.append(self.plain.parcel)
        return [*flying, *self.ready, *([self.open] if self.open is not None else [])]

    def meet(self, gone: Iterable[str]) -> None:
        """Forgets what these storage parties answered, and makes the transactions in flight anew."""
        for party in gone:
            self.answers.pop(party, None)
            self.attempts.answered(party)
        for flight in self.flights:
            for party in gone:
                flight.receipts.pop(party, None)
                flight.attempts.answered(party)
            flight.transaction, flight.submit_ms = None, 0

    def find(self, digest: bytes) -> Flight | None:
        """Returns the batch in flight with this digest, or None."""
        return next((flight for flight in self.flights if flight.digest == digest), None)
