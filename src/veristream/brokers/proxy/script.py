"""Scripts: what a proxy does to which messages, and what is waited for in between.

    late = Match(key=Key.PRODUCE, client="producer-0")
    script = Script((
        Rule("late write", "hold", late),
        AwaitHeld("late write", 10.0),
        AwaitPassed(Match(key=Key.END_TXN, committed=False), 10.0),
        Release("late write"),
    ))
    assert read_script(write_script(script)) == script

A `Steering` performs the steps in their order, or one by one as a program says. Messages of other
protocols than Kafka's are told apart by node, connection, direction and number; with a framing of their own
(`brokers/rabbitmq/frames.py`, `brokers/nsq/lookup_frames.py`) by `key` and `client`, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, Final, Literal, get_args

from veristream.brokers.proxy.header import Header
from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.pieces import Direction
from veristream.errors import ModelError, suggest

PATIENCE_S: Final = 30.0

Act = Literal["hold", "drop", "cut", "cut after", "delay"]
ACTS: Final[tuple[Act, ...]] = get_args(Act)
DIRECTIONS: Final[tuple[Direction, ...]] = get_args(Direction)


@dataclass(frozen=True, slots=True)
class Match:
    """Which messages are meant; None is any. By default only what clients say, not what they are answered.

    `node`, `connection` and `number` are those of `Piece`; connections of a network and messages of a
    direction are counted from 0. `client` is the `client.id`. From `transactional_id` to `verify_only`,
    one of the transactions that a message is about must have all that is given. `topic` is a name; of
    Produce from version 13 on an id as 32 hexadecimal digits, if no broker has told its name. An answer
    is found by what its request said. `error` is a code in an answer; with 0, all in it must have
    succeeded.
    """

    direction: Direction | None = "to broker"
    node: str | None = None
    connection: int | None = None
    number: int | None = None
    key: int | None = None
    version: int | None = None
    client: str | None = None
    transactional_id: str | None = None
    producer_id: int | None = None
    epoch: int | None = None
    committed: bool | None = None
    verify_only: bool | None = None
    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    error: int | None = None

    def tell(self) -> str:
        """Says it in words."""
        told = [
            f"{each.name.replace('_', ' ')} {show_key(value) if each.name == 'key' else value}"
            for each in fields(self)
            if each.name != "direction" and (value := getattr(self, each.name)) is not None
        ]
        return f"a message {self.direction or 'in any direction'}" + "".join(f", {each}" for each in told)


@dataclass(frozen=True, slots=True)
class Rule:
    """What happens to messages from now on, from the `nth` that matches, so many `times` (None: always).

    | act | the message |
    | --- | --- |
    | hold | waits with all that is sent behind it, until its release or until an `until` has passed |
    | drop | does not arrive; what is behind it does |
    | cut | does not arrive, and both sides of its connection are closed |
    | cut after | arrives, and then both sides of its connection are closed |
    | delay | arrives `seconds` later; nothing behind it overtakes it |

    Several rules can match a message: all count it, and the first that is not yet spent acts.
    """

    name: str
    act: Act
    match: Match
    nth: int = 1
    times: int | None = 1
    seconds: float = 0.0
    until: Match | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Lets go what a rule holds, and ends the rule: what comes later passes."""

    name: str


@dataclass(frozen=True, slots=True)
class AwaitHeld:
    """Waits until a rule holds a message, or has held one."""

    name: str
    seconds: float = PATIENCE_S


@dataclass(frozen=True, slots=True)
class AwaitPassed:
    """Waits until so many messages that match have passed since the script began."""

    match: Match
    seconds: float = PATIENCE_S
    nth: int = 1


Step = Rule | Release | AwaitHeld | AwaitPassed


@dataclass(frozen=True, slots=True)
class Script:
    """Steps in their order. Raises ModelError for one that cannot be meant so."""

    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        held: list[str] = []
        names: set[str] = set()
        for number, step in enumerate(self.steps):
            where = f"step {number} of the script"
            match step:
                case Rule(name=name):
                    check_rule(step, where)
                    if name in names:
                        raise ModelError(
                            f"{where}: there is a rule `{name}` before", hint="rename one of them"
                        )
                    names.add(name)
                    held += [name] if step.act == "hold" else []
                case Release(name) | AwaitHeld(name):
                    if name not in held:
                        hint = suggest(name, held, "name a rule that holds, and put it before this step")
                        raise ModelError(f"{where}: no rule `{name}` holds anything", hint=hint)
                case AwaitPassed(nth=nth):
                    if nth < 1:
                        raise ModelError(f"{where}: `nth` is {nth}", hint="count from 1")


def check_rule(rule: Rule, where: str = "the rule") -> None:
    """Raises ModelError for a rule that cannot be meant so."""
    if rule.act not in ACTS:
        raise ModelError(
            f"{where}: unknown act `{rule.act}`",
            hint=suggest(rule.act, ACTS, f"choose from {', '.join(ACTS)}"),
        )
    if rule.nth < 1 or (rule.times is not None and rule.times < 1):
        raise ModelError(f"{where}: `nth` is {rule.nth} and `times` {rule.times}", hint="count from 1")
    if (rule.act == "delay") != (rule.seconds > 0):
        raise ModelError(
            f"{where}: `{rule.act}` with {rule.seconds} seconds",
            hint="a delay takes seconds, nothing else does",
        )
    if rule.until is not None and rule.act != "hold":
        raise ModelError(f"{where}: `{rule.act}` with `until`", hint="only what is held can be released")


