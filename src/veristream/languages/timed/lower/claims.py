"""Lowers queries to properties."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.ir import property as prop
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.kinds import is_clock, type_of, written
from veristream.languages.timed.lower.model import Model
from veristream.languages.timed.lower.programs import access
from veristream.languages.timed.lower.programs.expressions import ExpressionReader
from veristream.languages.timed.lower.programs.reader import Reader
from veristream.languages.timed.lower.programs.statements import lower_functions
from veristream.languages.timed.lower.scope import LocalNames, Ref, Scope
from veristream.languages.timed.read.queries import TOO_DEEP

_KINDS = {
    "A[]": "always",
    "E<>": "reachable",
    "A<>": "inevitable",
    "E[]": "potentially",
    "sup": "reachable",
    "inf": "reachable",
    "bounds": "reachable",
}
_DIRECTIONS: dict[str, tuple[Literal["min", "max"], ...]] = {
    "sup": ("max",),
    "inf": ("min",),
    "bounds": ("min", "max"),
}


@dataclass(frozen=True, slots=True)
class Lowered:
    """The properties of a query, and the functions that they call besides those of the model."""

    properties: tuple[prop.Property, ...]
    functions: Mapping[str, net.Function]


Answerable = Lowered | prop.Rejected


def lower_queries(queries: tuple[syntax.Query, ...], model: Model, scope: Scope) -> list[Answerable]:
    """Lowers each query by itself: one that is wrong is rejected. The properties have unique names.

    The model's functions must have been lowered; it gets no more.
    """
    names = _Names()
    return [_lower_query(query, model, scope, names) for query in queries]


def _lower_query(query: syntax.Query, model: Model, scope: Scope, names: _Names) -> Answerable:
    functions, requests = dict(model.functions), dict(model.requests)
    try:
        claims = list(_claims(query, model, scope))
        lower_functions(model)
    except ModelError as error:
        return reject(query, error, names.unique(query.text))
    except RecursionError:
        return reject(query, too_deep(query), names.unique(query.text))
    finally:
        added = {name: one for name, one in model.functions.items() if name not in functions}
        model.functions, model.requests, model.pending = functions, requests, []
    properties = [prop.Property(names.unique(name), claim, span=query.span) for name, claim in claims]
    return Lowered(tuple(properties), added)


def too_deep(query: syntax.Query) -> ModelError:
    return ModelError(TOO_DEEP, query.span, "split it, or define a function")


def reject(query: syntax.Query, error: ModelError, name: str) -> prop.Rejected:
    """Returns the query as a property that cannot be read."""
    return prop.Rejected(name, _kind(query.text), error.message, error.hint, span=error.span)


def _kind(text: str) -> str:
    """Returns the keyword of the property that a text is probably meant to be."""
    start = "".join(text.split())
    return next((kind for word, kind in _KINDS.items() if start.startswith(word)), "query")


class _Names:
    """The names used so far, with the number of uses."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """Returns the name, with a number appended if it has been used before."""
        self.counts[name] = self.counts.get(name, 0) + 1
        return name if self.counts[name] == 1 else f"{name} ({self.counts[name]})"


def _claims(query: syntax.Query, model: Model, scope: Scope) -> Iterator[tuple[str, prop.Claim]]:
    reader = ExpressionReader(model, scope, LocalNames(), queries=True)
    match query:
        case syntax.PathQuery(quantifier=quantifier, condition=condition, text=text):
            yield text, _path(quantifier, reader.value(condition))
        case syntax.LeadsToQuery(cause=cause, effect=effect, text=text):
            yield text, prop.LeadsTo(reader.value(cause), reader.value(effect))
        case syntax.ExtremeQuery():
            yield from _extremes(query, reader)
        case syntax.UnreadQuery(message=message, hint=hint, span=span):
            raise ModelError(message, span, hint)


def _path(quantifier: str, condition: ir.Expr) -> prop.Claim:
    match quantifier:
        case "A[]":
            return prop.Always(condition)
        case "E<>":
            return prop.Reachable(condition)
        case "E[]":
            return prop.PotentiallyAlways(condition)
        case _:
            return prop.Inevitable(condition)


def _extremes(query: syntax.ExtremeQuery, reader: Reader) -> Iterator[tuple[str, prop.Claim]]:
    """Yields one property per value and direction."""
    condition = ir.TRUE if query.condition is None else reader.value(query.condition)
    directions = _DIRECTIONS[query.extreme]
    alone = len(query.values) * len(directions) == 1
    for expr in query.values:
        value = _value(expr, reader)
        for direction in directions:
            word = {"max": "sup", "min": "inf"}[direction]
            name = query.text if alone else f"{word}{_goal(query)}: {written(expr.span)}"
            yield name, prop.Reachable(condition, prop.Optimise(direction, value))


def _value(expr: syntax.Expression, reader: Reader) -> ir.Expr:
    if not is_clock(type_of(expr, reader.scope)):
        return reader.value(expr)
    place = reader.place(expr)
    assert isinstance(place, Ref)
    return ir.ClockValue(access.clock(place, expr.span), span=expr.span)


def _goal(query: syntax.ExtremeQuery) -> str:
    return "" if query.condition is None else f"{{{written(query.condition.span)}}}"
