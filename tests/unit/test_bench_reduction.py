"""The systems of the reduction bench are what they say, and its ratios follow from the counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import reduction
from bench.reduction import SYSTEMS, Measured, Pair, Search
from veristream.library import load
from veristream_testing.states import explore

ROOT = Path(__file__).resolve().parents[2]
MODELS = ROOT / "bench" / "models" / "reduction"


def pair(who: str, full: int, reduced: int | None = None) -> Pair:
    return Pair(who, Search(full, 9, 1.0), None if reduced is None else Search(reduced, 8, 0.5))


def test_a_ratio_compares_what_each_tool_stores() -> None:
    first = Measured("one", pair("ours", 100, 10), pair("exported", 100, 80), pair("hand", 200, 5))
    second = Measured("two", pair("ours", 100), pair("exported", 100, 50))
    assert first.ratios() == {"one_exported": 8.0, "one_by_hand": 0.5}
    assert second.ratios() == {"two_exported": 0.5}
    assert reduction.worst_of([first, second]) == {
        "one_exported": 8.0,
        "one_by_hand": 0.5,
        "two_exported": 0.5,
        "over_spin_exported": 0.5,
        "over_spin_by_hand": 0.5,
    }


def test_a_tool_without_reduction_says_so() -> None:
    assert pair("ours", 1200).row()[:4] == ["ours", "1,200", "not built", "1.00"]
    assert pair("ours", 1200, 300).row()[:4] == ["ours", "1,200", "300", "4.00"]


def test_constants_precede_a_model_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "model.pml"
    path.write_text("active proctype p() { skip }\n", encoding="utf-8")
    text = reduction.written_by_hand(path, {"N": 3, "K": 1})
    assert text == "#define N 3\n#define K 1\nactive proctype p() { skip }\n"


def test_every_constant_is_one_of_both_models() -> None:
    for system in SYSTEMS:
        for constants in filter(None, (system.full, system.quick)):
            load(ROOT / system.model, constants)  # raises ModelError for a name that it does not have
            if system.by_hand is not None:
                text = (ROOT / system.by_hand).read_text(encoding="utf-8")
                assert [name for name in constants if f"#ifndef {name}\n" not in text] == []


@pytest.mark.parametrize(
    ("name", "constants", "states", "transitions"),
    [
        ("philosophers", {"N": 3}, 96, 232),
        ("leader", {"N": 4}, 360, 912),
        ("token_ring", {"N": 3}, 89, 201),
        ("kafka", {"PARTITIONS": 1, "RECORDS": 2}, 966, 2573),
    ],
)
def test_our_systems_have_these_states_and_no_wrong_end(
    name: str, constants: dict[str, int], states: int, transitions: int
) -> None:
    found = explore(load(MODELS / f"{name}.net", constants), 10_000)
    assert (len(found.states), found.transitions) == (states, transitions)
    assert (found.deadlocks, found.failures) == (set(), [])
