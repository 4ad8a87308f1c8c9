"""What is known of a model: `expected.toml` beside it, and how a result compares.

A published model comes with published verdicts. The file lists them, each with its source, so that
`veristream reproduce` can put them beside ours.
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
"""How long a random run is where nobody says."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Expectation:
    """The known verdict of one property; counts are those of a full exploration.

    `meant_by` names the property whose text this one strengthens; `published` are the figures that were
    printed with the verdict, such as states and seconds, to stand beside ours.
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
    """A model with what is known of it and where that was published."""

    name: str
    paper: str
    path: Path
    constants: Mapping[str, int] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run worth a chart: the one that a property finds, its `goal`, or else a random one.

    Where `lanes` are named, the chart shows only what happens between them.
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
    """A result beside its expectation; `differences` is empty when they agree."""

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
        """Whether nothing differs."""
        return not any(outcome.differences for outcome in self.outcomes)


def compare(expectation: Expectation, result: Result) -> Outcome:
    """The differences in words; counts matter only where no trace ended the search early."""
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
    """The known models under a directory, or those of the given names (a model's or a folder's)."""
    folders = sorted(path.parent for path in models.glob(f"*/{FILE_NAME}"))
    if not folders:
        raise ModelError(
            f"no known models under {models}",
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
    return f"{question}there are {', '.join(folder.name for folder in folders)}, and the models in them"


def read_known(folder: Path) -> tuple[KnownModel, ...]:
    """The models that a folder's `expected.toml` lists; the first is called as the folder is."""
    return _read_folder(folder)[1]


def read_runs(folder: Path) -> tuple[KnownRun, ...]:
    """The runs that a folder's `expected.toml` says to draw."""
    return _read_folder(folder)[2]


def read_about(folder: Path) -> str:
    """What a folder's `expected.toml` says in one line about its models; empty if it says nothing."""
    return _read_folder(folder)[0]


def _read_folder(folder: Path) -> tuple[str, tuple[KnownModel, ...], tuple[KnownRun, ...]]:
    path = folder / FILE_NAME
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(f"{folder} is a folder without {FILE_NAME}", hint="name a model in it") from error
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
        raise ModelError(f"{table.where}: {verdict!r} is no verdict", hint="holds, violated or unknown")
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
    """A TOML table that is read key by key, so that a wrong type or an unknown key is an error."""

    def __init__(self, content: dict[str, Any], where: str) -> None:
        self.content = dict(content)
        self.where = where

    def optional(self, key: str, kind: type[T]) -> T | None:
        value = self.content.pop(key, None)
        if value is None:
            return None
        # TOML's true is no number, though Python's is.
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
            raise ModelError(f"{self.where}: {key} must be a list of texts")
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
    int: "a whole number",
    bool: "true or false",
    str: "a text",
    list: "a list",
    dict: "a table",
}
