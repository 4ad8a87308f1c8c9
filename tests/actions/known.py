"""The classic models of these tests, and the results that `known.toml` expects."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from veristream.ir.network import Network
from veristream.library import load
from veristream.verdict import Word

FOLDER = Path(__file__).parent / "classics"
INTERPRETED_MAX = 10_000
"""The slow interpreter checks only models with at most this many states."""


@dataclass(frozen=True, slots=True)
class Known:
    """A verdict and the length of the shortest trace, if there is one."""

    verdict: Word
    steps: int | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A model with its constants, its size and its properties."""

    model: str
    constants: Mapping[str, int]
    states: int
    transitions: int
    properties: Mapping[str, Known]

    @property
    def name(self) -> str:
        """The model's name and the constants of this run."""
        return "-".join([self.model, *(f"{name}={value}" for name, value in self.constants.items())])

    def load(self) -> Network:
        """The model's network."""
        return load(FOLDER / f"{self.model}.py", self.constants)


def read_runs(path: Path) -> tuple[Run, ...]:
    """Reads all runs of a `known.toml`, in order."""
    return tuple(
        Run(
            table["model"],
            table.get("constants", {}),
            table["states"],
            table["transitions"],
            {name: Known(**known) for name, known in table["properties"].items()},
        )
        for table in tomllib.loads(path.read_text(encoding="utf-8"))["run"]
    )


RUNS = read_runs(Path(__file__).parent / "known.toml")
NAMES = [run.name for run in RUNS]
