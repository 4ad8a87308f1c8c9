"""Tests of one group run in one process: they share a broker, or what takes long to compile."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("of_one")
def test_the_scheduler_knows_groups(request: pytest.FixtureRequest) -> None:
    by_groups = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@of_one") == by_groups
