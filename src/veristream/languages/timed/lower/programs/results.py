"""Functions that return a struct or an array.

Functions of the IR return numbers. `a = f(x)` is rewritten to `f(x, a)`, where `f` has an additional
reference parameter in which `return e;` stores `e`. The parameter is named `return`, a keyword, so that it
cannot clash with other names.
"""

from __future__ import annotations

from dataclasses import replace

from veristream.languages.timed import syntax
from veristream.languages.timed.lower.scope import FunctionName

_RESULT = "return"


def store_result(function: FunctionName) -> FunctionName:
    """Rewrites the function to store its result in an additional last parameter."""
    declaration, span = function.declaration, function.declaration.span
    result = syntax.Parameter(_RESULT, declaration.result, reference=True, span=span)
    changed = replace(
        declaration,
        result=syntax.PlainType("void", span=span),
        parameters=(*declaration.parameters, result),
        body=_block(declaration.body),
    )
    return FunctionName(changed, function.scope)


def _block(block: syntax.Block) -> syntax.Block:
    return replace(block, statements=tuple(part for one in block.statements for part in _parts(one)))


def _parts(statement: syntax.Statement) -> tuple[syntax.Statement, ...]:
    """Rewrites a statement; `return e;` becomes two."""
    match statement:
        case syntax.Return(value=value, span=span) if value is not None:
            target = syntax.Name(_RESULT, span=span)
            stored = syntax.Evaluate(syntax.Assignment("=", target, value, span=span), span=span)
            return (stored, syntax.Return(None, span=span))
        case syntax.Block():
            return (_block(statement),)
        case syntax.For() | syntax.ForEach() | syntax.While():
            return (replace(statement, body=_one(statement.body)),)
        case syntax.If(then=then, otherwise=otherwise):
            other = None if otherwise is None else _one(otherwise)
            return (replace(statement, then=_one(then), otherwise=other),)
        case _:
            return (statement,)


def _one(statement: syntax.Statement) -> syntax.Statement:
    parts = _parts(statement)
    return parts[0] if len(parts) == 1 else syntax.Block((), parts, span=statement.span)
