"""`veristream kabis` as the tests type it, in this process, over a cluster of other processes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from veristream.cli.app import app
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder

PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    output: str
    told: str  # on stderr

    def lines(self) -> list[str]:
        return self.output.splitlines()

    def objects(self) -> list[Any]:
        return [json.loads(line) for line in self.output.splitlines()]


@dataclass(frozen=True, slots=True)
class Console:
    """Commands on one cluster's folder."""

    data: Path

    def __call__(self, *words: object, given: str | bytes = "") -> Ended:
        """Runs a command to its end, whatever that is; an exception that is no exit fails the test."""
        command = ["kabis", *map(str, words), "--data", str(self.data)]
        done = CliRunner().invoke(app, command, input=given, catch_exceptions=False)
        return Ended(done.exit_code, done.stdout, done.stderr)

    def do(self, *words: object, given: str | bytes = "") -> Ended:
        """Runs a command that must succeed."""
        ended = self(*words, given=given)
        assert ended.code == 0, ended.output + ended.told
        return ended

    def look(self, is_so: Callable[[Ended], bool], *words: object) -> Ended:
        """Looks, with a command that changes nothing, until it is so; gives what was seen last.

        On a busy machine a party may answer later than `status` waits, and what one reader of the ledger
        has seen comes to the others a moment later.
        """
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            seen = self(*words)
            if is_so(seen) or time.monotonic() > deadline_s:
                return seen
            time.sleep(0.1)

    @property
    def cluster(self) -> Cluster:
        return Cluster(ClusterFolder(self.data))


@contextmanager
def opened(data: Path) -> Iterator[Console]:
    """A console whose cluster is down in the end, whatever happened."""
    console = Console(data)
    try:
        yield console
    finally:
        if ClusterFolder(data).exists():
            console.cluster.stop()


def to_lines(objects: Iterable[object]) -> str:
    """JSON lines."""
    return "".join(json.dumps(each) + "\n" for each in objects)
