"""The texts that are mutated: the models and the test cases of this checkout."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDERS = ("models", "tests/csp/cases", "tests/timed/cases")
SUFFIXES = (".csp", ".xta", ".xml")
BYTES_MAX = 6000
"""Larger models take long, and have no construct that smaller ones lack."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A model: its suffix, its text, and the queries beside it, if there are any."""

    name: str
    suffix: str
    text: str
    queries: str | None = None

    @property
    def language(self) -> str:
        """Models of one language have parts that fit into each other."""
        return "csp" if self.suffix == ".csp" else "xml" if self.suffix == ".xml" else "xta"

    def write(self, folder: Path) -> Path:
        """Writes the model into a folder; returns its path."""
        path = folder / f"model{self.suffix}"
        path.write_text(self.text, encoding="utf-8")
        beside = path.with_suffix(".q")
        if self.queries is None:
            beside.unlink(missing_ok=True)
        else:
            beside.write_text(self.queries, encoding="utf-8")
        return path


@cache
def all_samples() -> tuple[Sample, ...]:
    """Returns all samples, in an order that depends on their names only."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.stat().st_size <= BYTES_MAX:
                found.append(_read(path))
    return tuple(found)


def _read(path: Path) -> Sample:
    beside = path.with_suffix(".q")
    queries = beside.read_text(encoding="utf-8") if beside.is_file() else None
    name = path.relative_to(ROOT).as_posix()
    return Sample(name, path.suffix, path.read_text(encoding="utf-8"), queries)
