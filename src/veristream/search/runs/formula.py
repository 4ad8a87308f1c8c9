"""Temporal formulas in a small normal form: negation only at atoms, propositions numbered as bits.

A letter is the propositions that hold at one moment of a run, as one 64-bit number: the state propositions
in bits 0 to 31, the action propositions in bits 32 to 62. The constructors `conjoin`, `disjoin`, `next_`,
`until` and `release` rewrite what they are given into something equivalent and no larger, after Somenzi and
Bloem, "Efficient Büchi automata from LTL formulae" (CAV 2000), and Etessami and Holzmann, "Optimizing Büchi
automata" (CONCUR 2000). Only conjunction and until have rules of their own: the other two connectives are
their duals, and every rule is dualised with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, assert_never

from veristream.errors import ModelError
from veristream.ir.expr import Const
from veristream.ir.property import (
    Formula,
    Holds,
    Occurs,
    Proposition,
    Silent,
    TemporalBinary,
    TemporalUnary,
    propositions_of,
)
from veristream.source import NOWHERE

STATE_PROPOSITIONS_MAX = 32
ACTION_PROPOSITIONS_MAX = 31
ACTION_SHIFT = 32
"""The first bit of the action propositions in a letter."""

_CACHE_SIZE = 1 << 16


@dataclass(frozen=True, slots=True)
class Numbering:
    """Numbers state propositions by bits of the state mask, action propositions by bits of the other."""

    states: tuple[Holds, ...]
    actions: tuple[Occurs | Silent, ...]

    def bits(self) -> dict[Proposition, int]:
        """The bit of each proposition in a letter."""
        places: dict[Proposition, int] = {p: bit for bit, p in enumerate(self.states)}
        places.update({p: bit for bit, p in enumerate(self.actions, ACTION_SHIFT)})
        return places


@dataclass(frozen=True, slots=True)
class Truth:
    """The constant true or false."""

    value: bool


@dataclass(frozen=True, slots=True)
class Atom:
    """The bit is set, or is not set, in the first letter."""

    bit: int
    positive: bool


@dataclass(frozen=True, slots=True)
class Next:
    """The operand holds for the word without its first letter."""

    operand: Normal


@dataclass(frozen=True, slots=True)
class And:
    """Two or more parts, sorted, no two equal, none of them an And."""

    parts: tuple[Normal, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Two or more parts, sorted, no two equal, none of them an Or."""

    parts: tuple[Normal, ...]


@dataclass(frozen=True, slots=True)
class Until:
    """The right side holds eventually, and the left side holds until then."""

    left: Normal
    right: Normal


@dataclass(frozen=True, slots=True)
class Release:
    """The right side holds up to and including the moment at which the left one holds, if it ever does."""

    left: Normal
    right: Normal


Normal = Truth | Atom | Next | And | Or | Until | Release

TRUE = Truth(True)
FALSE = Truth(False)


def propositions(formula: Formula) -> tuple[Proposition, ...]:
    """The formula's propositions in the order of their first appearance, without constants."""
    found = dict.fromkeys(propositions_of(formula))
    return tuple(p for p in found if not (isinstance(p, Holds) and isinstance(p.condition, Const)))


def number(formula: Formula) -> Numbering:
    """Numbers the formula's propositions; raises ModelError if a letter has too few bits."""
    found = propositions(formula)
    states = tuple(p for p in found if isinstance(p, Holds))
    actions = tuple(p for p in found if not isinstance(p, Holds))
    if len(states) > STATE_PROPOSITIONS_MAX:
        message = f"the formula has {len(states)} different conditions"
        hint = f"at most {STATE_PROPOSITIONS_MAX} are supported; combine some of them, or split the formula"
        raise ModelError(message, states[STATE_PROPOSITIONS_MAX].span, hint)
    if len(actions) > ACTION_PROPOSITIONS_MAX:
        message = f"the formula mentions {len(actions)} different actions"
        hint = f"at most {ACTION_PROPOSITIONS_MAX} are supported; split the formula"
        last = actions[ACTION_PROPOSITIONS_MAX]
        raise ModelError(message, NOWHERE if isinstance(last, Silent) else last.span, hint)
    return Numbering(states, actions)


def normalise(formula: Formula, numbering: Numbering) -> Normal:
    """An equivalent formula in normal form, simplified."""
    return _normalise(formula, numbering.bits())


def _normalise(formula: Formula, bits: Mapping[Proposition, int]) -> Normal:
    match formula:
        case Holds(condition=Const(value=value)):
            return Truth(value != 0)
        case Holds() | Occurs() | Silent():
            return Atom(bits[formula], True)
        case TemporalUnary():
            return _normalise_unary(formula, bits)
        case TemporalBinary():
            return _normalise_binary(formula, bits)
        case _:
            assert_never(formula)


