"""Reads properties of the text form."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import cast

from lark import Token

from veristream.ir.expr import Const, Expr
from veristream.ir.network import Network
from veristream.ir.property import (
    Always,
    BinaryTemporal,
    Claim,
    DeadlockFree,
    Deterministic,
    DivergenceFree,
    Fairness,
    Formula,
    Holds,
    Inevitable,
    LeadsTo,
    NonTerminating,
    Occurs,
    Optimise,
    PotentiallyAlways,
    Property,
    Reachable,
    RefinementModel,
    Refines,
    Silent,
    Temporal,
    TemporalBinary,
    TemporalUnary,
    Transition,
    UnaryTemporal,
)
from veristream.ir.text.parse import name_of
from veristream.ir.text.read_expr import read_constant, read_expr
from veristream.ir.text.read_names import Scope
from veristream.ir.text.read_row import Grouping, group
from veristream.ir.text.read_tree import Node, child, children, maybe, optional, span_of, token
from veristream.ir.text.spelling import TEMPORAL_LEVELS, TEMPORAL_PREFIX_LEVELS, TEMPORAL_RIGHTWARD
from veristream.source import Span

_SYNONYMS = {"implies": "->", "or": "||", "and": "&&", "not": "!", "V": "R"}
_PLAIN: dict[str, Claim] = {
    "deadlockfree": DeadlockFree(),
    "divergencefree": DivergenceFree(),
    "nonterminating": NonTerminating(),
    "deterministic": Deterministic(),
}
_STATE_CLAIMS: dict[str, Callable[[Expr], Claim]] = {
    "always": Always,
    "transition": Transition,
    "inevitable": Inevitable,
    "potentially": PotentiallyAlways,
}

ReadNetwork = Callable[[Node, Scope], Network]


def read_property(node: Node, scope: Scope, read_network: ReadNetwork) -> Property:
    """Reads a property; `read_network` reads the specification of a refinement."""
    fairness = maybe(node, 2)
    return Property(
        name_of(token(node, 0)),
        _claim(child(node, 1), scope, read_network),
        Fairness.NONE if fairness is None else Fairness(str(fairness)),
        span_of(scope.names.source, node),
    )


def _claim(node: Node, scope: Scope, read_network: ReadNetwork) -> Claim:
    match node.data:
        case "plain_claim":
            return _PLAIN[str(token(node, 0))]
        case "state_claim":
            return _STATE_CLAIMS[str(token(node, 0))](read_expr(child(node, 1), scope))
        case "reachable":
            return Reachable(read_expr(child(node, 0), scope), _optimise(node, scope))
        case "refines":
            model = str(token(node, 0)).removeprefix("refines").strip("<>") or "T"
            return Refines(read_network(child(node, 1), scope), cast(RefinementModel, model))
        case "ltl":
            return Temporal(_formula(child(node, 0), scope))
        case _:
            return LeadsTo(read_expr(child(node, 0), scope), read_expr(child(node, 1), scope))


def _optimise(node: Node, scope: Scope) -> Optimise | None:
    direction = maybe(node, 1)
    if direction is None:
        return None
    return Optimise("max" if direction == "maximise" else "min", read_expr(child(node, 2), scope))


def _formula(node: Node, scope: Scope) -> Formula:
    grouping: Grouping[tuple[Formula, Span]] = Grouping(
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


def _prefix(scope: Scope, written: Token, op: str, operand: tuple[Formula, Span]) -> tuple[Formula, Span]:
    start = span_of(scope.names.source, written)
    span = Span(start.source, start.start, operand[1].end)
    return TemporalUnary(cast(UnaryTemporal, op), operand[0], span), span


def _infix(op: str, left: tuple[Formula, Span], right: tuple[Formula, Span]) -> tuple[Formula, Span]:
    span = Span(left[1].source, left[1].start, right[1].end)
    return TemporalBinary(cast(BinaryTemporal, op), left[0], right[0], span), span


def _proposition(node: Node, scope: Scope) -> Formula:
    span = span_of(scope.names.source, node)
    match node.data:
        case "formula":
            return _formula(node, scope)
        case "holds":
            return Holds(read_expr(child(node, 0), scope), span)
        case "silent":
            return Silent()
        case _:
            return _occurs(node, scope, span)


def _occurs(node: Node, scope: Scope, span: Span) -> Formula:
    written, arguments = token(node, 0), optional(node, 1)
    if arguments is None and str(written) in ("true", "false"):
        return Holds(Const(int(str(written) == "true"), span), span)
    name = str(written)[1:-1] if str(written).startswith("'") else name_of(written)
    if arguments is None:
        return Occurs(name, None, span)
    return Occurs(name, tuple(_argument(value, scope) for value in children(arguments)), span)


def _argument(node: Node, scope: Scope) -> int | None:
    if node.data == "reference" and str(token(node, 0)) == "_":
        return None
    return read_constant(node, scope)
