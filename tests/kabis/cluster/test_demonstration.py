"""The demonstration: two parties lie, nothing is lost, both are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.demonstration import demonstrate
from veristream.kabis.cluster.folder import ClusterFolder

EVENTS = 400


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
