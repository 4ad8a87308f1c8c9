"""Steps as values: what a term may do, and which event that is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from veristream.languages.csp.lower.expressions import put_in
from veristream.languages.csp.lower.terms import Alphabet, Name, Term
from veristream.languages.csp.syntax import Binary, Binder, Event, Expr, Number, Program, Unary
from veristream.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class Happens:
    """An event; `data` says that it carries a program, and so never synchronises."""

    event: Event
    data: bool = False


@dataclass(frozen=True, slots=True)
class Silent:
    """tau; `shown` says what happened, for the reader of a trace."""

    shown: str = "tau"


@dataclass(frozen=True, slots=True)
class Terminates:
    """The termination of the whole term."""


@dataclass(frozen=True, slots=True)
class Sends:
    """An output, on a buffered channel or on a rendezvous that still needs its other half."""

    channel: str
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Receives:
    """An input; what it binds are bound names of the target and of the condition."""

    channel: str
    indices: tuple[Expr, ...]
    fields: tuple[Binder | Expr, ...]


@dataclass(frozen=True, slots=True)
class Meets:
    """A rendezvous of two parts of one term."""

    channel: str
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]


Act = Happens | Silent | Terminates | Sends | Receives | Meets


@dataclass(frozen=True, slots=True)
class Move:
    """A step: `conditions` and `captured` values are those of the state before it."""

    act: Act
    target: Term
    conditions: tuple[Expr, ...] = ()
    captured: tuple[tuple[str, Expr], ...] = ()
    program: Program = ()
    atomic: bool = False
    checks: tuple[Expr, ...] = ()  # where one fails the model is wrong
    # Who moves: the way to each of them through the compositions.
    actors: tuple[tuple[int, ...], ...] = field(default=((),), compare=False)
    span: Span = field(default=NOWHERE, compare=False, repr=False)


def when(move: Move, condition: Expr) -> Move:
    """The step, under one more condition."""
    return replace(move, conditions=(condition, *move.conditions))


# --- Events whose arguments are known only at run time ----------------------------------------------


def concrete(move: Move, data: bool = False) -> Name | None:
    """The event that the step makes, where its arguments are known; of a data operation only if asked."""
    if not isinstance(move.act, Happens) or (move.act.data and not data):
        return None
    arguments = move.act.event.arguments
    if not all(isinstance(argument, Number) for argument in arguments):
        return None
    return move.act.event.name, tuple(cast("Number", argument).value for argument in arguments)


def event_of(move: Move) -> Name | None:
    """The event that the step makes, of a rendezvous too, where its arguments are known."""
    if not isinstance(move.act, Meets | Sends):
        return concrete(move, data=True)
    if move.act.indices or not all(isinstance(value, Number) for value in move.act.values):
        return None
    return move.act.channel, tuple(cast("Number", value).value for value in move.act.values)


def split(move: Move, names: Alphabet, data: bool = False) -> Iterator[Move]:
    """The step once for each event among the names that it may turn out to be, and once for the rest."""
    if not isinstance(move.act, Happens) or (move.act.data and not data) or concrete(move, True):
        yield move
        return
    event = move.act.event
    others: tuple[Expr, ...] = ()
    for values, same in _possible(event.name, event.arguments, names):
        known = replace(event, arguments=tuple(Number(value) for value in values))
        yield when(replace(move, act=Happens(known, move.act.data)), same)
        others += (put_in(Unary("!", same), {}),)
    yield replace(move, conditions=others + move.conditions)


def split_sent(move: Move, names: Alphabet) -> Iterator[Move]:
    """An output or a rendezvous, once for each message that it may turn out to be, and for the rest."""
    if not isinstance(move.act, Sends | Meets) or move.act.indices:
        yield move
        return
    others: tuple[Expr, ...] = ()
    for values, same in _possible(move.act.channel, move.act.values, names):
        known = replace(move.act, values=tuple(Number(value) for value in values))
        yield when(replace(move, act=known), same)
        others += (put_in(Unary("!", same), {}),)
    if not any(isinstance(each, Number) and not each.value for each in others):
        yield replace(move, conditions=others + move.conditions)


def _possible(
    name: str, arguments: tuple[Expr, ...], names: Alphabet
) -> Iterator[tuple[tuple[int, ...], Expr]]:
    """The values that the arguments may have for one of the names, and the condition that they do."""
    for other, values in sorted(names):
        if other == name and len(values) == len(arguments):
            same = equal(arguments, values)
            if not isinstance(same, Number) or same.value:
                yield values, same


def equal(arguments: tuple[Expr, ...], values: tuple[int, ...]) -> Expr:
    """Whether the arguments have the values."""
    result: Expr = Number(1)
    for argument, value in zip(arguments, values, strict=True):
        result = put_in(Binary("&&", result, Binary("==", argument, Number(value))), {})
    return result


def show(name: Name) -> str:
    """The event as PAT writes it."""
    return ".".join((name[0], *map(str, name[1])))


def hidden_name(name: Name) -> str:
    """A hidden event as a trace shows it, so that no formula takes it for the event."""
    return f"[{show(name)}]"
