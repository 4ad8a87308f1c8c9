"""Known models: reading `expected.toml`, and comparing results with it.

A published model comes with published verdicts. The file lists them, each with its source, and
`veristream reproduce` compares ours with them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from veristream.errors import ModelError
from veristream.verdict import Holds, Result, Word, word

FILE_NAME = "expected.toml"
RUN_STEPS = 20
"""The default length of a random run."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Expectation:
    """The known verdict of one property; counts are those of a full exploration.

    `meant_by` names the property that this one restates as its authors meant it.
    `published` holds the figures printed with the verdict, such as states and seconds.
    """

    property: str
    verdict: Word
    source: str
    states: int | None = None
    transitions: int | None = None
    vacuous: bool | None = None
    meant_by: str | None = None
    published: str | None = None


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A published model: where it comes from and what is known about it."""

    name: str
    paper: str
    path: Path
    constants: Mapping[str, int] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run to draw: the trace of the property `goal`, or a random run if that is None.

    If `lanes` are given, the chart shows only what happens between them.
    """

    title: str
    path: Path
    constants: Mapping[str, int] = field(default_factory=dict)
    goal: str | None = None
    seed: int = 0
    steps: int = RUN_STEPS
    lanes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result with its expectation; `differences` is empty if they agree."""

    expectation: Expectation
    result: Result
    differences: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A known model with the outcome of each property."""

    model: KnownModel
    outcomes: tuple[Outcome, ...]

    @property
    def as_expected(self) -> bool:
        """Whether no outcome differs."""
        return not any(outcome.differences for outcome in self.outcomes)


def compare(expectation: Expectation, result: Result) -> Outcome:
    """Compares a result with its expectation; counts matter only if no trace ended the search early."""
    verdict, effort = result.verdict, result.effort
    differences: list[str] = []
    if word(verdict) != expectation.verdict:
        differences.append(f"{expectation.verdict} expected, {word(verdict)} found")
    elif verdict.trace is None:
        for name, expected, found in (
            ("states", expectation.states, effort.states),
            ("transitions", expectation.transitions, effort.transitions),
        ):
            if expected is not None and expected != found:
                differences.append(f"{expected:,} {name} expected, {found:,} found")
    vacuous = isinstance(verdict, Holds) and verdict.vacuous is not None
    if expectation.vacuous is not None and expectation.vacuous != vacuous:
        differences.append("vacuous expected" if expectation.vacuous else "not vacuous expected")
    return Outcome(expectation, result, tuple(differences))


def find_known(models: Path, names: Sequence[str] = ()) -> tuple[KnownModel, ...]:
    """Returns the known models in a folder, or those named by model or folder; raises ModelError."""
    folders = sorted(path.parent for path in models.glob(f"*/{FILE_NAME}"))
    if not folders:
        raise ModelError(
            f"there are no known models in {models}",
            hint=f"a known model is a folder with a model and its {FILE_NAME}",
        )
    known = [(folder.name, model) for folder in folders for model in read_known(folder)]
    choices = sorted({name for folder, model in known for name in (folder, model.name)})
    for name in names:
        if name not in choices:
            raise ModelError(f"no known model is called {name}", hint=_guess(name, choices, folders))
    return tuple(model for folder, model in known if not names or folder in names or model.name in names)


def _guess(name: str, choices: Sequence[str], folders: Sequence[Path]) -> str:
    close = get_close_matches(name, choices, n=1)
    question = f"did you mean {close[0]}? " if close else ""
    return f"{question}choose from {', '.join(folder.name for folder in folders)}, or a model in them"


def read_known(folder: Path) -> tuple[KnownModel, ...]:
    """Returns the models that a folder's `expected.toml` lists; the first is named after the folder."""
    return _read_folder(folder)[1]


def read_runs(folder: Path) -> tuple[KnownRun, ...]:
    """Returns the runs that a folder's `expected.toml` lists."""
    return _read_folder(folder)[2]


def read_about(folder: Path) -> str:
    """Returns the one-line description in a folder's `expected.toml`; empty if there is none."""
    return _read_folder(folder)[0]


