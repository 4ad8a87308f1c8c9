"""Runs in which a coordinator fails, or its log is slow, made to happen on three real brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.known import find_shipped
from veristream.replay.listed import Compared, find_replays, run_listed

pytestmark = pytest.mark.brokers


def run(folder: Path, name: str) -> Compared:
    (listed,) = find_replays(find_shipped(), [name])
    (compared,) = run_listed([listed], folder, lambda one: lambda step: None)
    return compared


def hows(compared: Compared) -> list[str]:
    assert compared.replayed.course is not None
    return [one.how for one in compared.replayed.course.done]


def test_a_coordinator_is_killed_between_two_markers(tmp_path: Path) -> None:
    found = run(tmp_path, "failover")
    assert found.differences == ()
    assert hows(found)[-3:] == ["await time-out", "await marker", "fail over"]
    audit = found.replayed.audit
    assert audit is not None
    (killed,) = [one for one in audit.manifest.incidents if one.kind == "kill"]
    assert killed.details["transaction that it found"] == "PrepareAbort"
    assert killed.details["another coordinator"] != killed.target
    held = {
        (one.details["rule"], one.details["released"])
        for one in audit.manifest.incidents
        if one.kind == "hold WRITE_TXN_MARKERS"
    }
    # The former coordinator's marker to partition 0 is not let go, and the next one sends both again.
    assert held >= {
        ("marker 1 to partition 1", "when told"),
        ("marker 1 to partition 0", "at the end"),
        ("marker 2 to partition 0", "at the end"),
    }
    assert all(one.last_stable == one.end for one in found.replayed.offsets)


def test_a_coordinator_is_killed_before_the_log_has_committed_an_epoch(tmp_path: Path) -> None:
    found = run(tmp_path, "init-failover-lost")
    assert found.differences == ()
    assert hows(found)[2:5] == [
        "InitProducerId 1 of Client(0) goes on",
        "move",
        "the client sees that its connection is closed",
    ]
    assert hows(found)[-1].endswith(": ok, with the epoch 0")
    audit = found.replayed.audit
    assert audit is not None
    (killed,) = [one for one in audit.manifest.incidents if one.kind == "kill"]
    assert killed.details["transaction that it found"] == ""


def test_a_client_is_refused_while_the_log_has_not_committed_the_epoch_of_another(tmp_path: Path) -> None:
    found = run(tmp_path, "init-concurrent")
    assert found.differences == ()
    assert hows(found)[2:] == [
        "InitProducerId 1 of Client(0) goes on",
        "InitProducerId 1 of Client(2): refused with CONCURRENT_TRANSACTIONS",
    ]
