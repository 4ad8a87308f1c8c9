"""If one part has no more room, all parts stop, and the message says how much was explored."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.parity.shared import check_shared, opening_with_threads
from tests.parity.test_shared import MODELS, safety_of
from veristream.errors import EnvironmentFailure
from veristream.library import load
from veristream.search import memory
from veristream.search.limits import Limits, Progress
from veristream.search.reach.safety import check_safety
from veristream.search.shared import state_part as part
from veristream.verdict import word

FULL_DEPTH = 12  # the disk is full from this level on


def test_a_full_disk_is_reported_with_what_was_explored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Progress] = []

    def claim(handle: int, begin: int, size: int) -> None:
        if seen and seen[-1].depth >= FULL_DEPTH:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(memory, "STEP", 1 << 14)
    monkeypatch.setattr(part, "CLAIMED_STATES", 64)
    monkeypatch.setattr(os, "posix_fallocate", claim)
    network = load(MODELS / "philosophers/philosophers.net", {"N": 11, "ORDERED": 1})
    wanted = [one for one in safety_of(network) if one.name == "no_deadlock"]
    opening = opening_with_threads(network, 2, spill=str(tmp_path))
    with pytest.raises(EnvironmentFailure) as failure:
        check_safety(network, wanted, Limits(), seen.append, opening)
    last = seen[-1]
    assert last.states > 1000
    assert failure.value.message == (
        "a worker's disk is full ([Errno 28] No space left on device); explored so far:"
        f" {last.states:,} states, {last.transitions:,} transitions, {last.depth} levels"
    )


@pytest.mark.parametrize("part_count", [2, 3])
def test_exhausted_memory_gives_unknown(part_count: int) -> None:
    network = load(MODELS / "philosophers/philosophers.net", {"N": 13, "ORDERED": 1})
    wanted = [one for one in safety_of(network) if one.name == "no_deadlock"]
    few = opening_with_threads(network, part_count, memory_max_mib=4)
    (found,) = check_shared(network, wanted, few)
    assert word(found.verdict) == "unknown"
    assert "memory budget" in found.verdict.reason
    assert 1000 < found.effort.states < 3**13
