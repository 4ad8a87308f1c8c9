"""Reading a partition in the ledger's order: which batches to fetch, from which party, and for how long.

One party is asked first, and another when the answer is missing, late or wrong. The first good answer
counts.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from veristream.kabis.client.consumed import Consumed, Place
from veristream.kabis.client.errors import BelowLowWaterError
from veristream.kabis.client.fetching import require_partition
from veristream.kabis.client.pushes import Failure
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Admission
from veristream.kabis.protocol.receipts import StorageAbsence

BUSY_FACTOR = 4
"""How many times `timeout_ms` a party may take while it answers other requests."""


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
class PendingBatch:
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
class ValidatedReader:
    """One partition as a consumer reads it by the ledger's order.

    The window holds the batches from `position` on up to `fetch_index`.
    """

    place: Place
    position: int
    fetch_index: int
    window: deque[PendingBatch] = field(default_factory=deque)
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

    def find(self, first_index: int) -> PendingBatch | None:
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


def find_index(ledger: Ledger, place: Place, time_ms: int) -> int | None:
    """The first index in a block of this time or later; None if there is none yet."""
    low_water = require_partition(ledger, place).low_water
    for admission in ledger.admissions(*place, low_water):
        if admission.time_ms >= time_ms:
            return max(low_water, admission.first_index)
    return None
