"""Reading a partition without validating, from the one storage party of its topic.

The guarantees are Kafka's: the order is that of the party's log, and the party is trusted.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client.consumed import (
    Consumed,
    Origin,
    Place,
    PlainEvents,
    decode_events,
    open_events,
)
from veristream.kabis.client.errors import BelowLowWaterError
from veristream.kabis.client.options import Start
from veristream.kabis.client.pushes import Failure
from veristream.kabis.protocol.answers import Below
from veristream.kabis.protocol.plain import FROM_END, PlainSlice
from veristream.kabis.protocol.seal import Sealer

PLAIN_BYTES = 1 << 20
"""How much one request asks for; no request is made while more than this is held."""


Answer = PlainSlice | PlainEvents | Below | Failure
"""The result of a fetch: events, that they were released, or a failure."""


@dataclass(slots=True)
class PlainReader:
    """One partition; `position` is None until the party has reported the end.

    `lenient` if nobody chose the position: then reading starts with the first event of the party.
    """

    place: Place
    position: int | None = 0
    lenient: bool = True
    fetch_offset: int = 0
    asked: int | None = None
    again_ms: int = 0
    events: deque[Consumed] = field(default_factory=deque)
    held_bytes: int = 0
    failure: Failure | None = None

    def seek(self, offset: int | None, *, lenient: bool = False) -> None:
        """Continues from an offset, or from the end."""
        self.drop()
        self.position, self.lenient, self.failure = offset, lenient, None
        self.fetch_offset = offset or 0
        self.asked, self.again_ms = None, 0

    def seek_to(self, start: Start, committed: int | None = None) -> None:
        """Continues from the group's commit, or else from the beginning or the end."""
        if committed is not None:
            self.seek(committed)
        elif start is Start.BEGINNING:
            self.seek(0, lenient=True)
        else:
            self.seek(None)

    def drop(self) -> int:
        """Drops the events that have arrived. Returns 0, because they are not counted as buffered."""
        self.events.clear()
        self.held_bytes = 0
        return 0

    def ask(self) -> int:
        """Returns the offset to ask for now."""
        self.asked = FROM_END if self.position is None else self.fetch_offset
        return self.asked

    def answered(self, offset: int, part: Answer, sealer: Sealer | None) -> None:
        """Takes the party's answer for an offset; ignores an answer to an earlier request."""
        if offset != self.asked:
            return
        self.asked = None
        if isinstance(part, ModelError | EnvironmentFailure):
            self.failure = part
            return
        if isinstance(part, Below):
            if self.lenient:
                self.seek(part.low_water, lenient=True)
            else:
                self.failure = BelowLowWaterError(*self.place, offset, part.low_water)
            return
        if self.position is None:
            self.seek(part.end)
            return
        if isinstance(part, PlainEvents):
            self.events.extend(part.events if sealer is None else open_events(part.events, sealer))
            self.held_bytes += part.size_bytes
            self.fetch_offset = part.next_offset
            self.lenient = self.lenient and not part.events
            return
        origin = Origin(*self.place, None, None, None, None)
        for entry in part.entries:
            events = decode_events(list(entry.append.leaves), entry.first_offset, origin, sealer)
            self.events.extend(event for event in events if event.index >= self.fetch_offset)
            self.held_bytes += sum(map(len, entry.append.leaves))
            self.fetch_offset = max(self.fetch_offset, entry.first_offset + len(entry.append.leaves))
        self.lenient = False

    def take(self, count_max: int) -> tuple[list[Consumed], int]:
        """Returns the next events that have arrived, and 0, because none were counted as buffered."""
        taken = [self.events.popleft() for _ in range(min(count_max, len(self.events)))]
        if self.events:
            self.position = self.events[0].index
        elif self.position is not None:
            self.position = self.fetch_offset
            self.held_bytes = 0
        return taken, 0

    @property
    def wants_more(self) -> bool:
        """Whether to ask the party now."""
        return self.asked is None and self.failure is None and self.held_bytes < PLAIN_BYTES

    @property
    def ready(self) -> bool:
        """Whether there are events to take, or a failure to raise."""
        return bool(self.events) or self.failure is not None
