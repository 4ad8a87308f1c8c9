"""`veristream check --hash-compact BITS`: what its verdicts say, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import veristream as vs
from veristream.search.omission import bound_omission

TIMED = """
network clocked
timed
clock x
component C { location a initial  location b  edge a -> b { clock x >= 1 } }
property moves: reachable C@b
"""


def test_verdicts_say_how_probable_an_omission_is(run: Any, counter: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run("check", counter, "-p", "bounded", "--hash-compact", 40, "--html", page)
    told = "bounded: a state was omitted with a probability of at most 9.1e-12"
    assert done.exit_code == 0
    assert f"  {told} (hashes of 40 bits were kept instead of states)" in done.stdout.splitlines()
    assert told in page.read_text(encoding="utf-8")


def test_json_has_the_probability(run: Any, counter: Path) -> None:
    names = [one for name in ("low", "bounded", "top", "no_deadlock") for one in ("-p", name)]
    hashed = json.loads(run("check", counter, *names, "--hash-compact", 48, "--json").stdout)["results"]
    exact = json.loads(run("check", counter, *names, "--no-reduction", "--json").stdout)["results"]
    assert [one["verdict"] for one in hashed] == ["violated", "holds", "holds", "holds"]
    same = ("property", "verdict", "states", "transitions", "depth", "trace")
    assert [[one[key] for key in same] for one in hashed] == [[one[key] for key in same] for one in exact]
    assert {one["hash_bits"] for one in hashed} == {48}
    bound = bound_omission(4, 48)
    assert [one["omission_probability"] for one in hashed] == [None, bound, None, bound]
    assert not any("hash_bits" in one or "omission_probability" in one for one in exact)


def test_short_hashes_decide_nothing(run: Any, tmp_path: Path) -> None:
    model = tmp_path / "model.net"
    text = "component C { location a initial  edge a -> a { when n < 999 do { n := n + 1; } } }"
    model.write_text(f"network m\nvar n: 0..999 = 0\n{text}\nproperty low: always n < 1000\n", "utf-8")
    done = run("check", model, "--hash-compact", 8, "--json")
    (low,) = json.loads(done.stdout)["results"]
    assert done.exit_code == 4 and low["verdict"] == "unknown" and low["omission_probability"] == 1.0
    assert low["reason"].endswith("hashes of 8 bits are too short (--hash-compact)")
    assert run("check", model, "--hash-compact", 64).exit_code == 0


def test_python_asks_for_it_too(counter: Path) -> None:
    (bounded,) = vs.check(counter, ["bounded"], limits=vs.Limits(hash_bits=40))
    assert isinstance(bounded.verdict, vs.Holds)
    assert bounded.verdict.omission == bound_omission(4, 40) and bounded.effort.hash_bits == 40
    for bits in (-1, 0, 7, 65):
        with pytest.raises(vs.ModelError, match=f"a hash cannot have {bits} bits"):
            vs.check(counter, ["bounded"], limits=vs.Limits(hash_bits=bits))


def test_what_is_searched_for_otherwise_is_told(run: Any, counter: Path) -> None:
    told = "  searched without hash compaction: returns (--hash-compact is for safety properties)"
    assert told in run("check", counter, "--hash-compact", 40).stdout.splitlines()
    assert told not in run("check", counter, "-p", "low", "--hash-compact", 40).stdout
    assert "hash" not in run("check", counter).stdout


def test_nothing_is_reduced(run: Any, counter: Path) -> None:
    assert "reduced" not in run("check", counter, "--hash-compact", 64, "--reduction").stdout


def _refused(done: Any) -> str:
    assert done.exit_code == 2 and done.stdout == ""
    return str(done.stderr)


@pytest.mark.parametrize("bits", [-1, 0, 7, 65, 1000])
def test_a_wrong_number_of_bits_is_refused(run: Any, counter: Path, bits: int) -> None:
    told = _refused(run("check", counter, "--hash-compact", bits))
    assert f"error: a hash cannot have {bits} bits" in told and "choose from 8 to 64" in told


def test_it_is_refused_where_nothing_can_use_it(run: Any, counter: Path, tmp_path: Path) -> None:
    told = _refused(run("check", counter, "-p", "returns", "--hash-compact", 40))
    assert "error: --hash-compact does not apply to returns" in told
    assert "it is for safety properties of models without clocks" in told
    timed = tmp_path / "clocked.net"
    timed.write_text(TIMED, encoding="utf-8")
    assert "does not apply to moves" in _refused(run("check", timed, "--hash-compact", 40))


@pytest.mark.parametrize("option", ["--workers 2", "--order depth", "--shortest"])
def test_what_it_cannot_do_is_refused(run: Any, counter: Path, option: str) -> None:
    told = _refused(run("check", counter, "--hash-compact", 40, *option.split()))
    assert f"error: --hash-compact cannot be combined with {option}" in told


def test_spark_is_refused(run: Any, counter: Path) -> None:
    told = _refused(run("check", counter, "--hash-compact", 40, "--engine", "spark"))
    assert "error: a search with hash compaction runs on this machine only" in told
    assert run("check", counter, "-p", "top", "--hash-compact", 40, "--workers", 1).exit_code == 0
