"""The second run of tests that failed: what repeats fails, what does not is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

AGAIN = Path(__file__).resolve().parents[2] / "tools" / "again.py"
TESTS = """
import pytest

@pytest.mark.parametrize("name", ["a@b", "c"])
def test_passes(name):
    assert name in ("a@b", "c")

def test_fails():
    assert False, "it repeats"
"""


def again(folder: Path, failed: list[str]) -> subprocess.CompletedProcess[str]:
    cache = folder / ".pytest_cache" / "v" / "cache"
    cache.mkdir(parents=True)
    (cache / "lastfailed").write_text(json.dumps(dict.fromkeys(failed, True)))
    (folder / "test_x.py").write_text(TESTS)
    return subprocess.run(
        [sys.executable, str(AGAIN)], cwd=folder, capture_output=True, text=True, check=False
    )


def test_a_failure_that_does_not_repeat_is_told(tmp_path: Path) -> None:
    done = again(tmp_path, ["test_x.py::test_passes[a@b]@group", "test_x.py::test_passes[c]"])
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
    told = done.stdout.partition("FAILED ONCE, passed alone; look into it:\n")[2]
    assert told.split() == ["test_x.py::test_passes[a@b]", "test_x.py::test_passes[c]"]


def test_a_failure_that_repeats_fails(tmp_path: Path) -> None:
    done = again(tmp_path, ["test_x.py::test_passes[c]", "test_x.py::test_fails@group"])
    assert done.returncode == 1
    assert "it repeats" in done.stdout
    assert "FAILED ONCE" not in done.stdout


@pytest.mark.parametrize(
    ("failed", "told"),
    [
        ([], "0 tests failed"),
        ([f"test_x.py::test_{number}" for number in range(6)], "6 tests failed"),
        (["test_x.py"], "test_x.py was not run"),
    ],
)
def test_no_second_run(tmp_path: Path, failed: list[str], told: str) -> None:
    done = again(tmp_path, failed)
    assert done.returncode == 1
    assert done.stdout.startswith(told)
