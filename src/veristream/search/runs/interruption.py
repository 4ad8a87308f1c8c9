"""Which formulas do not notice invisible steps: *interruptible* ones.

An invisible step changes no state proposition and satisfies no action proposition. Its letter is *idle*: it
has no action proposition, and the next letter has the same state propositions. A formula is interruptible
if inserting or removing idle letters never changes its value (Siegel and Yan, "Action-based model checking:
logic, automata, and reduction", CAV 2020). Without action propositions, that is invariance under
stuttering, and every formula without next has it. With them it is not: `a`, `p U a` and `[] a` notice
a step before `a`. The test here is sufficient, not necessary.

Let f' be f with its action propositions false: what f is at an idle letter in front of a letter. A formula
*rises* if f' implies f, and *falls* if f implies f'. Then `f U g` is interruptible in two cases, as long as
f and g are Boolean combinations of action propositions and interruptible formulas:

- g is interruptible and f falls. An idle letter in front of one where g holds satisfies g as well, and in
  front of one where f holds satisfies f.
- f' is true and g rises. An idle letter satisfies f, and if it satisfies g, then so does the letter that
  follows.

Release is the dual of until.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from veristream.ir.property import Formula
from veristream.search.runs.formula import (
    ACTION_SHIFT,
    And,
    Atom,
    Next,
    Normal,
    Or,
    Release,
    Truth,
    Until,
    normalise,
    number,
)


def is_interruptible(formula: Formula) -> bool:
    """Whether the formula certainly does not notice invisible steps."""
    sense = _sense(normalise(formula, number(formula)))
    return sense is not None and sense.interruptible


@dataclass(frozen=True, slots=True)
class _Sense:
    """How a formula depends on idle letters; `idle` is its value there, if that is the same for all."""

    idle: bool | None
    rises: bool
    falls: bool
    interruptible: bool

    def negated(self) -> _Sense:
        idle = None if self.idle is None else not self.idle
        return _Sense(idle, self.falls, self.rises, self.interruptible)


_INTERRUPTIBLE = _Sense(None, True, True, True)


def _sense(formula: Normal) -> _Sense | None:
    """None if nothing is known of the formula, and then of none that contains it."""
    match formula:
        case Truth(value=value):
            return _Sense(value, True, True, True)
        case Atom(bit=bit, positive=positive):
            if bit < ACTION_SHIFT:
                return _INTERRUPTIBLE
            occurs = _Sense(False, True, False, False)
            return occurs if positive else occurs.negated()
        case Next():
            return None
        case And(parts=parts):
            return _all([_sense(part) for part in parts])
        case Or(parts=parts):
            opposite = _all([_negated(_sense(part)) for part in parts])
            return _negated(opposite)
        case Until(left=left, right=right):
            return _until(_sense(left), _sense(right))
        case Release(left=left, right=right):
            return _until(_negated(_sense(left)), _negated(_sense(right)))
        case _:
            assert_never(formula)


def _negated(sense: _Sense | None) -> _Sense | None:
    return None if sense is None else sense.negated()


def _all(parts: Sequence[_Sense | None]) -> _Sense | None:
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    idle = False if any(part.idle is False for part in known) else None
    if all(part.idle is True for part in known):
        idle = True
    rises = idle is False or all(part.rises for part in known)
    falls = idle is True or all(part.falls for part in known)
    return _Sense(idle, rises, falls, all(part.interruptible for part in known))


def _until(left: _Sense | None, right: _Sense | None) -> _Sense | None:
    if left is None or right is None:
        return None
    if (right.interruptible and left.falls) or (left.idle is True and right.rises):
        return _INTERRUPTIBLE
    return None
