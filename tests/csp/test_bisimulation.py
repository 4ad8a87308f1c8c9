"""Bisimilarity by hand: it ignores how often a state is written, and sees when a choice is made."""

from __future__ import annotations

from tests.csp.bisimulation import bisimilar


def test_a_cycle_is_bisimilar_to_its_unrolling() -> None:
    assert bisimilar([[("a", 0)]], [[("a", 1)], [("a", 0)]])


def test_an_early_choice_is_not_a_late_one() -> None:
    # a.b + a.c has the traces of a.(b + c) and deadlocks as it does, but chooses earlier.
    early = [[("a", 1), ("a", 2)], [("b", 3)], [("c", 3)], []]
    late = [[("a", 1)], [("b", 2), ("c", 2)], []]
    assert not bisimilar(early, late)
    assert bisimilar(early, early) and bisimilar(late, late)


def test_two_ends_are_bisimilar_to_one() -> None:
    assert bisimilar([[("a", 1), ("b", 2)], [], []], [[("a", 1), ("b", 1)], []])
    assert not bisimilar([[("a", 1)], []], [[("b", 1)], []])
