"""Evaluates function calls at compile time, as in `const int N = size(3);`."""

from __future__ import annotations

from veristream.errors import ModelError
from veristream.ir import expr as ir
from veristream.ir import network as net
from veristream.ir.oracle.evaluate import Environment, ModelFault, evaluate
from veristream.ir.state import name_parts
from veristream.ir.walk import walk
from veristream.languages.timed import syntax
from veristream.languages.timed.lower.model import Model
from veristream.languages.timed.lower.programs.expressions import ExpressionReader
from veristream.languages.timed.lower.programs.statements import lower_functions
from veristream.languages.timed.lower.scope import LocalNames, Scope


def call_value(expr: syntax.Call, scope: Scope) -> int:
    """Returns the result of the call; raises ModelError if it depends on variables."""
    model = Model()
    call = ExpressionReader(model, scope, LocalNames()).value(expr)
    lower_functions(model)
    functions = tuple(model.functions.values())
    for part in walk((call, functions)):
        if isinstance(part, ir.Load | ir.Reset):
            raise ModelError(
                f"`{expr.name}` uses variables, which have no value at compile time",
                expr.span,
                "a function called here can only use constants, its parameters and its local variables",
            )
    names = name_parts(net.Network("", functions=functions))
    try:
        return evaluate(call, Environment(names, [], [], []), {})
    except ModelFault as fault:
        raise ModelError(fault.message, fault.span, f"`{expr.name}` fails when called here") from None
