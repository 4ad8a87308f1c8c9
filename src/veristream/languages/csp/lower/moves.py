"""Moves: the steps of terms as data, which `steps` derives and `automata` turns into arcs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from veristream.languages.csp.lower.expressions import Values, put_in, put_in_program
from veristream.languages.csp.lower.terms import Alphabet, Name, Term
from veristream.languages.csp.syntax import Binary, Binder, Bound, Event, Expr, Number, Program, Unary
from veristream.source import Node


@dataclass(frozen=True, slots=True)
class Happens:
    """An event; `data` is set if it carries a program and therefore never synchronises."""

    event: Event
    data: bool = False


@dataclass(frozen=True, slots=True)
class Silent:
    """A tau; `shown` is its name in traces."""

    shown: str = "tau"


@dataclass(frozen=True, slots=True)
class Terminates:
    """The termination of the whole term."""


@dataclass(frozen=True, slots=True)
class Sends:
    """An output on a buffered channel, or the sending half of a rendezvous."""

    channel: str
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Receives:
    """An input; the names it binds may occur in the target and the conditions."""

    channel: str
    indices: tuple[Expr, ...]
    fields: tuple[Binder | Expr, ...]


@dataclass(frozen=True, slots=True)
class Meets:
    """A rendezvous between two subterms of one term."""

    channel: str
    indices: tuple[Expr, ...]
    values: tuple[Expr, ...]


Act = Happens | Silent | Terminates | Sends | Receives | Meets


@dataclass(frozen=True, slots=True)
class Move(Node):
    """A step; `conditions` and `captured` are evaluated in the state before it."""

    act: Act
    target: Term
    conditions: tuple[Expr, ...] = ()
    captured: tuple[tuple[str, Expr], ...] = ()
    program: Program = ()
    atomic: bool = False
    checks: tuple[Expr, ...] = ()  # a run-time error if one is false
    # The path to each participant: the position of its branch in each enclosing composition.
    actors: tuple[tuple[int, ...], ...] = field(default=((),), compare=False)


def when(move: Move, condition: Expr) -> Move:
    """Returns the move with one more condition."""
    return replace(move, conditions=(condition, *move.conditions))


def put_in_act(act: Act, values: Values) -> Act:
    """Substitutes values for bound names."""

    def each(exprs: Iterable[Expr]) -> tuple[Expr, ...]:
        return tuple(put_in(expr, values) for expr in exprs)

    match act:
        case Happens(event=event):
            return replace(act, event=replace(event, arguments=each(event.arguments)))
        case Sends(indices=indices, values=sent) | Meets(indices=indices, values=sent):
            return replace(act, indices=each(indices), values=each(sent))
        case Receives(indices=indices, fields=fields):
            new = tuple(part if isinstance(part, Binder) else put_in(part, values) for part in fields)
            return replace(act, indices=each(indices), fields=new)
        case Silent() | Terminates():
            return act


def with_own_names(move: Move, slots: Values, mark: str) -> tuple[Move, Values]:
    """Returns the move with a mark on what it captures and other names for slots, and all these names."""
    captured: list[tuple[str, Expr]] = []
    values: dict[str, Expr] = dict(slots)
    for name, value in move.captured:
        captured.append((name + mark, put_in(value, values)))
        values[name] = Bound(name + mark)
    own = replace(
        move,
        act=put_in_act(move.act, values),
        conditions=tuple(put_in(each, values) for each in move.conditions),
        captured=tuple(captured),
        program=put_in_program(move.program, values),
        checks=tuple(put_in(each, values) for each in move.checks),
    )
    return own, values


# --- Events with arguments known only at run time ---------------------------------------------------


def concrete(move: Move, data: bool = False) -> Name | None:
    """Returns the event of a move, or None if it has none or its arguments are not constant.

    An event with a program counts only if `data` is set.
    """
    if not isinstance(move.act, Happens) or (move.act.data and not data):
        return None
    arguments = move.act.event.arguments
    if not all(isinstance(argument, Number) for argument in arguments):
        return None
    return move.act.event.name, tuple(cast("Number", argument).value for argument in arguments)


def event_of(move: Move) -> Name | None:
    """Returns the event of a move, including that of a rendezvous, or None if it is not constant."""
    if not isinstance(move.act, Meets | Sends):
        return concrete(move, data=True)
    if move.act.indices or not all(isinstance(value, Number) for value in move.act.values):
        return None
    return move.act.channel, tuple(cast("Number", value).value for value in move.act.values)


def split(move: Move, names: Alphabet, data: bool = False) -> Iterator[Move]:
    """Splits a move by its event: one move for each name that it may equal, and one for the rest."""
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
    """Splits an output or rendezvous by its message: one move for each name, and one for the rest."""
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
    """Yields the values of each matching name with the condition that the arguments equal them."""
    for other, values in sorted(names):
        if other == name and len(values) == len(arguments):
            same = equal(arguments, values)
            if not isinstance(same, Number) or same.value:
                yield values, same


def equal(arguments: tuple[Expr, ...], values: tuple[int, ...]) -> Expr:
    """Returns the condition that the arguments equal the values."""
    result: Expr = Number(1)
    for argument, value in zip(arguments, values, strict=True):
        result = put_in(Binary("&&", result, Binary("==", argument, Number(value))), {})
    return result


def show(name: Name) -> str:
    """Spells an event as PAT does."""
    return ".".join((name[0], *map(str, name[1])))


def hidden_name(name: Name) -> str:
    """Spells a hidden event for traces; the brackets keep formulas from matching it."""
    return f"[{show(name)}]"
