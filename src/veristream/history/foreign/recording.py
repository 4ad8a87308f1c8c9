"""Writing down what a foreign recording says: numbers for names, the index of each event, the manifest."""

from __future__ import annotations

import shutil
from collections.abc import Hashable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.identity import UNKNOWN
from veristream.history.manifest import Manifest, Process, Stream
from veristream.history.store.writer import HistoryWriter

EVENTS_AT_ONCE: Final = 20_000

Place = tuple[int, int]
"""A stream and a partition."""


class Recording:
    """A history that is being imported; one that fails leaves nothing behind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._new = not folder.exists()
        self._writer = HistoryWriter(folder)
        self._events: list[Event] = []
        self._processes: dict[str, int] = {}
        self._process_list: list[Process] = []
        self._streams: dict[str, int] = {}
        self._stream_list: list[Stream] = []
        self._groups: dict[str, int] = {}
        self._indices: list[int] = []
        self._calls: list[int] = []
        self._times: list[int] = []
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._writer.abandon()
            shutil.rmtree(self._folder / "events", ignore_errors=True)
            if self._new:
                with suppress(OSError):
                    self._folder.rmdir()

    def process(self, process: Process) -> int:
        """Returns the number of the process with this name, which is new to the history or not."""
        name = _writable(process.name)
        number = self._processes.setdefault(name, len(self._process_list))
        if number == len(self._process_list):
            self._process_list.append(replace(process, name=name))
            self._indices.append(0)
            self._calls.append(0)
            self._times.append(0)
        return number

    def stream(self, name: str, offsets: bool = True) -> int:
        """Returns the number of the stream with this name."""
        name = _writable(name)
        number = self._streams.setdefault(name, len(self._stream_list))
        if number == len(self._stream_list):
            self._stream_list.append(Stream(name, offsets))
        return number

    def group(self, name: str) -> int:
        """Returns the number of the group with this name."""
        return self._groups.setdefault(_writable(name), len(self._groups))

    def call(self, process: int) -> int:
        """Returns the number of a new call of the process."""
        self._calls[process] += 1
        return self._calls[process] - 1

    def last_time(self, process: int) -> int:
        """Returns the time of the last event of the process."""
        return self._times[process]

    def latest_time(self) -> int:
        """Returns the latest time of all processes."""
        return max(self._times, default=0)

    def hosts(self) -> set[str]:
        """Returns the hosts of all processes."""
        return {process.host for process in self._process_list}

    def put(
        self, call: tuple[int, int], operation: Operation, outcome: Outcome, time_ns: int, **fields: Any
    ) -> None:
        """Adds the next event of a process; `call` is the process and the number of its call."""
        process, number = call
        index = self._indices[process]
        self._indices[process] = index + 1
        self._times[process] = time_ns
        if error := fields.get("error"):
            fields["error"] = _writable(error)
        self._events.append(Event(process, index, number, operation, outcome, time_ns, **fields))
        if len(self._events) >= EVENTS_AT_ONCE:
            self._flush()

    def streams(self) -> tuple[Stream, ...]:
        """Returns the streams so far."""
        return tuple(self._stream_list)

    def close(self, manifest: Manifest) -> Manifest:
        """Writes the manifest, with all names, and returns it."""
        self._flush()
        whole = replace(
            manifest,
            processes=tuple(self._process_list),
            streams=tuple(self._stream_list),
            groups=tuple(self._groups),
        )
        return self._writer.close(whole)

    def _flush(self) -> None:
        self._writer.append(self._events)
        self.count += len(self._events)
        self._events = []


def _writable(text: str) -> str:
    """Returns a text that UTF-8 can write: escapes in JSON and EDN may name halves of characters."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


class Messages:
    """Messages that are known by their values: who sent each, and as which of its messages."""

    def __init__(self) -> None:
        self._sent: dict[tuple[Place, Hashable], tuple[int, int]] = {}
        self._counts: dict[int, int] = {}

    def send(self, process: int, place: Place, value: Hashable) -> int | None:
        """Returns the number of a message that is new; None if its value was sent before."""
        if (place, value) in self._sent:
            return None
        number = self._counts.get(process, 0)
        self._counts[process] = number + 1
        self._sent[place, value] = (process, number)
        return number

    def add(self, place: Place, value: Hashable, identity: tuple[int, int]) -> bool:
        """Adds a message whose number is known; False if its value was sent before, as another one."""
        return self._sent.setdefault((place, value), identity) == identity

    def identities(self) -> dict[tuple[int, Hashable], tuple[int, int]]:
        """Returns producer and number by stream and value."""
        return {(place[0], value): identity for (place, value), identity in self._sent.items()}

    def find(self, place: Place, value: Hashable) -> tuple[int, int]:
        """Returns producer and number; `UNKNOWN` if nobody has sent the value."""
        return self._sent.get((place, value), UNKNOWN)


class Coverage:
    """Which offsets each reader went through, one after the other, so that it must have got what is there.

    A reader that did not begin at offset 0, or of a partition in which an acknowledged message has no known
    offset, is never said to have read from 0: from offset 0 to the end would mean all that was sent.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[int, Place], list[int]] = {}
        self._done: dict[tuple[int, Place], list[list[int]]] = {}
        self._blind: set[Place] = set()

    def receive(self, process: int, place: Place, offset: int) -> None:
        """Goes on after the last offset, or begins anew if the offset is not above it."""
        span = self._open.get((process, place))
        if span is None:
            self._open[process, place] = [offset, offset + 1]
        elif offset >= span[1]:
            span[1] = offset + 1
        else:
            self.seek(process, place)
            self._open[process, place] = [offset, offset + 1]

    def seek(self, process: int, place: Place, offset: int = NONE) -> None:
        """Ends what was read in one go; reading goes on at `offset`, if it is known."""
        span = self._open.pop((process, place), None)
        if span is not None and span[0] < span[1]:
            spans = self._done.setdefault((process, place), [])
            if spans and spans[-1][0] <= span[0] <= spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], span[1])
            else:
                spans.append(span)
        if offset != NONE:
            self._open[process, place] = [offset, offset]

    def reach(self, process: int, place: Place, offset: int) -> None:
        """Says that there was nothing more below the offset."""
        span = self._open.setdefault((process, place), [offset, offset])
        span[1] = max(span[1], offset)

    def blind(self, place: Place) -> None:
        """Says that a message was acknowledged there without an offset."""
        self._blind.add(place)

    def put(self, recording: Recording) -> None:
        """Adds a `READ_TO_END` for all that was read, at the end of each reader."""
        for process, place in list(self._open):
            self.seek(process, place)
        for (process, place), spans in sorted(self._done.items()):
            for begin, end in self._allowed(place, spans):
                call, time_ns = (process, recording.call(process)), recording.last_time(process)
                fields = {"stream": place[0], "partition": place[1]}
                recording.put(call, Operation.READ_TO_END, Outcome.INVOKE, time_ns, **fields)
                fields |= {"number": begin, "offset": end}
                recording.put(call, Operation.READ_TO_END, Outcome.OK, time_ns, **fields)

    def _allowed(self, place: Place, spans: list[list[int]]) -> Iterator[tuple[int, int]]:
        for begin, end in spans:
            lowest = max(begin, 1) if place in self._blind else begin
            if lowest < end:
                yield lowest, end
