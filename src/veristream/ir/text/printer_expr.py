"""Prints expressions and statements in the text form of a Network."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from veristream.ir import expr as ir
from veristream.ir.network import Bind, Network, Parameter, Select, enum_range
from veristream.ir.text.spelling import (
    COMPARISONS,
    FOLDS,
    LEVELS,
    LOOSEST,
    PREFIX_LEVELS,
    RIGHTWARD,
    TIGHTEST,
    spell_component,
    spell_function,
    spell_name,
    spell_path,
)
from veristream.ir.walk import walk


@dataclass(frozen=True, slots=True)
class Spelling:
    """The context of spelling: `shadowed` variables need `::`, a complete enum needs no range."""

    shadowed: frozenset[str] = frozenset()
    enum_ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def spelling_of(network: Network) -> Spelling:
    """Returns the spelling context of the network."""
    own = (
        variable.name.removeprefix(f"{component.name}.")
        for component in network.components
        for variable in component.variables
    )
    ranges = {enum.name: enum_range(enum) for enum in network.enums}
    return Spelling(frozenset(own) | frozenset(_declared_names(network)), ranges)


def _declared_names(node: object) -> Iterator[str]:
    """Yields every local name that the node declares."""
    for part in walk(node):
        if isinstance(part, ir.Let | ir.For | ir.Fold | Parameter | Select | Bind):
            yield part.name


def print_expr(expr: ir.Expr, spelling: Spelling | None = None) -> str:
    """Returns the expression with the fewest parentheses."""
    return print_at(expr, LOOSEST, Spelling() if spelling is None else spelling)


def print_at(expr: ir.Expr, level: int, spelling: Spelling) -> str:
    """Returns the expression, in parentheses if its operator is below the level."""
    own, text = _print(expr, spelling)
    return text if own >= level else f"({text})"


def print_list(exprs: Iterable[ir.Expr], spelling: Spelling) -> str:
    """Returns the expressions separated by commas."""
    return ", ".join(print_expr(expr, spelling) for expr in exprs)


def print_indices(indices: Iterable[ir.Expr], spelling: Spelling) -> str:
    """Returns the indices, each in brackets."""
    return "".join(f"[{print_expr(index, spelling)}]" for index in indices)


def print_type(type_: ir.Type, spelling: Spelling) -> str:
    """Returns the type by its name, or as a range."""
    if type_ == ir.BOOL:
        return "bool"
    if type_.enum is None:
        return f"{type_.low}..{type_.high}"
    if (type_.low, type_.high) == spelling.enum_ranges.get(type_.enum):
        return spell_name(type_.enum)
    name = type_.enum if type_.enum == "bool" else spell_name(type_.enum)
    return f"{type_.low}..{type_.high} as {name}"


def _print(expr: ir.Expr, spelling: Spelling) -> tuple[int, str]:
    """Returns the precedence of the outermost operator, and the text."""
    match expr:
        case ir.Const(value=value):
            return TIGHTEST if value >= 0 else PREFIX_LEVELS["-"], str(value)
        case ir.Load(variable=name, indices=indices):
            return TIGHTEST, _spell_variable(name, spelling) + print_indices(indices, spelling)
        case ir.Local(name=name, index=index):
            return TIGHTEST, spell_name(name) + ("" if index is None else print_indices([index], spelling))
        case ir.Unary():
            return PREFIX_LEVELS[expr.op], _print_unary(expr, spelling)
        case ir.Binary():
            return _print_binary(expr, spelling)
        case ir.Conditional(condition=condition, then=then, otherwise=otherwise):
            test = print_at(condition, LOOSEST + 1, spelling)
            return LOOSEST, f"{test} ? {print_expr(then, spelling)} : {print_expr(otherwise, spelling)}"
        case ir.Fold(op=op, name=name, low=low, high=high, body=body):
            inner = print_expr(body, spelling)
            return TIGHTEST, f"({FOLDS[op]} {spell_name(name)} in {low}..{high}: {inner})"
        case ir.Call(function=name, arguments=arguments):
            return TIGHTEST, f"{spell_function(name)}({print_list(arguments, spelling)})"
        case ir.AtLocation(component=component, location=location):
            return TIGHTEST, f"{spell_component(component)}@{spell_name(location)}"
        case ir.IsDone(component=component):
            return TIGHTEST, f"done({spell_component(component)})"
        case ir.IsIdle(component=component):
            return TIGHTEST, f"idle({spell_component(component)})"
        case ir.Queue(op=queue_op, channel=channel, indices=indices):
            return TIGHTEST, f"{queue_op}({spell_name(channel)}{print_indices(indices, spelling)})"
        case ir.Peek(channel=channel, position=position, part=part, indices=indices):
            place = spell_name(channel) + print_indices(indices, spelling)
            return TIGHTEST, f"peek({place}, {print_expr(position, spelling)}, {part})"
        case ir.Primed(operand=operand):
            text = print_expr(operand, spelling)
            return TIGHTEST, f"{text}'" if isinstance(operand, ir.Load) else f"next({text})"
        case ir.ClockTest(constraint=constraint):
            return TIGHTEST, f"clock({print_constraint(constraint, spelling)})"
        case ir.ClockValue(clock=clock):
            return TIGHTEST, f"clock({print_clock(clock, spelling)})"
        case ir.Deadlocked():
            return TIGHTEST, "deadlock"
        case _:
            assert_never(expr)


def print_clock(clock: ir.ClockRef, spelling: Spelling) -> str:
    """Returns the clock by its full name."""
    return spell_path(clock.clock) + print_indices(clock.indices, spelling)


def print_constraint(constraint: ir.ClockConstraint, spelling: Spelling) -> str:
    """Returns a constraint such as `x - y < 3 if b`."""
    left = print_clock(constraint.left, spelling)
    right = "" if constraint.right is None else f" - {print_clock(constraint.right, spelling)}"
    when = "" if constraint.when is None else f" if {print_expr(constraint.when, spelling)}"
    return f"{left}{right} {constraint.op} {print_at(constraint.bound, LEVELS['<<'], spelling)}{when}"


def _spell_variable(name: str, spelling: Spelling) -> str:
    if name not in spelling.shadowed:
        return spell_path(name)
    return "::" + (spell_name(name) if "(" in name else spell_path(name))


def _print_unary(expr: ir.Unary, spelling: Spelling) -> str:
    if expr.op == "not":
        return f"not {print_at(expr.operand, PREFIX_LEVELS['not'], spelling)}"
    # A number right after the sign would be read as a negative literal.
    level = TIGHTEST + 1 if isinstance(expr.operand, ir.Const) else PREFIX_LEVELS[expr.op]
    return expr.op + print_at(expr.operand, level, spelling)


def _print_binary(expr: ir.Binary, spelling: Spelling) -> tuple[int, str]:
    if expr.op in ("min", "max"):
        return TIGHTEST, f"{expr.op}({print_list((expr.left, expr.right), spelling)})"
    level = LEVELS[expr.op]
    if expr.op in RIGHTWARD:
        left = print_at(expr.left, level + 1, spelling)
        return level, f"{left} {expr.op} {print_at(expr.right, level, spelling)}"
    first, rest = expr.left, [expr.right]
    # Expanded quantifiers produce long chains, too long for recursion.
    while isinstance(first, ir.Binary) and first.op == expr.op and expr.op not in COMPARISONS:
        rest.append(first.right)
        first = first.left
    texts = [print_at(first, level + (expr.op in COMPARISONS), spelling)]
    texts += [print_at(part, level + 1, spelling) for part in reversed(rest)]
    return level, f" {expr.op} ".join(texts)


def print_block(block: ir.Block, indent: str, spelling: Spelling) -> Iterator[str]:
    """Yields the statements, one per line."""
    for statement in block:
        yield from _print_statement(statement, indent, spelling)


def _print_statement(statement: ir.Statement, indent: str, spelling: Spelling) -> Iterator[str]:
    match statement:
        case ir.Assign(target=target, value=value):
            yield f"{indent}{print_expr(target, spelling)} := {print_expr(value, spelling)};"
        case ir.Let():
            yield indent + _print_let(statement, spelling)
        case ir.If(condition=condition, then=then, otherwise=otherwise):
            yield f"{indent}if ({print_expr(condition, spelling)}) {{"
            yield from print_block(then, indent + "  ", spelling)
            if otherwise:
                yield f"{indent}}} else {{"
                yield from print_block(otherwise, indent + "  ", spelling)
            yield f"{indent}}}"
        case ir.While(condition=condition, body=body, limit=limit):
            yield f"{indent}while ({print_expr(condition, spelling)}) limit {limit} {{"
            yield from print_block(body, indent + "  ", spelling)
            yield f"{indent}}}"
        case ir.For(name=name, low=low, high=high, body=body):
            yield f"{indent}for {spell_name(name)} in {low}..{high} {{"
            yield from print_block(body, indent + "  ", spelling)
            yield f"{indent}}}"
        case ir.Return(value=value):
            yield f"{indent}return {print_expr(value, spelling)};"
        case ir.Evaluate(value=value):
            yield f"{indent}{print_expr(value, spelling)};"
        case ir.Check(condition=condition, message=message):
            text = json.dumps(message, ensure_ascii=False)
            yield f"{indent}check ({print_expr(condition, spelling)}) {text};"
        case ir.Reset(clock=clock, value=value):
            yield f"{indent}reset {print_clock(clock, spelling)} := {print_expr(value, spelling)};"
        case _:
            assert_never(statement)


def _print_let(let: ir.Let, spelling: Spelling) -> str:
    size = "" if let.size is None else f"[{let.size}]"
    type_ = "" if let.type == ir.INT else f": {print_type(let.type, spelling)}"
    return f"let {spell_name(let.name)}{size}{type_} = {print_expr(let.value, spelling)};"
