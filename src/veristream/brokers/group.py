"""Starts, stops and kills the brokers of one kind in a folder."""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from veristream.brokers.folder import STOP_PATIENCE_S
from veristream.errors import EnvironmentFailure
from veristream.kabis.cluster import processes
from veristream.kabis.cluster.processes import Running

START_PATIENCE_S = 180.0


class BrokerGroup(ABC):
    """The brokers of one kind; on exit, the context manager stops those that this object started.

    Each has a folder, `KIND-1` and so on, which contains its address once it is set up.
    """

    KIND: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, Running] = {}

    @abstractmethod
    def command(self, name: str) -> Sequence[str]:
        """Returns the command line that runs a broker."""

    @abstractmethod
    def answers(self, name: str) -> bool:
        """Whether a started broker is ready."""

    def names(self) -> list[str]:
        """Returns the names of all brokers in the folder."""
        found = [path.parent.name for path in self.folder.glob(f"{self.KIND}-*/address")]
        return sorted(found, key=lambda name: int(name.removeprefix(f"{self.KIND}-")))

    def address(self, name: str) -> str:
        """Returns the address that clients connect to."""
        return (self.folder / name / "address").read_text(encoding="utf-8").strip()

    def find(self) -> dict[str, Running]:
        """Returns the running brokers, no matter who started them."""
        found = {
            name: self.running.get(name) or processes.find(self.folder / name) for name in self.names()
        }
        return {name: each for name, each in found.items() if each is not None and each.is_alive()}

    def start(self, names: Iterable[str] | None = None) -> list[str]:
        """Starts the brokers that are not running, waits until they answer, and returns their names."""
        up = self.find()
        chosen = [name for name in (self.names() if names is None else names) if name not in up]
        try:
            for name in chosen:
                folder = self.folder / name
                self.running[name] = processes.start(name, self.command(name), folder, attended=False)
            for name in chosen:
                self._wait_for(name)
        except BaseException:
            self.stop(chosen)
            raise
        return chosen

    def _wait_for(self, name: str) -> None:
        deadline_s = time.monotonic() + START_PATIENCE_S
        hint = f"see {self.folder / name / 'log.txt'}"
        while not self.answers(name):
            if not self.running[name].is_alive():
                said, advice = processes.last_words(self.folder / name)
                raise EnvironmentFailure(
                    f"{name} did not start: {said or 'it printed nothing'}", advice or hint
                )
            if time.monotonic() > deadline_s:
                raise EnvironmentFailure(f"{name} did not answer within {START_PATIENCE_S:.0f} s", hint)
            time.sleep(processes.POLL_S)

    def stop(self, names: Iterable[str] | None = None) -> list[str]:
        """Stops brokers, by default all that are running; returns the names of those it stopped."""
        found = self.find()
        chosen = [found[name] for name in (found if names is None else names) if name in found]
        processes.stop(chosen, STOP_PATIENCE_S)
        for each in chosen:
            self.running.pop(each.name, None)
        return [each.name for each in chosen]

    def kill(self, name: str) -> None:
        """Kills a broker with SIGKILL and waits until it has ended."""
        running = self.find().get(name)
        if running is not None:
            processes.kill(running, STOP_PATIENCE_S)
        self.running.pop(name, None)

    def remove(self) -> None:
        """Deletes the brokers' folders; none of them may be running."""
        for name in self.names():
            shutil.rmtree(self.folder / name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(list(self.running))
