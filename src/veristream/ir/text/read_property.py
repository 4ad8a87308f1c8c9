"""Reads properties of the text form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from lark import Token

from veristream.ir import property as prop
from veristream.ir.expr import Const, Expr
from veristream.ir.network import Network
from veristream.ir.text.parse import name_of
from veristream.ir.text.read_expr import read_constant, read_expr
from veristream.ir.text.read_names import Scope
from veristream.ir.text.read_row import Grouping, group
from veristream.ir.text.read_tree import Node, child, children, maybe, optional, span_of, token
from veristream.ir.text.spelling import TEMPORAL_LEVELS, TEMPORAL_PREFIX_LEVELS, TEMPORAL_RIGHTWARD
from veristream.source import Span

_SYNONYMS = {"implies": "->", "or": "||", "and": "&&", "not": "!", "V": "R"}
_PLAIN: dict[str, prop.Claim] = {
    "deadlockfree": prop.DeadlockFree(),
    "divergencefree": prop.DivergenceFree(),
    "nonterminating": prop.NonTerminating(),
    "deterministic": prop.Deterministic(),
}
_STATE_CLAIMS: dict[str, Callable[[Expr], prop.Claim]] = {
    "always": prop.Always,
    "transition": prop.Transition,
    "inevitable": prop.Inevitable,
    "potentially": prop.PotentiallyAlways,
}

ReadNetwork = Callable[[Node, Scope], Network]


def read_property(node: Node, scope: Scope, read_network: ReadNetwork) -> prop.Property:
    """Reads a property; `read_network` reads the specification of a refinement."""
    fairness = maybe(node, 2)
    return prop.Property(
        name_of(token(node, 0)),
        _claim(child(node, 1), scope, read_network),
        prop.Fairness.NONE if fairness is None else prop.Fairness(str(fairness)),
        span=span_of(scope.names.source, node),
    )


def _claim(node: Node, scope: Scope, read_network: ReadNetwork) -> prop.Claim:
    match node.data:
        case "plain_claim":
            return _PLAIN[str(token(node, 0))]
        case "state_claim":
            return _STATE_CLAIMS[str(token(node, 0))](read_expr(child(node, 1), scope))
        case "reachable":
            return prop.Reachable(read_expr(child(node, 0), scope), _optimise(node, scope))
        case "refines":
            model = str(token(node, 0)).removeprefix("refines").strip("<>") or "T"
            return prop.Refines(read_network(child(node, 1), scope), cast(prop.RefinementModel, model))
        case "ltl":
            return prop.Temporal(_formula(child(node, 0), scope))
        case _:
            return prop.LeadsTo(read_expr(child(node, 0), scope), read_expr(child(node, 1), scope))


def _optimise(node: Node, scope: Scope) -> prop.Optimise | None:
    direction = maybe(node, 1)
    if direction is None:
        return None
    return prop.Optimise("max" if direction == "maximise" else "min", read_expr(child(node, 2), scope))


def _formula(node: Node, scope: Scope) -> prop.Formula:
    grouping: Grouping[tuple[prop.Formula, Span]] = Grouping(
        TEMPORAL_LEVELS,
        TEMPORAL_PREFIX_LEVELS,
        TEMPORAL_RIGHTWARD,
        frozenset(),
        _SYNONYMS,
        lambda inner: (_proposition(inner, scope), span_of(scope.names.source, inner)),
        partial(_prefix, scope),
        _infix,
    )
    return group(scope.names.source, node.children, grouping)[0]


def _prefix(
    scope: Scope, written: Token, op: str, operand: tuple[prop.Formula, Span]
) -> tuple[prop.Formula, Span]:
    start = span_of(scope.names.source, written)
    span = Span(start.source, start.start, operand[1].end)
    return prop.TemporalUnary(cast(prop.UnaryTemporal, op), operand[0], span=span), span


def _infix(
    op: str, left: tuple[prop.Formula, Span], right: tuple[prop.Formula, Span]
) -> tuple[prop.Formula, Span]:
    span = Span(left[1].source, left[1].start, right[1].end)
    return prop.TemporalBinary(cast(prop.BinaryTemporal, op), left[0], right[0], span=span), span


def _proposition(node: Node, scope: Scope) -> prop.Formula:
    span = span_of(scope.names.source, node)
    match node.data:
        case "formula":
            return _formula(node, scope)
        case "holds":
            return prop.Holds(read_expr(child(node, 0), scope), span=span)
        case "silent":
            return prop.Silent()
        case _:
            return _occurs(node, scope, span)


def _occurs(node: Node, scope: Scope, span: Span) -> prop.Formula:
    written, arguments = token(node, 0), optional(node, 1)
    if arguments is None and str(written) in ("true", "false"):
        return prop.Holds(Const(int(str(written) == "true"), span), span=span)
    name = str(written)[1:-1] if str(written).startswith("'") else name_of(written)
    if arguments is None:
        return prop.Occurs(name, span=span)
    return prop.Occurs(name, tuple(_argument(value, scope) for value in children(arguments)), span=span)


def _argument(node: Node, scope: Scope) -> int | None:
    if node.data == "reference" and str(token(node, 0)) == "_":
        return None
    return read_constant(node, scope)
