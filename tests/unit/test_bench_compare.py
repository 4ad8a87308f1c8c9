"""What `make compare` reports follows from the runs of two commits, and a wrong commit is named at once."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import compare
from bench.compare import CASES, Case, Comparison, Sample, UnableError

import _commits  # isort: skip  # found in the folder that bench.compare adds to the path

ROOT = Path(__file__).resolve().parents[2]


def runs(*seconds: float, states: int = 7) -> list[Sample]:
    return [Sample(states, one, one + 1) for one in seconds]


def code(place: Path, label: str = "abc") -> _commits.Code:
    (place / "caches").mkdir(exist_ok=True)
    return _commits.Code(label, place, place / "caches")


def test_the_ratio_is_that_of_medians_and_the_spread_that_of_pairs() -> None:
    found = Comparison("one", runs(3, 9, 2, 4, 5), runs(2, 1, 2, 8, 2))
    assert found.ratio == 4 / 2
    assert found.spread == (4 / 8, 9 / 1)
    assert found.row() == ["one", "7", "4.000", "2.000", "2.00", "0.50..9.00"]
    assert compare.ratios_of([found]) == {"one": 2.0, "one_min": 0.5, "one_max": 9.0, "worst": 2.0}


def test_the_worst_ratio_is_that_of_the_slowest_case() -> None:
    slow, fast = Comparison("slow", runs(1, 1), runs(2, 2)), Comparison("fast", runs(3, 3), runs(1, 1))
    assert compare.ratios_of([fast, slow])["worst"] == 0.5
    assert compare.ratios_of([]) == {}


def test_pairs_must_be_complete() -> None:
    with pytest.raises(ValueError, match="zip"):
        compare.spread_of_pairs([1, 2], [1])


def test_different_counts_are_shown() -> None:
    found = Comparison("one", runs(1, 1, states=1234), runs(1, 1, states=9))
    assert not found.same_states
    assert found.row()[1] == "9 (base: 1,234)"


def test_the_last_line_of_a_run_is_read() -> None:
    sample = compare.read_sample('a warning\n{"states": 12.0, "search_seconds": 0.25}\n', 1.5)
    assert sample == Sample(12, 0.25, 1.5)


def test_an_exploration_runs_the_script_of_its_commit_and_a_check_ours(tmp_path: Path) -> None:
    explored = Case("a", "m.net", {"N": 3}, {"N": 2, "K": 1}, workers=2)
    assert explored.words(code(tmp_path), False) == [
        *(str(tmp_path / "bench" / "_explore.py"), str(ROOT / "m.net")),
        *("2", "N=3"),
    ]
    checked = Case("b", "m.net", {"N": 3}, {"N": 2, "K": 1}, property="p")
    assert checked.words(code(tmp_path), True) == [
        *(str(ROOT / "bench" / "_check.py"), str(ROOT / "m.net")),
        *("p", "1", "N=2", "K=1"),
    ]


def test_every_case_names_a_model_of_this_checkout() -> None:
    assert [case.name for case in CASES if not (ROOT / case.model).is_file()] == []
    assert {case.workers for case in CASES if case.property is None} == {1, 2}


def test_a_commit_that_cannot_run_a_case_says_why(tmp_path: Path) -> None:
    script = tmp_path / "bench" / "_explore.py"
    script.parent.mkdir()
    script.write_text("raise ImportError('no such search')", encoding="utf-8")
    base, own = code(tmp_path, "old"), code(tmp_path, "new")
    with pytest.raises(UnableError, match="no such search"):
        compare.measure(CASES[0], base, True)
    assert compare.compare(CASES[0], base, own, 5, True) == (
        "old cannot run it: ImportError: no such search"
    )


def test_runs_alternate_after_one_run_each(tmp_path: Path) -> None:
    for label in ("old", "new"):
        script = tmp_path / label / "bench" / "_explore.py"
        script.parent.mkdir(parents=True)
        script.write_text(
            f"open({str(tmp_path / 'order')!r}, 'a').write('{label} ')\n"
            'print(\'{"states": 5, "search_seconds": 2.0}\')',
            encoding="utf-8",
        )
    base, own = code(tmp_path / "old", "old"), code(tmp_path / "new", "new")
    found = compare.compare(CASES[0], base, own, 3, True)
    assert isinstance(found, Comparison)
    assert [len(found.base), len(found.ours)] == [3, 3]
    order = (tmp_path / "order").read_text(encoding="utf-8")
    assert order.split() == ["old", "new", "old", "new", "new", "old", "old", "new"]


@pytest.mark.parametrize("name", ["no-such-commit", "", "--help", "HEAD:Makefile"])
def test_a_wrong_base_is_named(name: str) -> None:
    with pytest.raises(SystemExit) as error:
        _commits.resolve(name)
    assert error.value.code == (
        f"{name or 'an empty name'} is not a commit of this repository: see `git log --oneline`"
    )


def test_a_commit_is_resolved(tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "first"], check=True)
    subprocess.run([*git, "tag", "first"], check=True)
    number = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert _commits.resolve("first", tmp_path) == number.stdout.strip()


def test_the_command_refuses_a_wrong_base_before_it_measures() -> None:
    command = [sys.executable, str(ROOT / "bench" / "compare.py"), "no-such-commit"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == ("no-such-commit is not a commit of this repository: see `git log --oneline`\n")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["HEAD", "--runs", "4"], "fewer than 5 pairs show nothing"),
        (["HEAD", "--only", "nothing"], "there is no case nothing: choose from philosophers_1, "),
    ],
)
def test_options_are_checked(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        compare.read_options(words)
    assert complaint in capsys.readouterr().err


def test_code_runs_with_its_own_sources_and_caches(tmp_path: Path) -> None:
    package = tmp_path / "src" / "veristream"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("NAME = 'planted'", encoding="utf-8")
    show = "import os, veristream; print(veristream.NAME, os.environ['NUMBA_CACHE_DIR'])"
    ran = code(tmp_path).python("-c", show)
    assert ran.output.split() == ["planted", str(tmp_path / "caches" / "numba")]
    assert ran.cpu_seconds > 0


def test_a_workplace_is_removed_however_a_bench_ends() -> None:
    for ending in (KeyboardInterrupt, SystemExit(143)):
        try:
            with _commits.workplace() as place:
                (place / "file").write_text("x", encoding="utf-8")
                raise ending
        except (KeyboardInterrupt, SystemExit):
            assert not place.exists()


def test_a_workplace_is_removed_after_sigterm() -> None:
    script = (
        "import os, signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "from _commits import workplace\n"
        "with workplace() as place:\n"
        "    print(place, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "print('not reached')\n"
    )
    command = [sys.executable, "-c", script, str(ROOT / "bench")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 143
    (place,) = done.stdout.splitlines()
    assert not Path(place).exists()


@pytest.mark.parametrize(("cells", "states", "transitions"), [(3, 27, 48), (5, 243, 540)])
def test_a_check_counts_all_states(cells: int, states: int, transitions: int) -> None:
    model = ROOT / "bench" / "models" / "cells.net"
    command = [
        sys.executable,
        str(ROOT / "bench" / "_check.py"),
        str(model),
        "is_a_queue",
        "1",
        f"N={cells}",
    ]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert found.pop("search_seconds") > 0
    assert found == {"verdict": "holds", "states": states, "transitions": transitions}
