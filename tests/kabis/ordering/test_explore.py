"""All runs of a small instance: no two values can be decided, and with a bug planted they can.

With `VERISTREAM_SEEDS` above 200 the large instances run too.
"""

from __future__ import annotations

import os

import pytest

from tests.kabis.ordering.explore import Explorer
from veristream.kabis.ordering.tendermint import Tendermint

LARGE = pytest.mark.skipif(
    int(os.environ.get("VERISTREAM_SEEDS", "200")) <= 200, reason="large: set VERISTREAM_SEEDS=2000"
)


@pytest.mark.parametrize(
    ("byzantine", "rounds", "states", "decided"),
    [
        pytest.param(0, 2, 3_234, "v0 v1", id="it never proposes"),
        pytest.param(1, 2, 6_900, "v1 x0 y0", id="it proposes first"),
        pytest.param(2, 2, 17_298, "v0 x1 y1", id="it proposes second", marks=LARGE),
        pytest.param(0, 3, 31_980, "v0 v1 v2", id="it never proposes in three rounds", marks=LARGE),
        pytest.param(1, 3, 61_416, "v1 v2 x0 y0", id="it proposes first of three rounds", marks=LARGE),
        pytest.param(2, 3, 65_702, "v0 v2 x1 y1", id="it proposes second of three rounds", marks=LARGE),
        pytest.param(3, 3, 167_344, "v0 v1 x2 y2", id="it proposes third of three rounds", marks=LARGE),
    ],
)
def test_no_two_values_can_be_decided(byzantine: int, rounds: int, states: int, decided: str) -> None:
    explorer = Explorer(byzantine, rounds)
    assert explorer.find_disagreement() is None
    assert explorer.states == states
    assert sorted(explorer.values[value].content.decode() for value in explorer.decided) == decided.split()


def test_without_the_lock_rule_two_values_can_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tendermint, "_may_prevote_fresh", lambda machine, value: True)
    assert Explorer(0, 2).find_disagreement() == (
        "3 hears proposal 0 v0, valid round -1",
        "1 hears prevotes 0 of (0, 1, 3) for v0",
        "3 hears prevotes 0 of (0, 1, 3) for v0",
        "1 hears proposal 1 v1, valid round -1",
        "1 hears prevotes 1 of (0, 1, 2) for v1",
        "2 hears prevotes 1 of (0, 1, 2) for v1",
    )


def test_without_the_check_of_the_valid_round_two_values_can_be_decided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Tendermint, "_may_prevote_proved", lambda machine, value, valid_round: True)
    assert Explorer(0, 3).find_disagreement() == (
        "3 hears proposal 0 v0, valid round -1",
        "3 hears prevotes 0 of (0, 1, 3) for v0",
        "3 hears proposal 1 v1, valid round -1",
        "1 hears prevotes 1 of (0, 2, 3) for v1",
        "2 hears prevotes 1 of (0, 2, 3) for v1",
        "1 hears proposal 2 v0, valid round 0",
        "1 hears prevotes 2 of (0, 1, 3) for v0",
        "2 hears prevotes 2 of (0, 1, 3) for v0",
    )
    assert Explorer(0, 2).find_disagreement() is None


def test_when_the_lock_is_not_taken_two_values_can_be_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    lock_on = Tendermint._lock_on

    def lock_on_nothing(machine: Tendermint, value: object, proof: object) -> None:
        lock_on(machine, value, proof)
        machine.memory.locks.pop(machine.height)

    monkeypatch.setattr(Tendermint, "_lock_on", lock_on_nothing)
    way = Explorer(0, 2).find_disagreement()
    assert way is not None and len(way) == 6
