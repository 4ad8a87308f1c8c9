"""Spells terms as source text, shortened to fit a line: the names of locations in traces."""

from __future__ import annotations

from collections.abc import Iterable

from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.terms import Forked, Running, Term

WIDTH = 40


def spell_term(term: Term) -> str:
    """Spells a term, truncated to `WIDTH` characters and three levels."""
    text = _term(term, 3)
    return text if len(text) <= WIDTH else text[: WIDTH - 1].rstrip() + "…"


def _term(term: Term, depth: int) -> str:
    if depth == 0 and not isinstance(term, csp.Ref | csp.Skip | csp.Stop | Forked):
        return "…"
    inner = depth - 1
    match term:
        case Forked(number=number):
            return f"fork {number}"
        case csp.Skip():
            return "Skip"
        case csp.Stop():
            return "Stop"
        case csp.Ref(name=name, arguments=arguments):
            return f"{name}({', '.join(map(spell_expr, arguments))})" if arguments else name
        case csp.Prefix(event=event, then=then):
            head = "tau" if event is None else ".".join((event.name, *map(spell_expr, event.arguments)))
            return f"{head} -> {_term(then, inner)}"
        case csp.Output(channel=channel, indices=indices, values=values, then=then):
            return f"{channel}{_indices(indices)}!{_fields(values)} -> {_term(then, inner)}"
        case csp.Input(channel=channel, indices=indices, fields=fields, then=then):
            return f"{channel}{_indices(indices)}?{_fields(fields)} -> {_term(then, inner)}"
        case csp.Choice(kind=kind, branches=branches):
            word = {"general": " [] ", "external": " [*] ", "internal": " <> "}[kind]
            return word.join(_term(branch, inner) for branch in branches)
        case csp.Parallel(interleave=interleave, branches=parts):
            return (" ||| " if interleave else " || ").join(_term(part, inner) for part in parts)
        case Running(interleave=interleave, branches=begun):
            return (" ||| " if interleave else " || ").join(_term(part, inner) for part in begun)
        case csp.Guard(condition=condition, process=process):
            return f"[{spell_expr(condition)}] {_term(process, inner)}"
        case csp.Conditional(condition=condition):
            return f"if {spell_expr(condition)}"
        case csp.Case():
            return "case"
        case csp.Atomic(process=process):
            return f"atomic {_term(process, inner)}"
        case csp.Sequence(first=first, second=second):
            return f"{_term(first, inner)}; {_term(second, inner)}"
        case csp.Interrupt(process=process, by=by):
            return f"{_term(process, inner)} interrupt {_term(by, inner)}"
        case csp.Hide(process=process):
            return f"{_term(process, inner)} \\"
        case csp.Assert(condition=condition):
            return f"assert {spell_expr(condition)}"
        case _:
            return "…"


def _indices(indices: Iterable[csp.Expr]) -> str:
    return "".join(f"[{spell_expr(index)}]" for index in indices)


def _fields(fields: Iterable[csp.Binder | csp.Expr]) -> str:
    return ".".join(part.name if isinstance(part, csp.Binder) else spell_expr(part) for part in fields)


def spell_expr(expr: csp.Expr) -> str:
    """Spells an expression, with parentheses around every nested binary operation."""
    match expr:
        case csp.Number(value=value):
            return str(value)
        case csp.Bound(name=name):
            return name
        case csp.Global(name=name, indices=indices):
            return name + _indices(indices)
        case csp.Unary(op=op, operand=operand):
            return f"{op}{_operand(operand)}"
        case csp.Binary(op=op, left=left, right=right):
            return f"{_operand(left)} {op} {_operand(right)}"
        case csp.Query(op=op, channel=channel, indices=indices):
            return f"{op}({channel}{_indices(indices)})"
        case csp.Pick(values=values, index=index):
            return f"({', '.join(map(spell_expr, values))})[{spell_expr(index)}]"


def _operand(expr: csp.Expr) -> str:
    return f"({spell_expr(expr)})" if isinstance(expr, csp.Binary) else spell_expr(expr)
