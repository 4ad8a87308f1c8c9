"""What a validator learns of its machine."""

from __future__ import annotations

from veristream.kabis.ordering.pace import FACTOR_MAX, TRANSACTIONS_MAX, TRANSACTIONS_MIN, Pace
from veristream.kabis.ordering.tendermint import Durations


def test_late_proposals_make_it_wait_longer_up_to_a_limit() -> None:
    pace = Pace(Durations(100, 50, 20, 10))
    assert pace.durations == Durations(100, 50, 20, 10)
    pace.gave_up_too_early()
    assert pace.durations == Durations(150, 75, 30, 15)
    for _ in range(20):
        pace.gave_up_too_early()
    assert pace.durations.propose_ms == 100 * FACTOR_MAX


def test_rounds_that_go_well_take_it_back_and_no_further() -> None:
    pace = Pace(Durations(100, 50, 20, 10), factor=FACTOR_MAX)
    pace.decided(1, 10, 0)
    assert pace.factor == FACTOR_MAX
    for _ in range(50):
        pace.decided(0, 10, 0)
    assert pace.durations == Durations(100, 50, 20, 10)


def test_one_proposer_in_four_that_is_always_late_does_not_slow_it_down_for_good() -> None:
    pace = Pace()
    for _ in range(100):
        pace.gave_up_too_early()
        for _ in range(3):
            pace.decided(0, 10, 0)
    assert pace.factor == 1.0


def test_blocks_shrink_when_they_take_long_and_grow_when_they_are_quick_and_full() -> None:
    pace = Pace(transactions=100)
    pace.decided(0, 300, 10)
    assert pace.transactions == 100  # it was not the transactions that took long
    pace.decided(0, 300, 100)
    assert pace.transactions == 50
    pace.decided(0, 50, 49)
    assert pace.transactions == 50
    pace.decided(0, 50, 50)
    assert pace.transactions == 75
    for _ in range(20):
        pace.decided(0, 1000, TRANSACTIONS_MAX)
    assert pace.transactions == TRANSACTIONS_MIN
    for _ in range(20):
        pace.decided(0, 1, TRANSACTIONS_MAX)
    assert pace.transactions == TRANSACTIONS_MAX
