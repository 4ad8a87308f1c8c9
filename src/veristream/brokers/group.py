"""Brokers of one kind in a folder: started, waited for, stopped and killed alike, whatever they are."""

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
    """The brokers of a kind; as a context manager it stops on leaving what it has started.

    Each has a folder of its own, `KIND-1` and so on, with its address in a file once it is set up.
    """

    KIND: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, Running] = {}

    @abstractmethod
    def command(self, name: str) -> Sequence[str]:
        """What runs a broker that is set up."""

    @abstractmethod
    def answers(self, name: str) -> bool:
        """Whether a broker that was started is ready."""

    def names(self) -> list[str]:
        """All brokers of the folder."""
        found = [path.parent.name for path in self.folder.glob(f"{self.KIND}-*/address")]
        return sorted(found, key=lambda name: int(name.removeprefix(f"{self.KIND}-")))

    def address(self, name: str) -> str:
        """Where clients find a broker."""
        return (self.folder / name / "address").read_text(encoding="utf-8").strip()

    def find(self) -> dict[str, Running]:
        """The brokers that run now, whoever started them."""
        found = {
            name: self.running.get(name) or processes.find(self.folder / name) for name in self.names()
        }
        return {name: each for name, each in found.items() if each is not None and each.is_alive()}

    def start(self, names: Iterable[str] | None = None) -> list[str]:
        """Starts those that do not run, by default all, and returns when they answer; gives their names."""
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
        hint = f"look at {self.folder / name / 'log.txt'}"
        while not self.answers(name):
            if not self.running[name].is_alive():
                said, advice = processes.last_words(self.folder / name)
                raise EnvironmentFailure(
                    f"{name} did not start: {said or 'it said nothing'}", advice or hint
                )
            if time.monotonic() > deadline_s:
                raise EnvironmentFailure(f"{name} did not answer within {START_PATIENCE_S:.0f} s", hint)
            time.sleep(processes.POLL_S)

    def stop(self, names: Iterable[str] | None = None) -> list[str]:
        """Stops brokers, by default all that run, whoever started them; gives who they were."""
        found = self.find()
        chosen = [found[name] for name in (found if names is None else names) if name in found]
        processes.stop(chosen, STOP_PATIENCE_S)
        for each in chosen:
            self.running.pop(each.name, None)
        return [each.name for each in chosen]

    def kill(self, name: str) -> None:
        """Ends a broker at once, as `kill -9` does, and waits until it is gone."""
        running = self.find().get(name)
        if running is not None:
            processes.kill(running, STOP_PATIENCE_S)
        self.running.pop(name, None)

    def remove(self) -> None:
        """Takes away all that the brokers kept; none of them may run."""
        for name in self.names():
            shutil.rmtree(self.folder / name)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(list(self.running))
