"""A search that uses up the driver's memory continues on workers, with the same results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.shared import check_shared, opening_with_threads
from tests.parity.test_shared import MODELS, told
from veristream.library import load
from veristream.search.engine import check
from veristream.search.limits import Limits, Progress
from veristream.search.reach.safety import check_safety
from veristream.search.shared import handover
from veristream.search.shared.exploration import spread_of_parts
from veristream.verdict import Spread, Unknown

NEVER = 1 << 60
MEMORY_MIB = 2


@pytest.mark.parametrize(("wide", "workers"), [(1, 1), (1 << 10, 1), (NEVER, 1), (1 << 10, 2)])
def test_memory_is_exhausted_within_a_level(
    wide: int, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "WIDE", wide)
    network = load(MODELS / "philosophers/philosophers.net", {"N": 11, "ORDERED": 1})
    wanted = [one for one in network.properties if one.name in ("no_deadlock", "two_can_eat")]
    limits = {"memory_max_mib": MEMORY_MIB, "start_states": NEVER, "workers": workers}
    shared = opening_with_threads(network, 3, **limits)
    found = check_shared(network, wanted, shared)
    expected = check(network, wanted, Limits())
    assert told(found) == told(expected)
    assert (found[0].effort.states, found[0].effort.depth) == (3**11, expected[0].effort.depth)
    # A search that is never handed over stores keys instead of rows, and needs less.
    here = check(network, wanted[:1], Limits(memory_max_mib=MEMORY_MIB // 2))
    assert isinstance(here[0].verdict, Unknown)


def test_how_a_search_is_spread() -> None:
    found = spread_of_parts([30, 10, 20], [(1, 10), (2, 20), (3, 30)])
    assert found == Spread(parts=3, skew=1.5, exchanged_bytes=6, spilled_bytes=60)
    assert spread_of_parts([0, 0], [(0, 0), (0, 0)]).skew == 0


def test_a_shared_search_reports_its_spread(tmp_path: Path) -> None:
    network = load(MODELS / "philosophers/philosophers.net", {"N": 8, "ORDERED": 1})
    wanted = [one for one in network.properties if one.name == "no_deadlock"]
    told: list[Progress] = []
    shared = opening_with_threads(network, 3, spill=str(tmp_path))
    (result,) = check_safety(network, wanted, Limits(), told.append, shared).values()
    spread = result.effort.spread
    assert spread is not None
    row_bytes, index_bytes, owner_bytes = 8, 4, 2
    assert spread.spilled_bytes == 3**8 * (row_bytes + index_bytes + owner_bytes)
    assert (spread.parts, 1 < spread.skew < 1.2) == (3, True)
    # With three parts, another part finds about two thirds of the states first, each a record of 16 bytes.
    assert spread.exchanged_bytes > 16 * 3**8 / 2
    assert [one.spread for one in told][-1] == spread
    assert check(network, wanted, Limits())[0].effort.spread is None