def _normalise_unary(formula: TemporalUnary, bits: Mapping[Proposition, int]) -> Normal:
    operand = _normalise(formula.operand, bits)
    match formula.op:
        case "!":
            return negate(operand)
        case "X":
            return next_(operand)
        case "[]":
            return release(FALSE, operand)
        case "<>":
            return until(TRUE, operand)
        case _:
            assert_never(formula.op)


def _normalise_binary(formula: TemporalBinary, bits: Mapping[Proposition, int]) -> Normal:
    left, right = _normalise(formula.left, bits), _normalise(formula.right, bits)
    match formula.op:
        case "&&":
            return conjoin((left, right))
        case "||":
            return disjoin((left, right))
        case "->":
            return disjoin((negate(left), right))
        case "<->":
            return disjoin((conjoin((left, right)), conjoin((negate(left), negate(right)))))
        case "U":
            return until(left, right)
        case "R":
            return release(left, right)
        case _:
            assert_never(formula.op)


@lru_cache(_CACHE_SIZE)
def negate(formula: Normal) -> Normal:
    """The negation, in normal form."""
    match formula:
        case Truth(value=value):
            return Truth(not value)
        case Atom(bit=bit, positive=positive):
            return Atom(bit, not positive)
        case Next(operand=operand):
            return Next(negate(operand))
        case And(parts=parts):
            return Or(tuple(sorted(map(negate, parts), key=_rank)))
        case Or(parts=parts):
            return And(tuple(sorted(map(negate, parts), key=_rank)))
        case Until(left=left, right=right):
            return Release(negate(left), negate(right))
        case Release(left=left, right=right):
            return Until(negate(left), negate(right))
        case _:
            assert_never(formula)


def next_(operand: Normal) -> Normal:
    """The operand one moment later; a formula that depends only on the far future is left as is."""
    if is_eventual(operand) and is_universal(operand):
        return operand
    return Next(operand)


def disjoin(parts: Iterable[Normal]) -> Normal:
    """The disjunction."""
    return negate(conjoin(map(negate, parts)))


def release(left: Normal, right: Normal) -> Normal:
    """Release; with FALSE on the left it means always."""
    return negate(until(negate(left), negate(right)))


def conjoin(parts: Iterable[Normal]) -> Normal:
    """The conjunction."""
    flat = list(dict.fromkeys(_conjuncts(parts)))
    if any(implies(a, negate(b)) for a in flat for b in flat):
        return FALSE
    # sorting first decides which of two equivalent parts stays
    flat.sort(key=_rank)
    flat = _strongest(flat)
    changed = _resolve(flat) or _merge(flat)
    if changed is not None:
        return conjoin(changed)
    match flat:
        case []:
            return TRUE
        case [only]:
            return only
        case _:
            return And(tuple(flat))


def _conjuncts(parts: Iterable[Normal]) -> Iterator[Normal]:
    for part in parts:
        match part:
            case And(parts=inner):
                yield from inner
            case Truth(value=True):
                continue
            case _:
                yield part


def _strongest(parts: list[Normal]) -> list[Normal]:
    kept: list[Normal] = []
    for place, part in enumerate(parts):
        if not any(implies(other, part) for other in kept + parts[place + 1 :]):
            kept.append(part)
    return kept


def _resolve(parts: list[Normal]) -> list[Normal] | None:
    """The parts with one disjunction stripped of what another part rules out; None if there is none."""
    for place, part in enumerate(parts):
        if not isinstance(part, Or):
            continue
        others = parts[:place] + parts[place + 1 :]
        possible = [d for d in part.parts if not any(implies(o, negate(d)) for o in others)]
        if len(possible) < len(part.parts):
            return [*others, disjoin(possible)]
    return None


def _merge(parts: list[Normal]) -> list[Normal] | None:
    """The parts with those of one kind merged into one temporal operator; None if there are none."""
    groups: dict[tuple[str, Normal], list[Normal]] = {}
    for part in parts:
        match part:
            case Next():
                groups.setdefault(("X", TRUE), []).append(part)
            case Release(left=left):
                groups.setdefault(("R", left), []).append(part)
            case Until(left=Truth(value=True), right=right) if is_universal(right):
                groups.setdefault(("F", TRUE), []).append(part)
            case Until(right=right):
                groups.setdefault(("U", right), []).append(part)
    for (kind, side), group in groups.items():
        if len(group) < 2:
            continue
        rest = [part for part in parts if part not in group]
        match kind:
            case "X":
                return [*rest, next_(conjoin(p.operand for p in group if isinstance(p, Next)))]
            case "R":
                rights = conjoin(p.right for p in group if isinstance(p, Release))
                return [*rest, release(side, rights)]
            case "F":  # formulas that hold forever from some point on can be merged
                rights = conjoin(p.right for p in group if isinstance(p, Until))
                return [*rest, until(TRUE, rights)]
            case _:
                lefts = conjoin(p.left for p in group if isinstance(p, Until))
                return [*rest, until(lefts, side)]
    return None


