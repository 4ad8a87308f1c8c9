"""SPIN searches the Promela that is written by hand for the benches in full, and finds nothing wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream_testing.peers import run_spin

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("spin")]

MODELS = Path(__file__).resolve().parents[2] / "bench" / "models"
FLAGS = ("-O0", "-DNOREDUCE")


@pytest.mark.parametrize(
    ("model", "constants", "states"),
    [
        ("reduction/philosophers", {"N": 3}, 96),  # as many as in our model
        ("reduction/leader", {"N": 4}, 2172),
        ("reduction/token_ring", {"N": 8}, 38_214),
        ("reduction/kafka", {"RECORDS": 1}, 89_373),
        ("first/peterson", {}, 38),
        ("first/alternating_bit", {"CAPACITY": 2}, 1587),
    ],
)
def test_spin_finds_nothing_wrong(model: str, constants: dict[str, int], states: int) -> None:
    defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    text = defines + (MODELS / f"{model}.pml").read_text(encoding="utf-8")
    run = run_spin(text, deadlocks=True, timeout_s=300, cflags=FLAGS)
    assert (run.verdict, run.distinct_states) == ("complete", states), run.output


def test_a_wrong_end_of_a_model_by_hand_is_found() -> None:
    # All take the left fork first.
    text = (MODELS / "reduction/philosophers.pml").read_text(encoding="utf-8")
    wrong = text.replace("_pid == N - 1 -> 0 : _pid", "_pid").replace(
        "_pid == N - 1 -> _pid : _pid + 1", "(_pid + 1) % N"
    )
    assert run_spin(wrong, deadlocks=True, timeout_s=300, cflags=FLAGS).verdict == "deadlock"
