"""What a producer writes down: every event before it is pushed, and what it was told of it afterwards.

A line is one write to a file that is only appended to. The kernel has it from then on, so that a `kill -9`
of the writer takes no whole line away; it may tear the last one, which then does not count. Every run has a
file of its own, so that a torn line is always the last of its file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

Place = tuple[int, int]
"""A partition, and an index in it."""


@dataclass(slots=True)
class Notes:
    """What a producer pushed, and where it was told that events stand; both by the event's number."""

    pushed: dict[int, int] = field(default_factory=dict)
    acknowledged: dict[int, Place] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)


class Notebook:
    """The file of one run of a producer, written from any thread."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{len(list(folder.iterdir())):06}.txt"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)

    def push(self, number: int, partition: int) -> None:
        """An event is about to be pushed."""
        self._write(f"pushed {number} {partition}")

    def acknowledge(self, number: int, partition: int, index: int) -> None:
        """The producer was told where an event stands."""
        self._write(f"acknowledged {number} {partition} {index}")

    def fail(self, number: int, why: str) -> None:
        """The producer was told that an event is not acknowledged."""
        self._write(f"failed {number} {' '.join(why.split())}")

    def _write(self, line: str) -> None:
        data = line.encode("utf-8") + b"\n"
        assert os.write(self._descriptor, data) == len(data), "a disk that is not full takes a line whole"


class NotesReader:
    """Reads what the runs of a producer wrote down, every line once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends: dict[Path, int] = {}
        self._notes = Notes()

    def read(self) -> Notes:
        """All notes until now; the next call adds to them."""
        for path in sorted(self._folder.glob("*.txt")):
            with path.open("rb") as file:
                file.seek(self._ends.get(path, 0))
                whole, newline, _torn = file.read().rpartition(b"\n")
            for line in whole.decode("utf-8").splitlines():
                _take(self._notes, line)
            self._ends[path] = self._ends.get(path, 0) + len(whole + newline)
        return self._notes


def _take(notes: Notes, line: str) -> None:
    match line.split(maxsplit=2):
        case ["pushed", number, partition]:
            notes.pushed[int(number)] = int(partition)
        case ["acknowledged", number, place]:
            partition, index = place.split()
            notes.acknowledged[int(number)] = int(partition), int(index)
        case ["failed", number, why]:
            notes.failed[int(number)] = why
        case _:
            raise AssertionError(f"a producer does not write {line!r}")
