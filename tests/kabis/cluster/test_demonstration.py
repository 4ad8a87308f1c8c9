"""The demonstration: two parties lie, nothing is lost, both are named; and what it would notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.demonstration import Place, demonstrate, find_problems
from veristream.kabis.cluster.folder import ClusterFolder

EVENTS = 400
GOOD: list[tuple[Place, bytes]] = [((0, 0), b"a"), ((1, 0), b"b"), ((0, 1), b"c"), ((1, 1), b"d")]


@pytest.mark.long
def test_two_liars_change_nothing_and_are_named(tmp_path: Path) -> None:
    with Cluster(ClusterFolder(tmp_path / "cluster")) as cluster:
        shown = demonstrate(cluster, EVENTS)
        assert len(cluster.find()) == shown.parties == 7
    assert (shown.acknowledged, shown.delivered, shown.problems) == (EVENTS, EVENTS, ())
    assert [told.split()[0] for told in shown.caught] == ["validator-2"]
    # On a busy machine a correct party may be late, which is a note against it too.
    assert "storage-1" in [told.split(":")[0] for told in shown.suspected]
    assert shown.receipt.event.value == f"order {EVENTS // 2:06}".encode()
    # A validator that heard the votes before the proposal has all four in its certificate.
    assert len(shown.receipt.validators) in (3, 4)


def test_what_is_as_it_was_pushed_is_no_problem() -> None:
    assert find_problems(dict(GOOD), GOOD) == []


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (GOOD[:-1], "what was delivered is not what was acknowledged"),
        ([*GOOD[:-1], ((1, 1), b"x")], "what was delivered is not what was acknowledged"),
        ([*GOOD, GOOD[3]], "an event was delivered twice"),
        ([GOOD[2], *GOOD[:2], GOOD[3]], "partition 0 was delivered out of order"),
        ([((0, 0), b"c"), ((0, 1), b"a"), GOOD[1], GOOD[3]], "partition 0 was delivered out of order"),
    ],
)
def test_each_problem_is_told(read: list[tuple[Place, bytes]], problem: str) -> None:
    assert problem in find_problems(dict(GOOD), read)
