"""The small models under `cases`, each with its expected results.

`NAME.csp` demonstrates one construct and derives its counts in a comment. `NAME.toml` beside it contains:

- `file`: the model;
- `[[process]]`: `name` as in an assertion; `states`, `transitions` and `deadlocks` (states without a step
  that are not reached by termination) of its full exploration; or `fault`, a part of the message of its
  run-time error;
- `[[assertion]]`: `text` as in the file; `verdict`, *holds* or *violated* (for `reaches`, *holds* means
  reachable); `trace`, one shortest sequence of events; `value`, for `with min` and `with max`.

A trace leads to the deadlocked state (deadlockfree, nonterminating), to the goal (reaches), or to a state
on a cycle of taus (divergencefree). For `deterministic`, its last event is the one that leads to different
states. For `refines`, it has visible events only: the first sequence after which the process performs an
event, refuses one or diverges and the specification does not.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from veristream.languages.csp import syntax as csp

FOLDER = Path(__file__).parent / "cases"


@dataclass(frozen=True, slots=True)
class Known:
    """The expected results of one process."""

    process: csp.Ref
    states: int
    transitions: int
    deadlocks: int
    fault: str | None


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected result of one assertion."""

    text: str
    holds: bool
    trace: tuple[str, ...] | None
    value: int | None


@dataclass(frozen=True, slots=True)
class CaseFile:
    """One model with its expected results."""

    name: str
    path: Path
    processes: tuple[Known, ...]
    assertions: tuple[Expected, ...]


@cache
def case_files() -> tuple[CaseFile, ...]:
    """Returns all cases, sorted by name."""
    return tuple(read_case(path) for path in sorted(FOLDER.glob("*.toml")))


def read_case(path: Path) -> CaseFile:
    """Reads a case from a table; an unknown key is an error."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    assert table.keys() <= {"file", "process", "assertion"}, path
    return CaseFile(
        path.stem,
        path.parent / table["file"],
        tuple(known(entry) for entry in table.get("process", ())),
        tuple(expected(entry) for entry in table.get("assertion", ())),
    )


def known(entry: dict[str, Any]) -> Known:
    assert entry.keys() in ({"name", "states", "transitions", "deadlocks"}, {"name", "fault"}), entry
    counts = [entry.get(key, 0) for key in ("states", "transitions", "deadlocks")]
    return Known(reference(entry["name"]), *counts, entry.get("fault"))


def expected(entry: dict[str, Any]) -> Expected:
    assert {"text", "verdict"} <= entry.keys() <= {"text", "verdict", "trace", "value"}, entry
    assert entry["verdict"] in ("holds", "violated"), entry
    trace = tuple(entry["trace"]) if "trace" in entry else None
    return Expected(entry["text"], entry["verdict"] == "holds", trace, entry.get("value"))


def reference(text: str) -> csp.Ref:
    """Parses a reference such as `P(1, 2)`."""
    match = re.fullmatch(r"(\w+)\(([^()]*)\)", text)
    assert match, text
    arguments = [int(part) for part in match[2].split(",") if part.strip()]
    return csp.Ref(match[1], tuple(csp.Number(value) for value in arguments))
