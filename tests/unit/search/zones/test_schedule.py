"""The earliest run that satisfies all bounds: every value derived by hand."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

from veristream.ir.clocks import Bound
from veristream.search.zones.schedule import Stay, schedule

X, Y = 1, 2


def at_least(clock: int, limit: int, strict: bool = False) -> Bound:
    return Bound(0, clock, -limit, strict)


def at_most(clock: int, limit: int, strict: bool = False) -> Bound:
    return Bound(clock, 0, limit, strict)


def stay(*leaving: Bound, coming: tuple[Bound, ...] = (), still: bool = False, **sets: int) -> Stay:
    """A state: the bounds when it is left, and the clocks that were set on entering it."""
    numbers = {"x": X, "y": Y}
    return Stay(coming, leaving, not still, tuple((numbers[name], sets[name]) for name in sets))


def delays_of(*run: Stay) -> list[object]:
    """How long the run stays in each state; asserts that there is a run."""
    found = schedule(run)
    assert found is not None
    return list(found)


def test_nothing_is_waited_for_without_a_reason() -> None:
    assert delays_of(stay(), stay(), stay()) == [0, 0, 0]
    assert delays_of() == []


def test_each_lower_bound_is_met_as_soon_as_it_can_be() -> None:
    assert delays_of(stay(at_least(X, 3)), stay(at_least(X, 5)), stay()) == [3, 2, 0]


def test_a_clock_that_was_set_starts_anew_from_its_value() -> None:
    assert delays_of(stay(at_least(X, 3)), stay(at_least(X, 5), x=1)) == [3, 4]
    assert delays_of(stay(at_least(X, 3)), stay(at_least(X, 5), x=7)) == [3, 0]


def test_an_upper_bound_moves_what_comes_before_to_a_later_moment() -> None:
    # y is set between the steps; at the end x is at least 9 but y at most 2, so y is set at 7 or later.
    run = [stay(at_least(X, 3)), stay(y=0), stay(at_least(X, 9), at_most(Y, 2))]
    assert delays_of(*run) == [7, 0, 2]


def test_two_clocks_differ_by_what_passed_between_their_settings() -> None:
    # x - y == 4 where y was set when x was 4.
    run = [stay(), stay(Bound(X, Y, 4), Bound(Y, X, -4), y=0)]
    assert delays_of(*run) == [4, 0]


def test_strictly_later_is_a_half_and_twice_so_a_quarter_each() -> None:
    assert delays_of(stay(at_least(X, 2, strict=True)), stay()) == [Fraction(5, 2), 0]
    run = [stay(at_least(X, 0, strict=True)), stay(at_least(Y, 0, strict=True), y=0)]
    assert delays_of(*run) == [Fraction(1, 4), Fraction(1, 4)]


def test_many_strict_rounds_fit_into_one_unit() -> None:
    rounds = [stay(at_least(Y, 0, strict=True), y=0) for _ in range(5)]
    assert delays_of(stay(), *rounds, stay(at_most(X, 1, strict=True))) == [0, *[Fraction(1, 8)] * 5, 0]


def test_what_is_demanded_on_coming_counts_too() -> None:
    assert delays_of(stay(), stay(coming=(at_least(X, 6),))) == [6, 0]
    assert schedule([stay(coming=(at_least(X, 1),))]) is None  # all clocks are 0 at first


def test_no_time_passes_where_it_may_not() -> None:
    assert schedule([stay(at_least(X, 1), still=True)]) is None
    assert delays_of(stay(still=True), stay(at_least(X, 1))) == [0, 1]


@pytest.mark.parametrize(
    "run",
    [
        [stay(at_least(X, 3), at_most(X, 2))],
        [stay(at_least(X, 2), at_most(X, 2, strict=True))],
        [stay(at_least(X, 2, strict=True), at_most(X, 2))],
        [stay(at_most(X, 2)), stay(at_least(X, 3), still=True)],
        [stay(), stay(Bound(X, Y, -1), y=0)],  # x - y <= -1 though y began later, at 0
        [stay(at_least(X, 5)), stay(at_most(X, 4))],
        [stay(at_least(X, 3)), stay(at_most(Y, 2))],
    ],
)
def test_contradictions_have_no_run(run: list[Stay]) -> None:
    assert schedule(run) is None


def test_the_earliest_of_all_by_trying_all() -> None:
    """Tries every choice of integer delays up to 6; the schedule is the least one that satisfies."""
    run = [
        stay(at_least(X, 1)),
        stay(at_most(X, 3), y=0),
        stay(at_least(Y, 2), at_most(X, 4), Bound(X, Y, 3)),
        stay(at_least(X, 2), at_most(Y, 5), x=1),
    ]
    found = [delays for delays in product(range(7), repeat=4) if _satisfies(delays)]
    assert found
    moments = [tuple(sum(delays[: i + 1]) for i in range(4)) for delays in found]
    earliest = [min(each) for each in zip(*moments, strict=True)]
    delays = schedule(run)
    assert delays is not None
    assert [sum(delays[: i + 1]) for i in range(4)] == earliest


def _satisfies(delays: tuple[int, ...]) -> bool:
    """The bounds of the run above, on plain numbers."""
    a, b, c, d = delays
    x_then = a + b + c
    return (
        a >= 1
        and a + b <= 3
        and b + c >= 2
        and x_then <= 4
        and x_then - (b + c) <= 3
        and 1 + d >= 2
        and b + c + d <= 5
    )


def test_a_long_run_that_is_pushed_from_its_end() -> None:
    # Each state is left within 2 units of time, the last one only once y is as large as that allows.
    rounds = [stay(at_most(X, 2), x=0) for _ in range(3000)]
    assert delays_of(*rounds, stay(at_most(X, 2), at_least(Y, 6002), x=0)) == [2] * 3001
