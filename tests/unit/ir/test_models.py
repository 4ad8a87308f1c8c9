"""The small models that all engines are tested with: their state counts and verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import Always, Reachable
from veristream.ir.text.read import read_network
from veristream.source import read_source
from veristream_testing.states import explore

MODELS = Path(__file__).parents[2] / "models"
STATES_AND_STEPS = {
    "alternating_bit": (120, 301),
    "bakery": (48, 72),
    "barrier_phases": (32, 51),
    "bounded_buffer": (105, 294),
    "counter_race": (602, 1217),
    "grid": (2406, 4152),
    "leader_election": (140, 211),
    "log_overflow": (1541, 3894),
    "peterson": (20, 34),
    "philosophers": (34, 88),
    "publish_subscribe": (366, 632),
    "read_write_lock": (39, 150),
    "river": (97, 177),
    "rooms": (108, 405),
    "router": (845, 1544),
    "tic_tac_toe": (5478, 16167),
    "token_ring": (1648, 4128),
    "two_phase_commit": (53, 92),
    "worker_pool": (57, 90),
}
VIOLATED = {
    "bakery": {"first_come"},
    "bounded_buffer": {"gap"},
    "counter_race": {"exact"},
    "grid": {"in_order"},
    "leader_election": {"elects_other"},
    "log_overflow": {"waits"},
    "peterson": {"both_enter"},
    "philosophers": {"three_eat"},
    "publish_subscribe": {"nothing_missed"},
    "river": {"alone"},
    "rooms": {"alone"},
    "router": {"only_first_body"},
    "tic_tac_toe": {"cross_cannot_win_at_four"},
}
"""The `always` and `reachable` properties that do not hold."""


def test_every_model_is_listed() -> None:
    assert sorted(path.stem for path in MODELS.glob("*.net")) == sorted(STATES_AND_STEPS)


@pytest.mark.parametrize("name", STATES_AND_STEPS)
def test_models_behave_as_known(name: str) -> None:
    network = read_network(read_source(MODELS / f"{name}.net"))
    found = explore(network, 20_000)
    assert found.complete
    assert (len(found.states), found.transitions) == STATES_AND_STEPS[name]
    interpreter = Interpreter(network)
    violated = set()
    for part in network.properties:
        match part.claim:
            case Always(condition=test) if not all(interpreter.holds(test, s) for s in found.states):
                violated.add(part.name)
            case Reachable(condition=test) if not any(interpreter.holds(test, s) for s in found.states):
                violated.add(part.name)
            case _:
                pass
    assert violated == VIOLATED.get(name, set())


def test_a_broken_model_is_caught() -> None:
    network = read_network(read_source(MODELS / "bounded_buffer.net"), {"BROKEN": 1})
    assert {failure.fault.message for _, failure in explore(network, 1000).failures} == {
        "-1 is outside the range 0..3 of count"
    }
