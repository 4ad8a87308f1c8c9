"""Removes `Return` from function bodies."""

from __future__ import annotations

from dataclasses import replace

from veristream.ir import expr as ir


def may_return(statement: ir.Statement) -> bool:
    """Whether the statement can return from its function."""
    match statement:
        case ir.Return():
            return True
        case ir.If(then=then, otherwise=otherwise):
            return any(map(may_return, then + otherwise))
        case ir.While(body=body) | ir.For(body=body):
            return any(map(may_return, body))
        case _:
            return False


def always_returns(block: ir.Block) -> bool:
    """Whether the block always returns from its function."""
    return any(
        isinstance(statement, ir.Return)
        or (
            isinstance(statement, ir.If)
            and always_returns(statement.then)
            and always_returns(statement.otherwise)
        )
        for statement in block
    )


def block_as_expression(block: ir.Block) -> ir.Expr | None:
    """Converts a block of conditionals and returns to an expression; None if it does more."""
    if not block:
        return ir.Const(0)
    first, rest = block[0], block[1:]
    match first:
        case ir.Return(value=value):
            return value
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            if rest and not always_returns(then) and not always_returns(otherwise):
                return None  # the rest would be duplicated
            sides = [block_as_expression(side + rest) for side in (then, otherwise)]
            if sides[0] is None or sides[1] is None:
                return None
            return ir.Conditional(condition, sides[0], sides[1], span=first.span)
        case _:
            return None


def without(block: ir.Block, flag: str) -> ir.Block:
    """Removes the assignments to a flag that is never read."""
    kept: list[ir.Statement] = []
    for statement in block:
        match statement:
            case ir.Assign(target=ir.Local(name=name)) if name == flag:
                continue
            case ir.If(then=then, otherwise=otherwise):
                kept.append(
                    replace(statement, then=without(then, flag), otherwise=without(otherwise, flag))
                )
            case ir.While(body=body) | ir.For(body=body):
                kept.append(replace(statement, body=without(body, flag)))
            case _:
                kept.append(statement)
    return tuple(kept)
