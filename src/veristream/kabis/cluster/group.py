"""A group of named processes, each with a folder: finds them, stops them and kills them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Self

from veristream.kabis.cluster import processes
from veristream.kabis.cluster.processes import Running


class ProcessGroup(ABC):
    """Named processes; on exit, the context manager stops those that this object started (`running`)."""

    STOP_PATIENCE_S: ClassVar[float]

    def __init__(self) -> None:
        self.running: dict[str, Running] = {}

    @abstractmethod
    def names(self) -> list[str]:
        """Returns the names of all members, running or not."""

    @abstractmethod
    def folder_of(self, name: str) -> Path:
        """Returns the folder that contains a member's process note and log."""

    def find(self) -> dict[str, Running]:
        """Returns the members that are running, no matter who started them."""
        found = {name: self.find_one(name) for name in self.names()}
        return {name: running for name, running in found.items() if running is not None}

    def find_one(self, name: str) -> Running | None:
        """Returns the member's process; None if it is not running."""
        ours = self.running.get(name)
        if ours is not None:
            return ours if ours.is_alive() else None
        return processes.find(self.folder_of(name))

    def stop(self, names: Iterable[str] | None = None) -> list[str]:
        """Stops members, by default all that are running; returns the names of those it stopped."""
        found = self.find()
        chosen = [found[name] for name in (found if names is None else names) if name in found]
        processes.stop(chosen, self.STOP_PATIENCE_S)
        for each in chosen:
            self.running.pop(each.name, None)
        return [each.name for each in chosen]

    def kill(self, name: str) -> None:
        """Kills a member with SIGKILL and waits until it has ended."""
        running = self.find_one(name)
        if running is not None:
            processes.kill(running, self.STOP_PATIENCE_S)
        self.running.pop(name, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.stop(list(self.running))
