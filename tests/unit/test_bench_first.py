"""The bench of first runs starts cold and warm as it says, and its ratios are those of the worst model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from bench import first
from bench.first import MODELS, SMALLEST, Row

import _commits  # isort: skip  # found in the folder that bench.first adds to the path
import _installed  # isort: skip

ROW = Row("one", 50, 8.0, 9.0, 0.5, 0.75, 40, 2.0, 50, 4.0)


def test_a_ratio_is_that_of_the_faster_peer() -> None:
    assert (ROW.warm_ratio, ROW.cold_ratio) == (4.0, 0.25)
    assert replace(ROW, tlc_wall=1.0).warm_ratio == 2.0
    assert ROW.cells() == [
        *("one", "50", "8.00", "9.00", "0.50", "0.75"),
        *("40", "2.00", "50", "4.00", "4.00", "0.25"),
    ]


def test_the_worst_model_counts_and_cold_starts_also_among_large_ones() -> None:
    large = replace(ROW, tlc_states=100_000, spin_wall=16.0, tlc_wall=24.0, warm_wall=8.0)
    assert first.ratios_of([ROW]) == {"warm_over_best_peer": 4.0, "cold_over_best_peer": 0.25}
    assert first.ratios_of([ROW, large]) == {
        "warm_over_best_peer": 2.0,
        "cold_over_best_peer": 0.25,
        "cold_over_best_peer_large": 2.0,
    }


def test_the_rows_where_a_peer_is_faster_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    slow = replace(ROW, model="two", warm_wall=4.0)
    assert first.behind([ROW, slow]) == ["one cold 0.25", "two warm 0.50", "two cold 0.25"]
    assert first.behind([replace(ROW, cold_wall=2.0)]) == []
    first.show([ROW], first.COMPILED)
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "  cold: every cache is empty but that of the checkout's search loops, which a wheel contains",
        "  below 1: one cold 0.25",
    ]


def test_there_are_six_models_and_spin_gets_each_by_hand() -> None:
    assert len(MODELS) == 6
    assert [model.name for model in MODELS if model.largest] == ["philosophers_10"]
    for model in MODELS:
        text = model.promela()
        assert "proctype" in text
        assert all(text.startswith(f"#define {name} {value}\n") for name, value in model.constants[:1])


def test_a_model_without_promela_by_hand_is_exported() -> None:
    exported = replace(SMALLEST, by_hand=None).promela()
    assert exported.startswith("/* System */\nbit at_System;\n")


def test_the_chosen_properties_are_those_that_peers_check() -> None:
    names = [one.name for one in MODELS[1].network().properties]
    assert names == ["no_deadlock", "right_message"]
    assert MODELS[1].words() == ["-D", "CAPACITY=5", "-p", "no_deadlock", "-p", "right_message"]
    with pytest.raises(AssertionError, match="alternating_bit"):
        replace(MODELS[1], properties=("progress_always",)).network()


@dataclass
class Caches:
    """A check that notes which caches it was given, and whether they were there before."""

    seen: list[tuple[str, bool]] = field(default_factory=list)

    def __call__(self, code: _commits.Code) -> _commits.Ran:
        full = (code.caches / "full").exists()
        (code.caches / "full").touch()
        self.seen.append((code.caches.name, full))
        return _commits.Ran(0, "", "", 1.0, 1.0)


def test_cold_runs_have_new_caches_each_time_and_warm_ones_full_ones(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    code = _commits.Code("abc", tmp_path, tmp_path / "own")
    check, renew = Caches(), first.empty_caches
    assert len(first.measure_cold(code, tmp_path, check, renew, 2)) == 2
    assert len(first.measure_cold(code, tmp_path, check, renew, 1)) == 1
    assert check.seen == [("cold-0", False), ("cold-1", False), ("cold-2", False)]
    check.seen.clear()
    assert len(first.measure_warm(code, check, 2)) == 2
    assert check.seen == [("own", False), ("own", True), ("own", True)]


def test_a_quick_run_shares_compiled_loops_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path / "mine"))
    for name in ("loops", "grammars"):
        (tmp_path / "mine" / name).mkdir(parents=True)
    (tmp_path / "mine" / "loops" / "one.o").touch()
    first.caches_with_loops(tmp_path / "new")
    code = _commits.Code("abc", tmp_path, tmp_path / "new")
    used = Path(code.environment()["VERISTREAM_CACHE"])
    assert [path.name for path in used.iterdir()] == ["loops"]
    assert (used / "loops" / "one.o").exists()


def test_an_installed_command_sees_no_cache_and_no_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VERISTREAM_CACHE", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "PYTHONPATH"):
        monkeypatch.setenv(name, str(tmp_path / "mine"))
    code = _installed.Installed("abc", tmp_path / "venv", tmp_path / "old").with_caches(tmp_path / "new")
    assert isinstance(code, _installed.Installed)
    assert code.environment()["HOME"] == str(tmp_path / "new")
    assert str(tmp_path / "mine") not in code.environment().values()


def test_an_installed_command_is_that_of_its_environment(tmp_path: Path) -> None:
    programs = tmp_path / "venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "veristream").write_text("#!/bin/sh\necho $HOME $@\n", encoding="utf-8")
    (programs / "veristream").chmod(0o755)
    code = _installed.Installed("abc", tmp_path / "venv", tmp_path)
    assert code.check(Path("m.net"), "-D", "N=2").output == f"{tmp_path} check m.net --json -D N=2\n"


def test_bytecode_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    assert "PYTHONDONTWRITEBYTECODE" not in _commits.Code("abc", tmp_path, tmp_path).environment()


def test_a_violated_property_ends_the_bench() -> None:
    with pytest.raises(SystemExit, match="a property should hold, but does not: violated"):
        first.held(_commits.Ran(1, "violated", "", 1.0, 1.0))


def test_a_check_must_come_to_verdicts() -> None:
    violated = _commits.Ran(1, "{}", "", 1.0, 1.0)
    assert _commits.decided(violated) is violated
    with pytest.raises(SystemExit, match="veristream check ended with 2: wrong"):
        _commits.decided(_commits.Ran(2, "", "wrong", 1.0, 1.0))


def test_states_are_those_of_the_largest_search() -> None:
    output = json.dumps({"results": [{"states": 3}, {"states": 20}, {"states": 5}]})
    assert _commits.Ran(0, output, "", 1.0, 1.0).states() == 20


def test_nsq_is_compared_with_the_other_commit_by_cpu_time() -> None:
    own = {"cold_cpu": 20.0, "cold_wall": 15.0, "warm_cpu": 5.0, "warm_wall": 6.0, "assertions": 30}
    base = {"cold_cpu": 260.0, "cold_wall": 272.0, "warm_cpu": 35.0, "warm_wall": 38.0, "assertions": 30}
    assert first.nsq_ratios({"new": own}) == {"nsq_cold_cpu_s": 20.0, "nsq_warm_cpu_s": 5.0}
    assert first.nsq_ratios({"new": own, "old": base}) == {
        "nsq_cold_cpu_s": 20.0,
        "nsq_warm_cpu_s": 5.0,
        "nsq_cold_over_base": 13.0,
        "nsq_warm_over_base": 7.0,
    }
    assert first.nsq_rows({"new": own}) == [["new", "30", "15.0", "20.0", "6.0", "5.0"]]


def test_options_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ([], ["--quick"], ["--quick", "--wheel"], ["--checkout"])
    sources = [first.read_options(words).source for words in lines]
    assert sources == [first.WHEEL, first.COMPILED, first.WHEEL, first.CHECKOUT]
    assert set(sources) == set(first.COLD)
    with pytest.raises(SystemExit):
        first.read_options(["--base", "HEAD"])
    assert "--base needs --nsq" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="nothing is not a commit of this repository"):
        first.read_options(["--nsq", "--base", "nothing"])
