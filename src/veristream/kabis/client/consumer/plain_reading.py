"""Reading a partition without validating, from the one storage party of its topic.

The guarantees are Kafka's: the order is that of the party's log, and the party is believed.
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
"""How much is asked for at once, and how much is held at most before that."""


Answer = PlainSlice | PlainEvents | Below | Failure
"""What a fetch came to: events, that they were let go, or that there will be none."""


@dataclass(slots=True)
class PlainReader:
    """One partition; `position` is None until the party has said where it ends.

    `lenient` while the position is not one that somebody chose: then reading begins where the party does.
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
        """Goes on from an offset, or from the end."""
        self.drop()
        self.position, self.lenient, self.failure = offset, lenient, None
        self.fetch_offset = offset or 0
        self.asked, self.again_ms = None, 0

    def seek_to(self, start: Start, committed: int | None = None) -> None:
        """Goes on from where a group is, if it is anywhere; else from the beginning or the end."""
        if committed is not None:
            self.seek(committed)
        elif start is Start.BEGINNING:
            self.seek(0, lenient=True)
        else:
            self.seek(None)

    def drop(self) -> int:
        """Lets go of what is here; it is not counted as buffered."""
        self.events.clear()
        self.held_bytes = 0
        return 0

    def ask(self) -> int:
        """The offset to ask for now."""
        self.asked = FROM_END if self.position is None else self.fetch_offset
        return self.asked

    def answered(self, offset: int, part: Answer, sealer: Sealer | None) -> None:
        """Takes what the party gave for an offset; an answer to an older question is of no use."""
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
        """The next events, as many as are here; none of them were counted as buffered."""
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
        """Whether there is something to take or to say."""
        return bool(self.events) or self.failure is not None
