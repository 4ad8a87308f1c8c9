"""Constant folding, so that more indices, guards and branches are known before the search."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any

from veristream.ir import expr as ir
from veristream.ir.constant import constant_value
from veristream.ir.network import Function, Network
from veristream.ir.oracle.evaluate import Environment, ModelFault, evaluate
from veristream.ir.state import name_parts
from veristream.ir.walk import walk

_STATE = (ir.Load, ir.Queue, ir.Peek, ir.AtLocation, ir.IsDone, ir.IsIdle)


class Folding:
    """Evaluates what depends neither on the state nor on a local name; what would fault stays as it is."""

    def __init__(self, network: Network) -> None:
        self._functions = {function.name: function for function in network.functions}
        self._nothing = Environment(name_parts(network), [], [], [])
        self._constant: dict[str, bool] = {}

    def fold(self, node: Any) -> Any:
        """The statement, expression or edge with its constant parts evaluated."""
        if isinstance(node, tuple):
            return tuple(self.fold(part) for part in node)
        if not is_dataclass(node) or isinstance(node, type):
            return node
        parts = {part.name: getattr(node, part.name) for part in fields(node) if part.name != "span"}
        folded = {name: self.fold(part) for name, part in parts.items()}
        changed = {name: part for name, part in folded.items() if part is not parts[name]}
        if changed:
            node = replace(node, **changed)
        return self._simplified(node)

    def _simplified(self, node: Any) -> Any:
        match node:
            case ir.Unary() | ir.Binary() | ir.Conditional():
                value = constant_value(node)
                return node if value is None else ir.Const(value, node.span)
            case ir.Call(function=name, arguments=arguments):
                known = all(isinstance(one, ir.Const) for one in arguments)
                return self._called(node) if known and self._is_constant(name) else node
            case ir.If(condition=ir.Const(value=value), then=then, otherwise=otherwise):
                return replace(node, then=then if value else (), otherwise=() if value else otherwise)
            case _:
                return node

    def _called(self, call: ir.Call) -> ir.Expr:
        try:
            return ir.Const(evaluate(call, self._nothing, {}), call.span)
        except ModelFault:
            return call

    def _is_constant(self, name: str) -> bool:
        """Whether the function neither reads nor writes the state."""
        if name not in self._constant:
            function: Function = self._functions[name]
            self._constant[name] = all(self._is_pure(part) for part in walk(function.body))
        return self._constant[name]

    def _is_pure(self, node: object) -> bool:
        if isinstance(node, ir.Call):
            return self._is_constant(node.function)
        return not isinstance(node, _STATE)
