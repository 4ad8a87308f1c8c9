"""Translates assertions to properties of a Network; `network` attaches them.

PAT evaluates a formula on pairs of a state and the event that led to it. Our formulas pair a state with
the event that leaves it (see `ir.property`). `_now` and `_later` convert: no event led to the first state,
and from the second state on a condition on PAT's pair becomes the event before and `X` of the state.
"""

from __future__ import annotations

from veristream.ir import expr as ir
from veristream.ir import property as prop
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.expressions import Translator

_FALSE = prop.Holds(ir.FALSE)


def write_claim(claim: csp.Claim, translator: Translator) -> prop.Claim:
    """Translates a claim about one process; `network` handles refinement, which needs a second Network."""
    match claim:
        case csp.Simple(word="deadlockfree"):
            return prop.DeadlockFree()
        case csp.Simple(word="divergencefree"):
            return prop.DivergenceFree()
        case csp.Simple(word="nonterminating"):
            return prop.NonTerminating()
        case csp.Simple(word="deterministic"):
            return prop.Deterministic()
        case csp.Reaches(condition=condition, direction=direction, value=value):
            best = None
            if direction is not None and value is not None:
                best = prop.Optimise(direction, translator.expr(value))
            return prop.Reachable(translator.expr(condition), best)
        case csp.Satisfies(formula=csp.TemporalUnary(op="[]", operand=operand)) if _is_condition(operand):
            return prop.Always(_condition(operand, translator))
        case csp.Satisfies(formula=formula):
            return prop.Temporal(write_formula(formula, translator))
        case _:
            raise AssertionError(f"{claim} needs a second Network")


def write_formula(formula: csp.Formula, translator: Translator) -> prop.Formula:
    """Translates a formula from PAT's interpretation to ours."""
    if not _has_event(formula):
        return _write(formula, translator, shifted=False)
    return _now(formula, translator)


def _is_condition(formula: csp.Formula) -> bool:
    """Whether the formula has neither events nor temporal operators."""
    match formula:
        case csp.Holds():
            return True
        case csp.TemporalUnary(op="!", operand=operand):
            return _is_condition(operand)
        case csp.TemporalBinary(op="&&" | "||" | "->" | "<->", left=left, right=right):
            return _is_condition(left) and _is_condition(right)
        case _:
            return False


def _condition(formula: csp.Formula, translator: Translator) -> ir.Expr:
    """Translates a formula about one state to a condition, for a search with shortest counterexamples."""
    match formula:
        case csp.Holds(condition=condition):
            return translator.expr(condition)
        case csp.TemporalUnary(operand=operand):
            return ir.Unary("not", _condition(operand, translator), span=formula.span)
        case csp.TemporalBinary(op=op, left=left, right=right):
            first, second = _condition(left, translator), _condition(right, translator)
            if op == "<->":
                sides = (ir.Unary("not", first), ir.Unary("not", second))
                return ir.Binary("==", sides[0], sides[1], span=formula.span)
            words: dict[str, ir.BinaryOp] = {"&&": "and", "||": "or", "->": "implies"}
            return ir.Binary(words[op], first, second, span=formula.span)
        case _:
            raise AssertionError(formula)


def _has_event(formula: csp.Formula) -> bool:
    match formula:
        case csp.Occurs():
            return True
        case csp.Holds():
            return False
        case csp.TemporalUnary(operand=operand):
            return _has_event(operand)
        case csp.TemporalBinary(left=left, right=right):
            return _has_event(left) or _has_event(right)


def _write(formula: csp.Formula, translator: Translator, *, shifted: bool) -> prop.Formula:
    """Translates a formula operator by operator; `shifted` puts an `X` before each condition."""
    match formula:
        case csp.Holds(condition=condition):
            here = prop.Holds(translator.expr(condition), span=formula.span)
            return prop.TemporalUnary("X", here) if shifted else here
        case csp.Occurs(name=name, arguments=arguments, channel=channel):
            ending = channel or ("." if arguments else "")
            return prop.Occurs(name + ending, arguments, span=formula.span)
        case csp.TemporalUnary(op=op, operand=operand):
            return prop.TemporalUnary(op, _write(operand, translator, shifted=shifted), span=formula.span)
        case csp.TemporalBinary(op=op, left=left, right=right):
            return prop.TemporalBinary(
                op,
                _write(left, translator, shifted=shifted),
                _write(right, translator, shifted=shifted),
                span=formula.span,
            )


def _later(formula: csp.Formula, translator: Translator) -> prop.Formula:
    """Translates a formula evaluated at the second state, seen from the first."""
    return _write(formula, translator, shifted=True)


def _now(formula: csp.Formula, translator: Translator) -> prop.Formula:
    """Translates a formula evaluated at the first state, to which no event has led."""
    match formula:
        case csp.Holds():
            return _write(formula, translator, shifted=False)
        case csp.Occurs():
            return _FALSE
        case csp.TemporalUnary(op="X", operand=operand):
            return _later(operand, translator)
        case csp.TemporalUnary(op="!", operand=operand):
            return prop.TemporalUnary("!", _now(operand, translator))
        case csp.TemporalUnary(op="[]", operand=operand):
            return prop.TemporalBinary("&&", _now(operand, translator), _later(formula, translator))
        case csp.TemporalUnary(op="<>", operand=operand):
            return prop.TemporalBinary("||", _now(operand, translator), _later(formula, translator))
        case csp.TemporalBinary(op="U", left=left, right=right):
            stays = prop.TemporalBinary("&&", _now(left, translator), _later(formula, translator))
            return prop.TemporalBinary("||", _now(right, translator), stays)
        case csp.TemporalBinary(op="R", left=left, right=right):
            goes = prop.TemporalBinary("||", _now(left, translator), _later(formula, translator))
            return prop.TemporalBinary("&&", _now(right, translator), goes)
        case csp.TemporalBinary(op=op, left=left, right=right):
            return prop.TemporalBinary(op, _now(left, translator), _now(right, translator))
        case _:
            raise AssertionError(formula)
