"""A workload: clients in threads at a rate, for a time; then all faults end, and everything is read.

Without those last reads, nobody can say that a message is lost. So a recording is complete only after them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from veristream.recording.faults import Faults
from veristream.recording.recording import Recording

WATCH_S: Final = 0.25
"""How often a workload tells how far it is."""

Work = Callable[["Load"], None]
Watch = Callable[[float], None]
"""Is told the seconds since the start."""


class Load:
    """How long clients work and how fast each is; they end when `is_over`."""

    def __init__(self, seconds: float, rate: float = 0.0) -> None:
        self.seconds = seconds
        self.rate = rate
        self._begin_s = time.monotonic()
        self._stopped = threading.Event()

    @property
    def elapsed_s(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._begin_s

    @property
    def is_over(self) -> bool:
        """Whether the time is up, or somebody stopped it."""
        return self._stopped.is_set() or self.elapsed_s >= self.seconds

    def begin(self) -> None:
        """Starts the time anew: what was prepared does not count."""
        self._begin_s = time.monotonic()

    def stop(self) -> None:
        """Ends it early."""
        self._stopped.set()

    def wait(self, seconds: float) -> bool:
        """Sleeps, no longer than the load lasts; returns whether it goes on."""
        self._stopped.wait(max(0.0, min(seconds, self.seconds - self.elapsed_s)))
        return not self.is_over

    def beats(self, among: int = 1) -> Iterator[int]:
        """Yields 0, 1, 2, ... at the rate (0: as fast as possible) until the load is over.

        `among` so many clients, the rate is shared. A client that was held up does not make up for it.
        """
        every_s = among / self.rate if self.rate > 0 else 0.0
        number, due_s = 0, self.elapsed_s
        while not self.is_over:
            yield number
            number += 1
            if every_s:
                due_s = max(due_s + every_s, self.elapsed_s - every_s)
                if (ahead_s := due_s - self.elapsed_s) > 0:
                    self.wait(ahead_s)


@dataclass(frozen=True, slots=True)
class Workload:
    """`clients` work at the same time, each in a thread; after them and all faults, `read` reads all."""

    clients: Mapping[str, Work]
    read: Callable[[], None]
    watch: Watch = field(default=lambda seconds: None)


def run(recording: Recording, workload: Workload, load: Load, faults: Faults) -> None:
    """Runs a workload to its end; the recording is then finished.

    Raises the first failure of a client, after all have ended. An interrupt stops all of them, and the
    recording remains incomplete.
    """
    clients = _Clients(load)
    load.begin()
    try:
        faults.start()
        for name, work in workload.clients.items():
            clients.start(name, work)
        while clients.are_busy(WATCH_S):
            workload.watch(load.elapsed_s)
            recording.check()
    finally:
        load.stop()
        faults.end()
        clients.join()
    clients.check()
    workload.read()
    recording.finish()


class _Clients:
    """Threads, the first failure of which ends the load."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def start(self, name: str, work: Work) -> None:
        thread = threading.Thread(target=self._run, args=(work,), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def are_busy(self, seconds: float) -> bool:
        """Whether one of them still runs, after at most so long."""
        deadline_s = time.monotonic() + seconds
        for each in self._threads:
            each.join(max(0.0, deadline_s - time.monotonic()))
        return any(each.is_alive() for each in self._threads)

    def join(self) -> None:
        for each in self._threads:
            each.join()

    def check(self) -> None:
        if self._failures:
            raise self._failures[0]

    def _run(self, work: Work) -> None:
        try:
            work(self._load)
        except BaseException as failure:  # noqa: BLE001  # raised again where the workload is run
            self._failures.append(failure)
            self._load.stop()
