"""A recording: the clients of a broker write journals, and a thread of its own makes a history of them.

    with Recording(folder, "kafka") as recording:
        orders = recording.stream("orders")
        journal = recording.journal("producer-0")
        call = journal.invoke(Operation.SEND, stream=orders, producer=journal.process, number=0)
        ...
        journal.ok(call, partition=2, offset=17)
        recording.finish()

However the block is left, by Ctrl-C or an exception too, the folder then contains a whole history of what
happened so far, also if the program ends without leaving it. It is `complete` only if `finish` was called.
"""

from __future__ import annotations

import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from veristream.history.events import NONE
from veristream.history.manifest import Incident, Isolation, Manifest, Process, Stream
from veristream.history.store.writer import HistoryWriter
from veristream.recording.journal import Columns, Journal

DRAIN_S: Final = 0.1
"""How often the journals are emptied."""

NEEDED: Final = ("process", "index", "call", "operation", "outcome")


class Recording:
    """Registers names, hands out journals, and writes them; any thread may use it.

    A name that was registered before has the number that it got then, and keeps its first description.
    `settings`, `workload`, `producers_complete` and `transactions_recorded` may change until the end.
    Raises ModelError if the folder contains a history, EnvironmentFailure if it cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        source: str,
        workload: str = "",
        settings: Mapping[str, str] | None = None,
        buckets: int = 8,
    ) -> None:
        self.folder = folder
        self.source = source
        self.workload = workload
        self.settings = dict(settings or {})
        self.producers_complete = True
        self.transactions_recorded = True
        self._writer = HistoryWriter(folder, buckets)
        self._writer.append_columns({name: np.empty(0) for name in NEEDED})  # imports what it needs later
        self._recorded_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._start_ns = time.monotonic_ns()
        self._lock = threading.RLock()
        self._processes: list[Process] = []
        self._journals: list[Journal] = []
        self._streams: dict[str, Stream] = {}
        self._numbers: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._nodes: dict[str, int] = {}
        self._incidents: list[Incident] = []
        self._complete = False
        self._events = 0
        self._failure: BaseException | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recording")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(complete=self._complete and error is None)

    @property
    def events(self) -> int:
        """How many events were taken from the journals so far."""
        return self._events

    def now_ns(self) -> int:
        """Returns the time since the start of the recording."""
        return time.monotonic_ns() - self._start_ns

    def stream(self, name: str, description: Stream | None = None) -> int:
        """Returns the number of a topic or queue, which is a log unless `description` says otherwise."""
        with self._lock:
            self._streams.setdefault(name, description or Stream(name))
            return self._numbers.setdefault(name, len(self._numbers))

    def group(self, name: str) -> int:
        """Returns the number of a consumer group, a subscription or a transactional id."""
        with self._lock:
            return self._groups.setdefault(name, len(self._groups))

    def node(self, name: str) -> int:
        """Returns the number of a node of the broker."""
        with self._lock:
            return self._nodes.setdefault(name, len(self._nodes))

    def journal(self, name: str, isolation: Isolation = "", member_of: int | None = None) -> Journal:
        """Registers a new process of this machine, and returns its journal; names need not differ."""
        with self._lock:
            host = platform.node() or "localhost"
            self._processes.append(Process(name, host, isolation, member_of))
            journal = Journal(len(self._journals), self._start_ns)
            self._journals.append(journal)
            return journal

    @contextmanager
    def incident(self, kind: str, target: str) -> Iterator[None]:
        """Notes a fault that lasts as long as the block."""
        number = self.begin_incident(kind, target)
        try:
            yield
        finally:
            self.end_incident(number)

    def begin_incident(self, kind: str, target: str, details: Mapping[str, str] | None = None) -> int:
        """Notes a fault that begins now; returns the number by which it ends."""
        with self._lock:
            self._incidents.append(Incident(kind, target, self.now_ns(), details=dict(details or {})))
            return len(self._incidents) - 1

    def end_incident(self, number: int, details: Mapping[str, str] | None = None) -> None:
        """Notes that a fault is over, and what else is known of it."""
        with self._lock:
            one = self._incidents[number]
            known = {**one.details, **(details or {})}
            self._incidents[number] = replace(one, end_ns=self.now_ns(), details=known)

    def acknowledged(self, stream: int, partition: int) -> int:
        """Returns the highest offset at which a send was acknowledged until a moment ago, or NONE."""
        with self._lock:
            return max((each.acknowledged(stream, partition) for each in self._journals), default=NONE)

    def check(self) -> None:
        """Raises what went wrong with writing, if something did."""
        if self._failure is not None:
            raise self._failure

    def finish(self) -> None:
        """Says that the workload came to its end, its last reads included."""
        self._complete = True

    def close(self, *, complete: bool) -> None:
        """Writes what is left and the manifest; an interrupt waits until that is done."""
        self._complete = complete
        self._over.set()
        interrupt: KeyboardInterrupt | None = None
        while self._thread.is_alive():
            try:
                self._thread.join()
            except KeyboardInterrupt as pressed:
                interrupt = pressed
        self.check()
        if interrupt is not None:
            raise interrupt

    def manifest(self) -> Manifest:
        """Returns what is known besides the events."""
        with self._lock:
            return Manifest(
                self.source,
                tuple(self._processes),
                tuple(self._streams[name] for name in self._numbers),
                tuple(self._groups),
                tuple(self._nodes),
                complete=self._complete,
                producers_complete=self.producers_complete,
                transactions_recorded=self.transactions_recorded,
                workload=self.workload,
                settings=dict(self.settings),
                incidents=tuple(self._incidents),
                recorded_at=self._recorded_at,
            )

    def _run(self) -> None:
        try:
            while not self._over.wait(DRAIN_S) and threading.main_thread().is_alive():
                self._drain(Journal.drain)
            self._drain(Journal.retire)
            self._complete = self._complete and self._over.is_set()
            self._writer.close(self.manifest())
        except BaseException as failure:  # noqa: BLE001  # raised again where somebody checks or closes
            self._failure = failure
            self._writer.abandon()

    def _drain(self, take: Callable[[Journal], list[Columns]]) -> None:
        with self._lock:
            journals = list(self._journals)
        wall_ns = time.time_ns() - (time.monotonic_ns() - self._start_ns)
        for each in journals:
            for columns in take(each):
                times = np.asarray(columns["time_ns"])
                self._writer.append_columns({**columns, "wall_us": (times + wall_ns) // 1000})
                self._events += len(times)
