"""What the verifiable clients of one recording share: the clock, the host, who sent which value."""

from __future__ import annotations

from typing import Any

from veristream.history.events import Operation, Outcome
from veristream.history.foreign.kafka.lines import Line
from veristream.history.foreign.recording import Coverage, Messages, Recording
from veristream.history.manifest import Process


class Clients:
    """The clients of a recording; times count from `begin_ms`, the first event of all."""

    def __init__(self, recording: Recording, begin_ms: int, host: str, incomplete: bool) -> None:
        self.recording = recording
        self.incomplete = incomplete
        self.messages = Messages()
        self.coverage = Coverage()
        self._begin_ms = begin_ms
        self._host = host

    def process(self, name: str, group: int | None = None) -> int:
        """Returns the number of a client."""
        return self.recording.process(Process(name, self._host, member_of=group))

    def add_value(self, line: Line, stream: int, value: str, identity: tuple[int, int]) -> None:
        """Says who sent a value; it may go to any partition of the topic."""
        if not self.messages.add((stream, 0), value, identity):
            raise line.error(
                f"value {value!r} was sent by another producer, too",
                "messages are known by their values: give each producer another --value-prefix",
            )

    def time_ns(self, line: Line) -> int:
        """Returns the time of an event from the start of the recording."""
        return (line.time_ms() - self._begin_ms) * 1_000_000

    def put(
        self, process: int, line: Line, what: tuple[Operation, Outcome], call: int = -1, **fields: Any
    ) -> None:
        """Adds an event at the time of a line; without a call, it is the only one of its call."""
        number = self.recording.call(process) if call < 0 else call
        wall_us = line.time_ms() * 1000
        self.recording.put((process, number), *what, self.time_ns(line), wall_us=wall_us, **fields)