def until(left: Normal, right: Normal) -> Normal:
    """Until; with TRUE on the left it means eventually."""
    if is_eventual(right) or left == FALSE or implies(left, right):
        return right
    match left, right:
        case _, Until(left=inner) if implies(left, inner):
            return right
        case Until(right=inner), _ if inner == right:
            return left
        case Truth(value=True), Until(right=inner):
            return until(left, inner)
        case Truth(value=True), Next(operand=inner):
            return next_(until(left, inner))
        case Next(operand=before), Next(operand=inner):
            return next_(until(before, inner))
        case Or(parts=parts), _ if any(implies(part, right) for part in parts):
            return until(disjoin(p for p in parts if not implies(p, right)), right)
        case _, And(parts=parts) if any(map(_is_suspendable, parts)):
            suspended = [part for part in parts if _is_suspendable(part)]
            rest = conjoin(part for part in parts if not _is_suspendable(part))
            return conjoin([*suspended, until(left, rest)])
        case _, Or(parts=parts) if any(map(is_eventual, parts)):
            eventual = [part for part in parts if is_eventual(part)]
            rest = disjoin(part for part in parts if not is_eventual(part))
            return disjoin([*eventual, until(left, rest)])
        case _:
            return Until(left, right)


@lru_cache(_CACHE_SIZE)
def is_eventual(formula: Normal) -> bool:
    """Whether, by its shape, the formula holds for a word if it holds for one of its suffixes."""
    match formula:
        case Truth():
            return True
        case Atom():
            return False
        case Next(operand=operand):
            return is_eventual(operand)
        case And(parts=parts) | Or(parts=parts):
            return all(map(is_eventual, parts))
        case Until(left=left, right=right):
            return left == TRUE or is_eventual(right)
        case Release(right=right):
            return is_eventual(right)
        case _:
            assert_never(formula)


def is_universal(formula: Normal) -> bool:
    """Whether, by its shape, the formula holds for all suffixes of a word that it holds for."""
    return is_eventual(negate(formula))


def _is_suspendable(formula: Normal) -> bool:
    return is_eventual(formula) and is_universal(formula)


@lru_cache(_CACHE_SIZE)
def implies(strong: Normal, weak: Normal) -> bool:
    """Whether, by their shapes alone, the first formula implies the second."""
    if strong in (weak, FALSE) or weak == TRUE:
        return True
    if isinstance(strong, Or):
        return all(implies(part, weak) for part in strong.parts)
    if isinstance(weak, And):
        return all(implies(strong, part) for part in weak.parts)
    return _implies_by(strong, weak) or _implied_by(strong, weak) or _same_shape(strong, weak)


def _implies_by(strong: Normal, weak: Normal) -> bool:
    match strong:
        case And(parts=parts):
            return any(implies(part, weak) for part in parts)
        case Until(left=left, right=right):
            return implies(right, weak) and (is_eventual(weak) or implies(left, weak))
        case Release(right=right):
            return implies(right, weak)
        case Next(operand=operand):
            return is_eventual(weak) and implies(operand, weak)
        case _:
            return False


def _implied_by(strong: Normal, weak: Normal) -> bool:
    match weak:
        case Or(parts=parts):
            return any(implies(strong, part) for part in parts)
        case Until(right=right):
            return implies(strong, right)
        case Release(left=left, right=right):
            return implies(strong, right) and (is_universal(strong) or implies(strong, left))
        case Next(operand=operand):
            return is_universal(strong) and implies(strong, operand)
        case _:
            return False


def _same_shape(strong: Normal, weak: Normal) -> bool:
    match strong, weak:
        case Next(operand=a), Next(operand=b):
            return implies(a, b)
        case Until(left=a, right=b), Until(left=c, right=d):
            return implies(a, c) and implies(b, d)
        case Release(left=a, right=b), Release(left=c, right=d):
            return implies(a, c) and implies(b, d)
        case _:
            return False


@lru_cache(_CACHE_SIZE)
def _rank(formula: Normal) -> tuple[Any, ...]:
    """A key that sorts formulas the same way in every process, unlike hashes."""
    match formula:
        case Truth(value=value):
            return (0, value)
        case Atom(bit=bit, positive=positive):
            return (1, bit, positive)
        case Next(operand=operand):
            return (2, _rank(operand))
        case And(parts=parts):
            return (3, tuple(map(_rank, parts)))
        case Or(parts=parts):
            return (4, tuple(map(_rank, parts)))
        case Until(left=left, right=right):
            return (5, _rank(left), _rank(right))
        case Release(left=left, right=right):
            return (6, _rank(left), _rank(right))
        case _:
            assert_never(formula)