def fits(match: Match, place: tuple[str, int, Direction, int], header: Header | None) -> bool:
    """Whether a message at a place (node, connection, direction, number) is meant."""
    node, connection, direction, number = place
    at_place = (
        match.direction in (None, direction)
        and match.node in (None, node)
        and match.connection in (None, connection)
        and match.number in (None, number)
    )
    if not at_place or not _asks_header(match):
        return at_place
    return header is not None and _fits_header(match, header)


_HEADER: Final = tuple(
    each.name for each in fields(Match) if each.name not in ("direction", "node", "connection", "number")
)
_TRANSACTION: Final = ("transactional_id", "producer_id", "epoch", "committed", "verify_only")


def _asks_header(match: Match) -> bool:
    return any(getattr(match, name) is not None for name in _HEADER)


def _fits_header(match: Match, header: Header) -> bool:
    request = header.request
    return (
        match.key in (None, request.key)
        and match.version in (None, request.version)
        and match.client in (None, request.client)
        and match.group in (None, header.group)
        and _fits_errors(match.error, header.errors)
        and _fits_transaction(match, header)
    )


def _fits_errors(error: int | None, errors: tuple[int, ...] | None) -> bool:
    if error is None:
        return True
    return bool(errors) and (not any(errors or ()) if error == 0 else error in (errors or ()))


def _fits_transaction(match: Match, header: Header) -> bool:
    asked = [name for name in _TRANSACTION if getattr(match, name) is not None]
    if not asked and match.topic is None and match.partition is None:
        return True
    return any(
        all(getattr(match, name) == getattr(each, name) for name in asked)
        and (
            (match.topic is None and match.partition is None)
            or any(
                match.topic in (None, topic) and match.partition in (None, partition)
                for topic, partition in each.partitions
            )
        )
        for each in header.transactions
    )


def show_key(key: int) -> str:
    """Returns the name of a kind of message, or its number, which is one of Kafka's."""
    if isinstance(key, IntEnum):
        return key.name
    return Key(key).name if key in set(Key) else str(key)


def write_script(script: Script) -> str:
    """Returns a script as JSON, without what is as by default."""
    steps = [{"step": _WORDS[type(step)], **_fields(step)} for step in script.steps]
    return json.dumps({"steps": steps}, indent=1, ensure_ascii=False)


def _fields(value: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in fields(value):
        one = getattr(value, each.name)
        if one != each.default:
            found[each.name] = _plain(each.name, one)
    return found


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, Match):
        return _fields(value)
    return show_key(value) if name == "key" and value in set(Key) else value


_WORDS: Final[dict[type[Step], str]] = {
    Rule: "rule",
    Release: "release",
    AwaitHeld: "await held",
    AwaitPassed: "await passed",
}
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("committed", "verify_only"), (bool,)),
    **dict.fromkeys(
        ("connection", "number", "version", "producer_id", "epoch", "partition", "error", "nth", "times"),
        (int,),
    ),
    "key": (int, str),
    "seconds": (int, float),
}
"""The types of fields that are no texts."""


def read_script(text: str) -> Script:
    """Reads a script; raises ModelError that says where it is wrong."""
    try:
        document = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ModelError(f"the script is not JSON: {error}", hint="write it with `write_script`") from error
    if (
        not isinstance(document, dict)
        or set(document) != {"steps"}
        or not isinstance(document["steps"], list)
    ):
        raise ModelError("the script is not an object with a list `steps`", hint='begin with {"steps": [')
    return Script(tuple(_step(each, f"steps.{place}") for place, each in enumerate(document["steps"])))


def _step(value: object, where: str) -> Step:
    word = value.get("step") if isinstance(value, dict) else None
    kind = next((kind for kind, known in _WORDS.items() if known == word), None)
    if kind is None or not isinstance(value, dict):
        raise _wrong(
            where, f"is no step: {value!r}", suggest(str(word), _WORDS.values(), _choose(_WORDS.values()))
        )
    rest = {name: each for name, each in value.items() if name != "step"}
    step: Step = _build(kind, rest, where)
    return step


def _build(kind: Any, value: object, where: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(where, "is not an object", "write {}")
    names = [each.name for each in fields(kind)]
    for name in value:
        if name not in names:
            raise _wrong(where, f"has an unknown field `{name}`", suggest(name, names, _choose(names)))
    given = {name: _value(name, each, f"{where}.{name}") for name, each in value.items()}
    try:
        return kind(**given)
    except TypeError as missing:
        raise _wrong(where, "lacks a field", str(missing).partition(" missing ")[2]) from missing


def _value(name: str, value: object, where: str) -> Any:
    if name in ("match", "until"):
        return _build(Match, value, where)
    if name == "act" or value is None:  # the rule itself checks its act
        return value
    kinds = _TYPES.get(name, (str,))
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise _wrong(where, f"is {value!r}", f"give {' or '.join(kind.__name__ for kind in kinds)}")
    if name == "direction" and value not in DIRECTIONS:
        raise _wrong(where, f"is {value!r}", _choose(DIRECTIONS))
    if name == "key" and isinstance(value, str):
        if value not in Key.__members__:
            raise _wrong(where, f"is {value!r}", suggest(value, Key.__members__, "give its number"))
        return Key[value]
    return value


def _wrong(where: str, what: str, hint: str) -> ModelError:
    return ModelError(f"the script: `{where}` {what}", hint=hint)


def _choose(words: Iterable[str]) -> str:
    return f"choose from {', '.join(words)}"
