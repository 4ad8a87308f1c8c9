"""What the clients of the simulated broker record: every event has a place in its process and a time."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Final

from veristream.history.events import Event, Operation, Outcome
from veristream.history.manifest import Process

HOST: Final = "here"


class Recorder:
    """The events of all processes of one host, in the order of time."""

    def __init__(self, random: Random) -> None:
        self.processes: list[Process] = []
        self.groups: list[str] = []
        self.events: list[Event] = []
        self._random = random
        self._now = 0
        self._indices: list[int] = []
        self._calls: list[int] = []

    def process(self, name: str) -> int:
        """Adds a process."""
        self.processes.append(Process(f"{name}-{len(self.processes)}", HOST))
        self._indices.append(0)
        self._calls.append(0)
        return len(self.processes) - 1

    def group(self, name: str) -> int:
        """Adds a group, a subscription or a transactional id."""
        self.groups.append(f"{name}-{len(self.groups)}")
        return len(self.groups) - 1

    def _add(self, event: Event) -> Event:
        self._now += self._random.randint(1, 1000)
        index = self._indices[event.process]
        self._indices[event.process] += 1
        added = replace(event, index=index, time_ns=self._now, wall_us=self._now // 1000)
        self.events.append(added)
        return added

    def begin(
        self, process: int, operation: Operation, with_call: int | None = None, **fields: Any
    ) -> Event:
        """Records that a call begins, or that it goes on with another message."""
        call = self._call(process) if with_call is None else with_call
        return self._add(Event(process, 0, call, operation, Outcome.INVOKE, **fields))

    def end(self, begun: Event, outcome: Outcome = Outcome.OK, **fields: Any) -> Event:
        """Records how a call ended."""
        return self._add(replace(begun, outcome=outcome, **fields))

    def call(self, process: int, operation: Operation, **fields: Any) -> Event:
        """Records a call that ended OK; returns its end."""
        return self.end(self.begin(process, operation, **fields))

    def once(
        self, process: int, operation: Operation, with_call: int | None = None, **fields: Any
    ) -> Event:
        """Records an event that has no `INVOKE`, in a call of its own unless one is given."""
        call = self._call(process) if with_call is None else with_call
        return self._add(Event(process, 0, call, operation, Outcome.OK, **fields))

    def _call(self, process: int) -> int:
        self._calls[process] += 1
        return self._calls[process] - 1
