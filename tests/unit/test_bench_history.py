"""What the bench of histories compares is the same work: everybody finds exactly what is planted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.recording.histories import read_back

ROOT = Path(__file__).resolve().parents[2]
EVENTS, EACH = 30_000, 5


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        import _history
    finally:
        sys.path.pop(0)
    return _history


@pytest.fixture(scope="module")
def history(bench: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "h"
    bench.write(folder, bench.make_plan(EVENTS, EACH))
    return folder


def planted(bench: ModuleType) -> list[list[object]]:
    return sorted(
        [
            each.kind,
            each.stream,
            each.partition,
            each.offset,
            each.producer,
            each.number,
            each.process,
            each.index,
        ]
        for each in bench.anomalies(bench.make_plan(EVENTS, EACH))
        if each.kind != "skipped poll"
    )


def test_the_history_is_whole(bench: ModuleType, history: Path) -> None:
    """Every index of every process is there, and no clock goes back."""
    plan = bench.make_plan(EVENTS, EACH)
    manifest, events = read_back(history)
    assert len(events) == plan.events
    assert manifest.complete
    counts = Counter(each.kind for each in bench.anomalies(plan))
    assert counts == {
        "lost write": 10,
        "skipped poll": 10,
        "duplicate": 5,
        "inconsistent offset": 5,
        "nonmonotonic poll": 5,
        "unexpected": 5,
    }


@pytest.mark.long
def test_the_plain_checker_finds_what_is_planted(bench: ModuleType, history: Path) -> None:
    oracle = pytest.importorskip("veristream.history.oracle.judge", reason="the plain checker is not there")
    plan = bench.make_plan(EVENTS, EACH)
    expected = bench.anomalies(plan)
    judgements = oracle.judge(*read_back(history))
    counts = {kind: count for each in judgements for kind, count in each.counts.items()}
    assert counts == Counter(each.kind for each in expected)
    assert {one.anomaly for each in judgements for one in each.witnesses} <= set(expected)


@pytest.mark.parametrize("way", ["at once", "by bucket"])
@pytest.mark.parametrize("tool", ["polars", "duckdb"])
def test_a_peer_finds_what_is_planted(bench: ModuleType, history: Path, tool: str, way: str) -> None:
    pytest.importorskip(tool)
    asked = json.dumps({"tool": f"{tool} {way}", "history": str(history), "runs": 1})
    command = [sys.executable, str(ROOT / "bench" / "_history_peers.py"), asked]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found["found"] == planted(bench)
    assert len(found["seconds"]) == 1


def test_a_plan_without_anomalies_has_none(bench: ModuleType) -> None:
    plan = bench.make_plan(EVENTS, 0)
    assert bench.anomalies(plan) == []
    assert plan.events == 3 * 64 * (EVENTS // 192) + 128