def _read_folder(folder: Path) -> tuple[str, tuple[KnownModel, ...], tuple[KnownRun, ...]]:
    path = folder / FILE_NAME
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(f"{folder} has no {FILE_NAME}", hint="choose a model in the folder") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} is not TOML: {error}") from error
    table = _Table(content, str(path))
    about, paper = table.text("about", ""), table.text("paper")
    models = table.tables("model")
    runs = table.tables("simulate")
    table.end()
    if not models:
        raise ModelError(f"{path} lists no model", hint="add a [[model]] table with a file")
    known = (
        _read_model(folder, paper, model, folder.name if position == 0 else None)
        for position, model in enumerate(models)
    )
    return about, tuple(known), tuple(_read_run(folder, run) for run in runs)


def _read_model(folder: Path, paper: str, table: _Table, default_name: str | None) -> KnownModel:
    file = table.text("file")
    constants = table.constants("constants")
    name = table.text("name", default_name)
    properties = table.tables("property")
    table.end()
    expectations = tuple(_read_expectation(one) for one in properties)
    return KnownModel(name, paper, folder / file, constants, expectations)


def _read_run(folder: Path, table: _Table) -> KnownRun:
    goal = table.optional("goal", str)
    if goal is not None and not table.content.keys().isdisjoint(("seed", "steps")):
        raise ModelError(
            f"{table.where}: a run to a goal is not random", hint="leave out seed and steps, or goal"
        )
    seed, steps = table.optional("seed", int), table.optional("steps", int)
    run = KnownRun(
        table.text("title"),
        folder / table.text("model"),
        table.constants("constants"),
        goal,
        0 if seed is None else seed,
        RUN_STEPS if steps is None else steps,
        table.texts("lanes"),
    )
    table.end()
    return run


def _read_expectation(table: _Table) -> Expectation:
    verdict = table.text("verdict")
    if verdict not in get_args(Word):
        raise ModelError(
            f"{table.where}: {verdict!r} is not a verdict", hint="write holds, violated, unknown or error"
        )
    expectation = Expectation(
        table.text("name"),
        next(one for one in get_args(Word) if one == verdict),
        table.text("source"),
        table.optional("states", int),
        table.optional("transitions", int),
        table.optional("vacuous", bool),
        table.optional("meant_by", str),
        table.optional("published", str),
    )
    table.end()
    return expectation


class _Table:
    """A TOML table that is read key by key; a wrong type or an unknown key raises ModelError."""

    def __init__(self, content: dict[str, Any], where: str) -> None:
        self.content = dict(content)
        self.where = where

    def optional(self, key: str, kind: type[T]) -> T | None:
        value = self.content.pop(key, None)
        if value is None:
            return None
        # In TOML true is not a number, but in Python it is.
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ModelError(f"{self.where}: {key} must be {_KIND_NAMES[kind]}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self.optional(key, str)
        if value is None:
            value = default
        if value is None:
            raise ModelError(f"{self.where}: {key} is missing")
        return value

    def constants(self, key: str) -> dict[str, int]:
        inner = _Table(self.optional(key, dict) or {}, f"{self.where}, {key}")
        return {name: inner.optional(name, int) or 0 for name in list(inner.content)}

    def texts(self, key: str) -> tuple[str, ...]:
        items = self.optional(key, list) or []
        if not all(isinstance(item, str) for item in items):
            raise ModelError(f"{self.where}: {key} must be a list of strings")
        return tuple(items)

    def tables(self, key: str) -> list[_Table]:
        items = self.optional(key, list) or []
        if not all(isinstance(item, dict) for item in items):
            raise ModelError(f"{self.where}: {key} must be written [[{key}]]")
        return [_Table(item, f"{self.where}, {key} {n}") for n, item in enumerate(items, start=1)]

    def end(self) -> None:
        if self.content:
            raise ModelError(f"{self.where}: unknown key {min(self.content)}")


_KIND_NAMES: Mapping[type, str] = {
    int: "an integer",
    bool: "true or false",
    str: "a string",
    list: "a list",
    dict: "a table",
}
