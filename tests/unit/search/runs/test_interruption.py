"""Formulas that are called interruptible do not notice idle letters, on random words."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.strategies_ltl import PROPOSITIONS, Letter, formulas, read_formula, words
from veristream.ir.property import Formula, Holds, Occurs, Silent
from veristream.search.runs.interruption import is_interruptible
from veristream.search.runs.lasso import satisfies

INTERRUPTIBLE = [
    "[] <> p",
    "p U q",
    "[] (a -> <> q)",
    "[] (a -> <> a)",
    "<> (a && p)",
    "!a U (p && a)",
    "[] (p && !a)",
    "[] (a -> [] p)",
    "(p && !a) U q",
    "[] <> a -> [] <> p",
]
NOTICING = ["a", "X p", "[] a", "p U a", "<> !a", "[] <> !tau", "a U q", "[] (a -> X p)", "<> (p && !a)"]


@pytest.mark.parametrize("text", INTERRUPTIBLE)
def test_interruptible(text: str) -> None:
    assert is_interruptible(read_formula(text))


@pytest.mark.parametrize("text", NOTICING)
def test_formulas_that_may_notice_an_invisible_step(text: str) -> None:
    assert not is_interruptible(read_formula(text))


def test_next_that_changes_nothing_is_no_obstacle() -> None:
    assert is_interruptible(read_formula("[] <> X p"))


@settings(max_examples=1500, deadline=None)
@given(formulas(3, "p q a"), words(), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_idle_letters_change_nothing(
    formula: Formula, word: tuple[Sequence[Letter], Sequence[Letter]], counts: list[int]
) -> None:
    assume(is_interruptible(formula))
    beginning, cycle = word
    longer = [_interrupted(part, counts) for part in (beginning, cycle)]
    assert _satisfies(formula, beginning, cycle) == _satisfies(formula, *longer)


def _interrupted(part: Sequence[Letter], counts: Sequence[int]) -> list[Letter]:
    """The letters, with as many idle ones before each as the numbers say."""
    actions = {PROPOSITIONS["a"], PROPOSITIONS["tau"]}
    found: list[Letter] = []
    for count, letter in zip(counts, part, strict=False):
        found += [letter - actions] * count + [letter]
    return found


def _satisfies(formula: Formula, beginning: Sequence[Letter], cycle: Sequence[Letter]) -> bool:
    letters = [_propositions(letter) for letter in (*beginning, *cycle)]
    return satisfies(formula, letters, len(beginning))


def _propositions(letter: Letter) -> frozenset[Holds | Occurs | Silent]:
    return frozenset(one for one in letter if isinstance(one, Holds | Occurs | Silent))
