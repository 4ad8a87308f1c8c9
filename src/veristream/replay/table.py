"""Reads `replay.toml`: for each model of a folder that takes part, how its actions map to a real broker.

[[table]]
file = "transactions.py"
broker = "kafka"

[table.constants]       # what they are unless a run gives others
KIP890 = 0

[table.messages]        # variables with messages: the field with their sender, and what tells them apart
writes = { sender = "sender", key = ["to", "transaction"] }
calls = { sender = "sender", key = ["api"], first = "newest" }      # of equal ones; by default the oldest
wire = { from = "Publisher(0)" }        # messages that are no records: all of one process

[table.properties]      # the model's property, and the property of a history that is the same
aborted_is_never_read = "aborted is never read"

[table.observed]        # the model's property, and what the stage itself observes of it
handled_in_order = "handled in order"

[table.actions]
produce = { sends = "Produce", into = "writes" }
append_write = { deliver = "writes" }
receive_answer = [{ before = { phase = "ADDING" }, itself = "the client hides it" }, { returns = "ok" }]

[[table.settings]]      # for runs of a model with these constants, or with this `action`
constants = { KIP890 = 0 }
set = { "broker.transaction.partition.verification.enable" = "false" }
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

from veristream.errors import ModelError, suggest
from veristream.history.properties import Property
from veristream.replay.counterparts import (
    Call,
    Case,
    Counterpart,
    Deliver,
    Do,
    Expected,
    Itself,
    Missing,
    Return,
    Sent,
    Word,
)

FILE_NAME: Final = "replay.toml"
KINDS: Final = ("call", "deliver", "sends", "returns", "do", "itself", "missing")
"""The keys that say what a counterpart is; `sends` and `returns` may also belong to those before them."""

_MORE: Final = {
    "call": {"sends", "into", "behind", "returns", "takes"},
    "sends": {"into"},
    "deliver": {"answer", "adds", "sends", "into"},
    "returns": {"epoch"},
    "do": {"loses"},
}
LATER: Final = "later"
"""The word for an answer that comes in a later step."""

ITS_STEPS: Final = "its steps"
"""What stands for a property that a run violates as soon as the broker took all of its steps."""

_FIRST: Final = ("oldest", "newest")
_PARTS: Final = ("constants", "messages", "properties", "observed", "actions")


@dataclass(frozen=True, slots=True)
class Messages:
    """A variable that holds messages under way: records with a sender, told apart by some fields.

    Without a key, they are no records but plain values, and all of the process `sender`. A variable of each
    process has one name for all of them. Of messages that are not told apart, the oldest goes on first, or
    the `newest`.
    """

    sender: str
    key: tuple[str, ...] = ()
    newest: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """Settings for runs of a model with these constants, and with a step of this action, if it is given."""

    constants: Mapping[str, int]
    settings: Mapping[str, str]
    action: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """How a model maps to a broker."""

    file: str
    broker: str
    actions: Mapping[str, tuple[Case, ...]]
    messages: Mapping[str, Messages] = field(default_factory=dict)
    properties: Mapping[str, Property | None] = field(default_factory=dict)
    constants: Mapping[str, int] = field(default_factory=dict)
    chosen: tuple[Chosen, ...] = ()
    observed: Mapping[str, str] = field(default_factory=dict)

    def values(self, constants: Mapping[str, int]) -> dict[str, int]:
        """Returns what the constants are in a run that was found with these."""
        return {**self.constants, **constants}

    def settings(self, constants: Mapping[str, int], actions: Collection[str] = ()) -> dict[str, str]:
        """Returns the settings for a run with these constants and actions; what stands later goes first."""
        all_of_them = self.values(constants)
        found: dict[str, str] = {}
        for each in self.chosen:
            if each.constants.items() <= all_of_them.items() and each.action in ("", *actions):
                found.update(each.settings)
        return found


def find_table(model: Path, broker: str) -> Table:
    """Returns the table beside a model; raises ModelError if there is none."""
    path = model.parent / FILE_NAME
    try:
        content = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ModelError(
            f"{model} has no {FILE_NAME} beside it, so its actions mean nothing to a real broker",
            hint="docs/replay.md says how to write one",
        ) from error
    tables = read_tables(content, str(path))
    for each in tables:
        if (each.file, each.broker) == (model.name, broker):
            return each
    known = ", ".join(f"{each.file} on {each.broker}" for each in tables)
    raise ModelError(f"{path} has no table for {model.name} on {broker}", hint=f"it has {known}")


def read_tables(content: str, name: str) -> tuple[Table, ...]:
    """Reads all tables of a file; raises ModelError, with `name` for the file."""
    try:
        document = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"{name} is not TOML: {error}") from error
    tables = document.get("table")
    if not isinstance(tables, list) or not set(document) <= {"table", "replay"}:
        raise ModelError(f"{name} has to consist of tables", hint="begin each with [[table]] or [[replay]]")
    return tuple(_Reader(name, number).read(each) for number, each in enumerate(tables, start=1))


class _Reader:
    """Reads one table; its errors say where."""

    def __init__(self, name: str, number: int) -> None:
        self._where = f"{name}, table {number}"

    def read(self, table: Mapping[str, Any]) -> Table:
        self._only(table, {"file", "broker", *_PARTS, "settings"}, "")
        messages = {
            variable: self._messages(variable, value)
            for variable, value in self._map(table, "messages").items()
        }
        actions = {
            action: self._cases(action, value, messages)
            for action, value in self._map(table, "actions").items()
        }
        if not actions:
            raise self._error("it has no actions")
        return Table(
            self._text(table, "file"),
            self._text(table, "broker"),
            actions,
            messages,
            {name: self._property(name, value) for name, value in self._map(table, "properties").items()},
            self._numbers(table, "constants"),
            tuple(self._chosen(each) for each in table.get("settings", [])),
            {name: self._text(self._map(table, "observed"), name) for name in self._map(table, "observed")},
        )

    def _cases(self, action: str, value: Any, messages: Mapping[str, Messages]) -> tuple[Case, ...]:
        cases = value if isinstance(value, list) else [value]
        return tuple(self._case(action, each, messages) for each in cases)

    def _case(self, action: str, value: Any, messages: Mapping[str, Messages]) -> Case:
        if not isinstance(value, dict):
            raise self._error(f"{action} has to be a table such as {{ call = … }}")
        kind = next((each for each in KINDS if each in value), None)
        if kind is None:
            raise self._error(f"{action} does not say what stands for it", f"one of {', '.join(KINDS)}")
        self._only(value, {kind, "before", "after", "constants"} | _MORE.get(kind, set()), f"{action}: ")
        counterpart = self._counterpart(action, kind, value)
        for variable in _variables(counterpart):
            if variable not in messages:
                raise self._error(
                    f"{action}: `{variable}` is not among the messages", suggest(variable, messages, "")
                )
        if isinstance(counterpart, Call) and counterpart.behind and messages[counterpart.into].newest:
            raise self._error(
                f"{action}: what stays behind is not the first of `{counterpart.into}` to go on"
            )
        before, after, adds = (self._map(value, key) for key in ("before", "after", "adds"))
        return Case(counterpart, before, after, adds, self._numbers(value, "constants"))

    def _counterpart(self, action: str, kind: str, value: Mapping[str, Any]) -> Counterpart:
        word = self._text(value, kind)
        sends, into = str(value.get("sends", "")), str(value.get("into", ""))
        if bool(sends) != bool(into):
            raise self._error(f"{action}: `sends` and `into` belong together")
        match kind:
            case "call":
                return self._call(action, word, value)
            case "sends":
                return Sent(sends, into)
            case "deliver":
                answer = str(value.get("answer", "ok"))
                expected = None if answer == LATER else self._expected(action, answer)
                return Deliver(word, expected, sends, into)
            case "returns":
                return Return(self._expected(action, word), str(value.get("epoch", "")))
            case "do":
                return Do(word, self._words(value, "loses"))
            case "itself":
                return Itself(word)
            case _:
                return Missing(word)

    def _call(self, action: str, verb: str, value: Mapping[str, Any]) -> Call:
        behind, returns = value.get("behind", False), value.get("returns")
        if not isinstance(behind, bool) or (behind and "sends" not in value):
            raise self._error(f"{action}: `behind` has to be true or false, of what the call sends")
        return Call(
            verb,
            str(value.get("sends", "")),
            str(value.get("into", "")),
            behind,
            None if returns is None else self._expected(action, str(returns)),
            str(value.get("takes", "")),
        )

    def _expected(self, action: str, word: str) -> Expected:
        if word in get_args(Word) or word.isupper():
            return word
        known = ", ".join(get_args(Word))
        raise self._error(f"{action}: `{word}` is no outcome", f"one of {known}, or the name of an error")

    def _messages(self, variable: str, value: Any) -> Messages:
        first = value.get("first", "oldest") if isinstance(value, dict) else "oldest"
        if first not in _FIRST:
            raise self._error(f"{variable}: `first` has to be one of {', '.join(_FIRST)}")
        newest = first == "newest"
        if isinstance(value, dict) and "from" in value:
            self._only(value, {"from", "first"}, f"{variable}: ")
            return Messages(self._text(value, "from"), newest=newest)
        if not isinstance(value, dict) or not isinstance(value.get("key"), list) or not value["key"]:
            raise self._error(
                f"messages of {variable} need a sender and a key",
                'of plain values, write { from = "PROCESS" }',
            )
        self._only(value, {"sender", "key", "first"}, f"{variable}: ")
        return Messages(self._text(value, "sender"), tuple(map(str, value["key"])), newest)

    def _property(self, name: str, value: Any) -> Property | None:
        if value == ITS_STEPS:
            return None
        try:
            return Property(value)
        except ValueError as error:
            known = [str(one) for one in Property]
            hint = suggest(str(value), known, "what only a stage observes belongs into [table.observed]")
            raise self._error(f"{name}: `{value}` is no property of a history", hint) from error

    def _chosen(self, value: Any) -> Chosen:
        if not isinstance(value, dict):
            raise self._error("settings have to be tables, such as [[table.settings]]")
        self._only(value, {"constants", "set", "action"}, "settings: ")
        return Chosen(
            self._numbers(value, "constants"),
            {key: str(one) for key, one in self._map(value, "set").items()},
            str(value.get("action", "")),
        )

    def _map(self, table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        found = table.get(key, {})
        if not isinstance(found, dict):
            raise self._error(f"`{key}` has to be a table")
        return found

    def _numbers(self, table: Mapping[str, Any], key: str) -> dict[str, int]:
        found = self._map(table, key)
        for name, value in found.items():
            if not isinstance(value, int):
                raise self._error(f"`{name}` of {key} has to be a number")
        return dict(found)

    def _words(self, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
        found = table.get(key, [])
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            raise self._error(f"`{key}` has to be a list of texts")
        return tuple(found)

    def _text(self, table: Mapping[str, Any], key: str) -> str:
        found = table.get(key)
        if not isinstance(found, str) or not found:
            raise self._error(f"`{key}` has to be a text")
        return found

    def _only(self, table: Mapping[str, Any], known: set[str], what: str) -> None:
        for key in table:
            if key not in known:
                raise self._error(
                    f"{what}unknown key `{key}`", suggest(key, known, f"one of {', '.join(known)}")
                )

    def _error(self, message: str, hint: str = "") -> ModelError:
        return ModelError(f"{self._where}: {message}", hint=hint)


def _variables(counterpart: Counterpart) -> tuple[str, ...]:
    """Returns the variables with messages that a counterpart names."""
    match counterpart:
        case Call(into=into, takes=takes):
            found: tuple[str, ...] = (into, takes)
        case Sent(into=into):
            found = (into,)
        case Deliver(taken_from=variable, into=into):
            found = (variable, into)
        case Do(loses=loses):
            found = loses
        case _:
            found = ()
    return tuple(each for each in found if each)
