"""The replays that `replay.toml` lists beside models, what is expected of each, and how to run them.

    [[replay]]
    name = "hanging-verified"
    about = "A late write at a broker that verifies."
    file = "transactions.py"
    property = "no_hanging_transaction"
    constants = { PRODUCERS = 1 }
    set = { "broker.transaction.partition.verification.enable" = "true" }
    broker = "kafka"            # the default
    outcome = "not reproduced"
    left = "append_write"       # the action at which reality leaves the run; without it, at none

The run is the one that a check of the model finds. Each outcome was seen in real runs before it was listed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from veristream.errors import ModelError, suggest
from veristream.replay.course import Tell
from veristream.replay.outcome import Outcome, Replayed, outcome
from veristream.replay.run import BROKERS, Request, replay
from veristream.replay.table import FILE_NAME
from veristream.replay.trace import Run, find_run

BROKER: Final = "kafka"
"""Where a run is replayed unless the list says otherwise."""

_KINDS: Final[Mapping[str, type]] = {
    "name": str,
    "about": str,
    "file": str,
    "broker": str,
    "property": str,
    "constants": dict,
    "set": dict,
    "steered": bool,
    "outcome": str,
    "left": str,
}
_NEEDED: Final = ("name", "about", "file", "property", "outcome")


@dataclass(frozen=True, slots=True)
class Listed:
    """A run of a model that is replayed, and what is expected: its outcome, and where reality leaves it."""

    name: str
    about: str
    model: Path
    property: str
    expected: Outcome
    left: str = ""
    constants: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    steered: bool = True
    broker: str = BROKER


@dataclass(frozen=True, slots=True)
class Compared:
    """A listed replay that was run; `differences` is empty if all is as expected."""

    listed: Listed
    run: Run
    replayed: Replayed
    differences: tuple[str, ...]


def find_replays(models: Path, names: Sequence[str] = ()) -> tuple[Listed, ...]:
    """Returns the replays of a folder of known models, or those named; raises ModelError."""
    found = [one for path in sorted(models.glob(f"*/{FILE_NAME}")) for one in read_replays(path)]
    known = [one.name for one in found]
    for name in names:
        if name not in known:
            hint = suggest(name, known, f"choose from {', '.join(known)}")
            raise ModelError(f"no replay is called `{name}`", hint=hint)
    return tuple(one for one in found if not names or one.name in names)


def read_replays(path: Path) -> tuple[Listed, ...]:
    """Reads what a file lists; raises ModelError."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8")).get("replay", [])
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"{path} is not TOML: {error}") from error
    found = tuple(_read(path, number, each) for number, each in enumerate(tables, start=1))
    if len({one.name for one in found}) < len(found):
        raise ModelError(f"{path} has two replays with one name", hint="rename one")
    return found


def run_listed(
    listed: Sequence[Listed],
    folder: Path,
    tell: Callable[[Listed], Tell],
    say: Callable[[str], None] = lambda words: None,
) -> Iterator[Compared]:
    """Yields each replay once it was run; its recording is then in `folder/NAME/history`."""
    for one in listed:
        run = find_run(one.model, one.property, one.constants)
        request = Request(run, one.broker, one.settings, steered=one.steered)
        replayed = replay(request, folder / one.name, tell(one), say)
        yield Compared(one, run, replayed, differences(one, replayed))


def differences(one: Listed, replayed: Replayed) -> tuple[str, ...]:
    """Says in what a replay is not as expected."""
    found = outcome(replayed.finding)
    wrong = [] if found is one.expected else [f"{found}, not {one.expected}"]
    left = (
        "" if replayed.course is None or replayed.course.left is None else replayed.course.left.step.action
    )
    if left != one.left:
        wrong.append(f"reality left the run at {left or 'no step'}, not at {one.left or 'none'}")
    return tuple(wrong)


def _read(path: Path, number: int, table: Any) -> Listed:
    where = f"{path}, replay {number}"
    if not isinstance(table, dict):
        raise ModelError(f"{where} is no table", hint="begin it with [[replay]]")
    for key, value in table.items():
        if key not in _KINDS:
            raise ModelError(f"{where}: unknown key `{key}`", hint=suggest(key, _KINDS, ""))
        if not isinstance(value, _KINDS[key]):
            raise ModelError(
                f"{where}: `{key}` is {value!r}", hint=f"it has to be a {_KINDS[key].__name__}"
            )
    for key in _NEEDED:
        if not table.get(key):
            raise ModelError(f"{where} lacks `{key}`")
    if table.get("broker", BROKER) not in BROKERS:
        raise ModelError(
            f"{where}: nothing is replayed on {table['broker']}", hint=f"choose from {', '.join(BROKERS)}"
        )
    if table["outcome"] not in list(Outcome):
        raise ModelError(
            f"{where}: `{table['outcome']}` is no outcome", hint=f"choose from {', '.join(Outcome)}"
        )
    return Listed(
        table["name"],
        table["about"],
        path.parent / table["file"],
        table["property"],
        Outcome(table["outcome"]),
        table.get("left", ""),
        table.get("constants", {}),
        table.get("set", {}),
        table.get("steered", True),
        table.get("broker", BROKER),
    )
