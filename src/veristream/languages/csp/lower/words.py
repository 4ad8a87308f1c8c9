"""Keeps intermediate results within 32 bits where they could exceed the 64 bits of the kernel.

A variable has a range of its author or one that `ranges` infers. Only the first can be blamed on the model.
So if a product of inferred ranges may exceed 64 bits, its operands pass through a function with a result of
32 bits: a larger operand is then a run-time error, like any other overflow. `network` applies it last.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir.bounds import Interval, Names, interval, names_of
from veristream.ir.network import Function, Network, Parameter
from veristream.ir.verify_scope import BOUND_MAX
from veristream.ir.walk import walk
from veristream.languages.csp.lower.expressions import OUTSIDE

WORD = "int"
_VALUE = "value"
_WORD = Function(
    WORD,
    (Parameter(_VALUE, ir.Type(-BOUND_MAX, BOUND_MAX)),),
    ir.INT,
    (ir.Return(ir.Local(_VALUE)),),
)
_OUTSIDE = Function(
    OUTSIDE,
    (),
    ir.BOOL,
    (ir.Check(ir.FALSE, "an index is outside of the array"), ir.Return(ir.FALSE)),
)
NodeT = TypeVar("NodeT")


class _Words(dict[str, ir.Type]):
    """The types of local names: CSP# has only numbers of 32 bits."""

    def __missing__(self, name: str) -> ir.Type:
        return ir.INT


def add_outside(network: Network) -> Network:
    """Adds the function that fails to a network that calls it."""
    parts = (network.components, network.properties)
    if not any(isinstance(node, ir.Call) and node.function == OUTSIDE for node in walk(parts)):
        return network
    return replace(network, functions=(*network.functions, _OUTSIDE))


def keep_words(network: Network) -> Network:
    """Returns the network, complete with its properties, without expressions that may exceed 64 bits."""
    parts = (network.components, network.properties)
    if not any(isinstance(node, ir.Binary) and node.op == "*" for node in walk(parts)):
        return network
    functions = (*network.functions, _WORD)
    bounded = replace(network, functions=functions)
    known = names_of(bounded)
    names = Names(known.variables, known.channels, known.functions, _Words())
    components, properties = _bounded(parts, names)
    if (components, properties) == parts:
        return network
    return replace(bounded, components=components, properties=properties)


def _bounded(node: NodeT, names: Names) -> NodeT:
    if isinstance(node, tuple):
        return tuple(_bounded(part, names) for part in node)  # type: ignore[return-value]
    if isinstance(node, Network) or not is_dataclass(node) or isinstance(node, type):
        return node  # the specification of a refinement is a network of its own
    changed: dict[str, Any] = {}
    for part in fields(node):
        old = getattr(node, part.name)
        if part.name != "span" and (new := _bounded(old, names)) is not old and new != old:
            changed[part.name] = new
    done = replace(node, **changed) if changed else node
    return _operands(done, names) if isinstance(done, ir.Binary | ir.Unary) else done


def _operands(expr: ir.Binary | ir.Unary, names: Names) -> Any:
    """Returns the expression with operands of 32 bits if its result may exceed 64 bits."""
    if _range(expr, names) is not None:
        return expr
    if isinstance(expr, ir.Unary):
        return replace(expr, operand=_word(expr.operand, names))
    return replace(expr, left=_word(expr.left, names), right=_word(expr.right, names))


def _word(expr: ir.Expr, names: Names) -> ir.Expr:
    found = _range(expr, names)
    if found is not None and found.within(ir.INT.low, ir.INT.high):
        return expr
    return ir.Call(WORD, (expr,), span=expr.span)


def _range(expr: ir.Expr, names: Names) -> Interval | None:
    try:
        return interval(expr, names)
    except ModelError:
        return None
