"""Spells terms as source text, shortened to fit a line: the names of locations in traces."""

from __future__ import annotations

from collections.abc import Iterable

from veristream.languages.csp.lower.terms import Forked, Running, Term
from veristream.languages.csp.syntax import (
    Assert,
    Atomic,
    Binary,
    Binder,
    Bound,
    Case,
    Choice,
    Conditional,
    Expr,
    Global,
    Guard,
    Hide,
    Input,
    Interrupt,
    Number,
    Output,
    Parallel,
    Prefix,
    Query,
    Ref,
    Sequence,
    Skip,
    Stop,
    Unary,
)

WIDTH = 40


def spell_term(term: Term) -> str:
    """Spells a term, truncated to `WIDTH` characters and three levels."""
    text = _term(term, 3)
    return text if len(text) <= WIDTH else text[: WIDTH - 1].rstrip() + "…"


def _term(term: Term, depth: int) -> str:
    if depth == 0 and not isinstance(term, Ref | Skip | Stop | Forked):
        return "…"
    inner = depth - 1
    match term:
        case Forked(number=number):
            return f"fork {number}"
        case Skip():
            return "Skip"
        case Stop():
            return "Stop"
        case Ref(name=name, arguments=arguments):
            return f"{name}({', '.join(map(spell_expr, arguments))})" if arguments else name
        case Prefix(event=event, then=then):
            head = "tau" if event is None else ".".join((event.name, *map(spell_expr, event.arguments)))
            return f"{head} -> {_term(then, inner)}"
        case Output(channel=channel, indices=indices, values=values, then=then):
            return f"{channel}{_indices(indices)}!{_fields(values)} -> {_term(then, inner)}"
        case Input(channel=channel, indices=indices, fields=fields, then=then):
            return f"{channel}{_indices(indices)}?{_fields(fields)} -> {_term(then, inner)}"
        case Choice(kind=kind, branches=branches):
            word = {"general": " [] ", "external": " [*] ", "internal": " <> "}[kind]
            return word.join(_term(branch, inner) for branch in branches)
        case Parallel(interleave=interleave, branches=parts):
            return (" ||| " if interleave else " || ").join(_term(part, inner) for part in parts)
        case Running(interleave=interleave, branches=begun):
            return (" ||| " if interleave else " || ").join(_term(part, inner) for part in begun)
        case Guard(condition=condition, process=process):
            return f"[{spell_expr(condition)}] {_term(process, inner)}"
        case Conditional(condition=condition):
            return f"if {spell_expr(condition)}"
        case Case():
            return "case"
        case Atomic(process=process):
            return f"atomic {_term(process, inner)}"
        case Sequence(first=first, second=second):
            return f"{_term(first, inner)}; {_term(second, inner)}"
        case Interrupt(process=process, by=by):
            return f"{_term(process, inner)} interrupt {_term(by, inner)}"
        case Hide(process=process):
            return f"{_term(process, inner)} \\"
        case Assert(condition=condition):
            return f"assert {spell_expr(condition)}"
        case _:
            return "…"


def _indices(indices: Iterable[Expr]) -> str:
    return "".join(f"[{spell_expr(index)}]" for index in indices)


def _fields(fields: Iterable[Binder | Expr]) -> str:
    return ".".join(part.name if isinstance(part, Binder) else spell_expr(part) for part in fields)


def spell_expr(expr: Expr) -> str:
    """Spells an expression, with parentheses around every nested binary operation."""
    match expr:
        case Number(value=value):
            return str(value)
        case Bound(name=name):
            return name
        case Global(name=name, indices=indices):
            return name + _indices(indices)
        case Unary(op=op, operand=operand):
            return f"{op}{_operand(operand)}"
        case Binary(op=op, left=left, right=right):
            return f"{_operand(left)} {op} {_operand(right)}"
        case Query(op=op, channel=channel, indices=indices):
            return f"{op}({channel}{_indices(indices)})"


def _operand(expr: Expr) -> str:
    return f"({spell_expr(expr)})" if isinstance(expr, Binary) else spell_expr(expr)
