"""Known answers: the table `pairs.toml`, the search and the oracle agree on every pair."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.ltl.oracle import breaks, oracle_verdict
from tests.ltl.pairs import PAIRS, Pair, read_pair
from veristream.ir.property import DivergenceFree, Fairness, LeadsTo
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.verdict import Violated, word

every_pair = pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)


@every_pair
def test_search_knows_the_answer(pair: Pair) -> None:
    network, property_ = read_pair(pair)
    (result,) = check(network, [property_], Limits())
    assert word(result.verdict) == ("holds" if pair.holds else "violated"), pair.why
    if isinstance(result.verdict, Violated):
        trace = result.verdict.trace
        assert trace is not None
        assert trace.loop is not None
        assert breaks(network, property_, trace)


@every_pair
def test_oracle_knows_the_answer(pair: Pair) -> None:
    network, property_ = read_pair(pair)
    assert oracle_verdict(network, property_) == pair.holds, pair.why


def test_table_has_every_kind_of_pair() -> None:
    assert len({pair.name for pair in PAIRS}) == len(PAIRS) >= 60
    read = [read_pair(pair) for pair in PAIRS]
    by_fairness = Counter((prop.fairness, pair.holds) for (_, prop), pair in zip(read, PAIRS, strict=True))
    for fairness in Fairness:
        assert by_fairness[fairness, True]
        assert by_fairness[fairness, False]
    for kind in (LeadsTo, DivergenceFree):
        assert any(isinstance(prop.claim, kind) for _, prop in read)
    claims = " ".join(pair.claim for pair in PAIRS)
    for sign in ("[]", "<>", "X ", " U ", " R ", " V ", "->", "<->", "&&", "||", "! ", "tau", "(_)"):
        assert sign in claims


def test_lasso_that_keeps_the_property_or_is_unfair_is_refused() -> None:
    """A replay that accepted any lasso would make the tests above say nothing."""
    unfair = next(pair for pair in PAIRS if pair.name == "flicker_none")
    fair = next(pair for pair in PAIRS if pair.name == "flicker_strong_action")
    kept = next(pair for pair in PAIRS if pair.name == "flicker_both_ways")
    network, property_ = read_pair(unfair)
    (result,) = check(network, [property_], Limits())
    assert isinstance(result.verdict, Violated)
    assert result.verdict.trace is not None
    assert breaks(network, property_, result.verdict.trace)
    for other in (fair, kept):
        assert not breaks(*read_pair(other), result.verdict.trace)
