"""What real brokers made of a late write, cell by cell, and how often it was seen: `late_write.toml`.

A cell is a client, a broker and its settings. Its outcome is what every run so far had; a run with another
one is a finding.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib import resources
from typing import Any, Final

from veristream.errors import ModelError
from veristream.recording.kafka.late_write.cell import Cell, LateWrite

FILE: Final = "late_write.toml"


@dataclass(frozen=True, slots=True)
class Expected:
    """What became of the late write in all of so many `runs`."""

    late: LateWrite
    runs: int


def read_expected(text: str | None = None) -> Mapping[Cell, Expected]:
    """Reads the cells of a text, by default of our own file; raises ModelError where it is wrong."""
    if text is None:
        text = resources.files("veristream.trials").joinpath(FILE).read_text(encoding="utf-8")
    try:
        tables = tomllib.loads(text).get("cell", [])
    except tomllib.TOMLDecodeError as wrong:
        raise ModelError(f"{FILE}: {wrong}") from wrong
    found: dict[Cell, Expected] = {}
    for number, each in enumerate(tables, 1):
        cell, late, runs = _read(number, each)
        if cell in found:
            raise ModelError(f"{FILE}: cell {number} is there twice: {cell.name}", hint="delete one")
        found[cell] = Expected(late, runs)
    return found


def differences(expected: Expected, late: LateWrite) -> list[str]:
    """Says in which fields what was observed differs from what is expected."""
    pairs = [
        (each.name, getattr(expected.late, each.name), getattr(late, each.name)) for each in fields(late)
    ]
    return [f"{name} is {now!r}, not {then!r}" for name, then, now in pairs if now != then]


def _read(number: int, table: dict[str, Any]) -> tuple[Cell, LateWrite, int]:
    kinds = {"runs": "int"}
    for kind in (Cell, LateWrite):
        kinds |= {each.name: "str" if each.name == "client" else str(each.type) for each in fields(kind)}
    wrong = sorted(kinds.keys() ^ table.keys())
    if wrong:
        problem = "lacks" if wrong[0] in kinds else "has the unknown key"
        raise ModelError(
            f"{FILE}: cell {number} {problem} `{wrong[0]}`", hint=f"keys are {', '.join(kinds)}"
        )
    for name, value in table.items():
        if type(value).__name__ != kinds[name]:
            raise ModelError(
                f"{FILE}: `{name}` of cell {number} is {value!r}", hint=f"write a {kinds[name]}"
            )
    cell = Cell(**{each.name: table[each.name] for each in fields(Cell)})
    cell.check()
    if table["runs"] < 1:
        raise ModelError(f"{FILE}: cell {number} was never seen", hint="run it, and count")
    return cell, LateWrite(**{each.name: table[each.name] for each in fields(LateWrite)}), table["runs"]
