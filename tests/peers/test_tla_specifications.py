"""TLC on the specifications of `tests/tla`: the same verdicts, the same counts, the same values."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.tla.files import module, write
from tests.tla.specifications import KNOWN, LIVENESS, RUNS, Known
from tests.tla.truths import DEFINITIONS, TRUTHS
from veristream_testing.peers import find_tlc

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("tlc")]

COUNTS = re.compile(r"^([\d,]+) states generated, ([\d,]+) distinct states found", re.MULTILINE)
DEPTH = re.compile(r"The depth of the complete state graph search is (\d+)")
QUIETLY = "CHECK_DEADLOCK FALSE"
VIOLATED = re.compile(r"Invariant (\w+) is violated")


def run_tlc(path: Path) -> str:
    """What TLC prints; an old one takes CHECK_DEADLOCK on its command line only."""
    java, jar = find_tlc()
    command = [java, "-XX:+UseParallelGC", "-cp", str(jar), "tlc2.TLC", "-workers", "1", path.name]
    config = path.with_suffix(".cfg")
    text = config.read_text()
    if QUIETLY in text:
        config.write_text(text.replace(QUIETLY, ""))
        command.insert(-1, "-deadlock")
    done = subprocess.run(
        command, cwd=path.parent, capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_tlc_counts_the_same(known: Known, tmp_path: Path) -> None:
    told = run_tlc(write(tmp_path, known))
    violated = VIOLATED.findall(told)
    violated += ["deadlock-free"] if "Deadlock reached" in told else []
    assert violated == list(known.violated), told
    found = COUNTS.search(told)
    assert found is not None, told
    generated, distinct = (int(one.replace(",", "")) for one in found.groups())
    assert (distinct, generated) == (known.counts[0], known.counts[1]), told
    if not violated and distinct:
        depth = DEPTH.search(told)
        assert depth is not None, told
        assert int(depth[1]) == known.counts[2], told


@pytest.mark.parametrize(("specification", "name", "holds"), LIVENESS)
def test_tlc_decides_the_same_about_runs(
    specification: str, name: str, holds: bool, tmp_path: Path
) -> None:
    config = f"SPECIFICATION {specification}\nPROPERTY {name}\nCONSTANT P = {{a, b}}\n"
    told = run_tlc(write(tmp_path, Known("Runs", RUNS, config, (0, 0, 0))))
    assert ("Temporal properties were violated" in told) is not holds, told
    assert ("No error has been found" in told) is holds, told


def test_tlc_finds_the_same_formulas_true(tmp_path: Path) -> None:
    path = tmp_path / "truths.tla"
    path.write_text(module("truths", DEFINITIONS + "".join(f"ASSUME {one}\n" for one in TRUTHS)))
    (tmp_path / "truths.cfg").write_text("")
    told = run_tlc(path)
    assert "No error has been found" in told, told
