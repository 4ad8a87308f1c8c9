"""Reading a partition in the ledger's order: which batches to fetch, from which party, and for how long.

One party is asked first, and another when the answer is missing, late or wrong. The first good answer
counts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from veristream.kabis.client.consumed import Consumed, Place
from veristream.kabis.client.errors import BelowLowWaterError
from veristream.kabis.client.fetching import Standing, require_partition
from veristream.kabis.client.pushes import Failure
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Admission
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.receipts import StorageAbsence

BUSY_FACTOR = 4
"""How many times the limit a party may take while it answers other requests."""
SLOW_FACTOR = 8
"""How many times as long as the fastest of the others a party may take."""
SLOW_MS_MIN = 100
"""How long a party may take however fast the others are."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an answer may take, counted from the request or from the party's last good answer since.

    A party that returns one batch after the other is busy, and asking another party for the same batch
    would only add load. Its good answers extend the time at most to `BUSY_FACTOR` times the limit.

    The limit is `timeout_ms`, and less if another party answers much faster. Otherwise a party that always
    answers just in time would set the pace of the consumer.
    """

    timeout_ms: int
    heard_ms: dict[str, int] = field(default_factory=dict)
    took_ms: dict[str, float] = field(default_factory=dict)

    def hear(self, party: str, now_ms: int, asked_ms: int | None = None) -> bool:
        """Notes a good answer to a request of this time; returns whether it was too slow."""
        self.heard_ms[party] = now_ms
        if asked_ms is None:
            return False
        took_ms = now_ms - asked_ms
        self.took_ms[party] = (3 * self.took_ms.get(party, took_ms) + took_ms) / 4
        return self.took_ms[party] > self.limit_ms(party)

    def limit_ms(self, party: str) -> int:
        """Returns how long an answer of this party may take, given how long those of others take."""
        others = [took_ms for name, took_ms in self.took_ms.items() if name != party]
        fastest_ms = min(others, default=self.timeout_ms)
        return min(self.timeout_ms, max(SLOW_MS_MIN, int(SLOW_FACTOR * fastest_ms)))

    def end_ms(self, party: str, asked_ms: int) -> int:
        """Returns when the answer to a request becomes late."""
        since_ms, limit_ms = max(asked_ms, self.heard_ms.get(party, 0)), self.limit_ms(party)
        return min(since_ms + limit_ms, asked_ms + BUSY_FACTOR * limit_ms)


@dataclass(slots=True)
class PendingBatch:
    """An admitted batch to deliver; `events` is None until it has arrived, and empty if it was skipped.

    `size_bytes` is an estimate until then.
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
        """Returns the party to ask now; None while an answer may come in time, or if all were asked."""
        if self.events is not None or self.round_ms > now_ms:
            return None
        if any(end_ms > now_ms for end_ms in self._ends_ms(patience)):
            return None
        return next((party for party in self.parties if party not in self.asked), None)

    def leave_late(self, standing: Standing, now_ms: int, timeout_ms: int) -> None:
        """Prefers other parties to those that are late, and suspects those that have had all their time."""
        for party in self.asked.keys() - self.failed:
            standing.demote(party, now_ms)  # it may only be slower than others
            if now_ms - self.asked[party] >= timeout_ms:
                standing.suspect(party, self.admission.digest, "it did not answer in time", now_ms)

    def due_ms(self, patience: Patience) -> int:
        """Returns when to look again."""
        return max([self.round_ms, *self._ends_ms(patience)])

    def is_over(self, now_ms: int, patience: Patience) -> bool:
        """Whether every party has failed or is late."""
        return self.failed.issuperset(self.parties) or self.due_ms(patience) <= now_ms

    def _ends_ms(self, patience: Patience) -> list[int]:
        return [
            patience.end_ms(party, when) for party, when in self.asked.items() if party not in self.failed
        ]

    def begin_again(self, when_ms: int, parties: list[str]) -> None:
        """Starts another round after all parties have failed, at this time and with these parties."""
        self.parties = parties
        self.asked.clear()
        self.failed.clear()
        self.round_ms = when_ms


@dataclass(slots=True)
class ValidatedReader:
    """One partition, read in the ledger's order.

    The window contains the batches from `position` to `fetch_index`.
    """

    place: Place
    position: int
    fetch_index: int
    window: deque[PendingBatch] = field(default_factory=deque)
    failure: Failure | None = None

    def seek(self, index: int) -> None:
        """Continues from an index."""
        self.position = self.fetch_index = index
        self.failure = None

    def drop(self) -> int:
        """Drops all batches of the window; returns how many buffered bytes that frees."""
        freed = sum(wanted.size_bytes for wanted in self.window)
        self.window.clear()
        self.fetch_index = self.position
        return freed

    def find(self, first_index: int) -> PendingBatch | None:
        """Returns the batch in the window that begins at an index."""
        return next((each for each in self.window if each.admission.first_index == first_index), None)

    def check_low_water(self, low_water: int) -> None:
        """Fails until the next `seek` if the position is below the mark."""
        if self.position < low_water:
            self.failure = BelowLowWaterError(*self.place, self.position, low_water)

    def take(self, count_max: int) -> tuple[list[Consumed], int]:
        """Returns the next events that have arrived, and how many buffered bytes that frees."""
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
        """Whether there are events to take, or a failure to raise."""
        return self.failure is not None or (bool(self.window) and self.window[0].events is not None)


def explain_missing(answer: Absent | Below) -> str:
    """Returns what is wrong with a party that gave a receipt for an admitted batch and lacks it."""
    if isinstance(answer, Below):
        return "it released the batch although it is above the low-water mark"
    return "it gave a receipt for the batch and does not have it"


def find_index(ledger: Ledger, place: Place, time_ms: int) -> int | None:
    """Returns the first index in a block of this time or later, or None."""
    low_water = require_partition(ledger, place).low_water
    for admission in ledger.admissions(*place, low_water):
        if admission.time_ms >= time_ms:
            return max(low_water, admission.first_index)
    return None
