"""SPIN gives the known answer of every pair of `tests/ltl` that its formulas can say.

Its formulas speak of states only, have no X unless it was built for it, and know neither our fairness
nor the marks of edges.
"""

from __future__ import annotations

import pytest

from tests.ltl.pairs import PAIRS, Pair, read_pair
from veristream.export.promela import to_promela
from veristream.ir.network import FairnessMark
from veristream.ir.property import (
    Fairness,
    Formula,
    Holds,
    LeadsTo,
    Temporal,
    TemporalBinary,
    TemporalUnary,
)
from veristream_testing.peers import run_spin

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("spin")]

SECONDS_MAX = 120.0


def is_for_spin(pair: Pair) -> bool:
    """Whether SPIN can be asked for the pair."""
    network, property_ = read_pair(pair)
    marked = any(
        edge.fairness is not FairnessMark.NONE
        for component in network.components
        for edge in component.edges
    )
    if marked or property_.fairness is not Fairness.NONE:
        return False
    match property_.claim:
        case LeadsTo():
            return True
        case Temporal(formula=formula):
            return _is_of_states(formula)
        case _:
            return False


def _is_of_states(formula: Formula) -> bool:
    match formula:
        case Holds():
            return True
        case TemporalUnary(op=op, operand=operand):
            return op != "X" and _is_of_states(operand)
        case TemporalBinary(left=left, right=right):
            return _is_of_states(left) and _is_of_states(right)
        case _:
            return False


FOR_SPIN = [pair for pair in PAIRS if is_for_spin(pair)]


def test_spin_is_asked_for_many() -> None:
    assert len(FOR_SPIN) >= 30
    assert {pair.holds for pair in FOR_SPIN} == {True, False}


@pytest.mark.parametrize("pair", FOR_SPIN, ids=lambda pair: pair.name)
def test_spin_knows_the_answer(pair: Pair) -> None:
    network, property_ = read_pair(pair)
    run = run_spin(to_promela(network, property_), ltl=True, timeout_s=SECONDS_MAX)
    assert run.verdict == ("complete" if pair.holds else "violated"), run.output
