"""`expected.toml`: what it may say, and how a result is compared with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.errors import ModelError
from veristream.expected import Expectation, KnownRun, compare, find_known, read_known, read_runs
from veristream.verdict import Effort, Holds, Result, Trace, Unknown, Verdict, Violated

GOOD = """
paper = "A. Author, A Paper, 2001"

[[model]]
file = "queue.net"
constants = { N = 3 }

[[model.property]]
name = "safe"
verdict = "holds"
states = 10
source = "table 1"

[[model]]
name = "repaired"
file = "repaired.net"
"""


def write(root: Path, text: str, folder: str = "queue") -> Path:
    path = root / folder
    path.mkdir(exist_ok=True)
    (path / "expected.toml").write_text(text, encoding="utf-8")
    return path


def test_read(tmp_path: Path) -> None:
    first, second = read_known(write(tmp_path, GOOD))
    assert (first.name, first.paper, dict(first.constants)) == (
        "queue",
        "A. Author, A Paper, 2001",
        {"N": 3},
    )
    assert first.path == tmp_path / "queue" / "queue.net"
    assert first.expectations == (Expectation("safe", "holds", "table 1", states=10),)
    assert second.name == "repaired"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('paper = "A. Author, A Paper, 2001"', "", "paper is missing"),
        ('verdict = "holds"', 'verdict = "maybe"', "'maybe' is not a verdict"),
        ("states = 10", "states = true", "states must be an integer"),
        ("states = 10", "stats = 10", "unknown key stats"),
        ('name = "repaired"', "", "name is missing"),
        ("N = 3", 'N = "x"', "N must be an integer"),
        ("[[model]]", "[[model", "is not TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    folder = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ModelError, match=r"expected\.toml") as caught:
        read_known(folder)
    assert complaint in caught.value.message


RUNS = """
[[simulate]]
title = "it works"
model = "queue.net"
constants = { N = 2 }
goal = "safe"
lanes = ["A(0)", "B"]

[[simulate]]
title = "anything"
model = "repaired.net"
seed = 4
steps = 7

[[simulate]]
title = "as it comes"
model = "repaired.net"
"""


def test_read_runs(tmp_path: Path) -> None:
    folder = write(tmp_path, GOOD + RUNS)
    assert read_runs(folder) == (
        KnownRun("it works", folder / "queue.net", {"N": 2}, "safe", lanes=("A(0)", "B")),
        KnownRun("anything", folder / "repaired.net", seed=4, steps=7),
        KnownRun("as it comes", folder / "repaired.net", seed=0, steps=20),
    )
    assert [model.name for model in read_known(folder)] == ["queue", "repaired"]
    assert read_runs(write(tmp_path, GOOD)) == ()


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('title = "it works"', "", "simulate 1: title is missing"),
        ('model = "queue.net"', "", "simulate 1: model is missing"),
        ("steps = 7", 'steps = "7"', "simulate 2: steps must be an integer"),
        ("steps = 7", 'goal = "safe"', "simulate 2: a run to a goal is not random"),
        ("steps = 7", "step = 7", "simulate 2: unknown key step"),
        ('"B"]', "7]", "simulate 1: lanes must be a list of strings"),
    ],
)
def test_what_is_wrong_with_a_run_is_named(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    folder = write(tmp_path, (GOOD + RUNS).replace(old, new, 1))
    with pytest.raises(ModelError, match=r"expected\.toml") as caught:
        read_runs(folder)
    assert complaint in caught.value.message


def test_a_folder_without_the_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no expected\.toml"):
        read_runs(tmp_path)


def test_find_by_folder_and_by_model(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    write(tmp_path, GOOD.replace('"repaired"', '"other"'), "list")
    names = [
        [model.name for model in find_known(tmp_path, chosen)] for chosen in ((), ["queue"], ["other"])
    ]
    assert names == [["list", "other", "queue", "repaired"], ["queue", "repaired"], ["other"]]
    with pytest.raises(ModelError, match="no known model is called nothing"):
        find_known(tmp_path, ["nothing"])
    with pytest.raises(ModelError, match="there are no known models in"):
        find_known(tmp_path / "queue")


def result_of(verdict: Verdict) -> Result:
    return Result("p", "always", verdict, Effort(10, 20, 3, 0.1, 1.0))


@pytest.mark.parametrize(
    ("expectation", "verdict", "differences"),
    [
        (Expectation("p", "holds", ""), Holds(), ()),
        (Expectation("p", "holds", "", states=10, transitions=20), Holds(), ()),
        (Expectation("p", "holds", "", states=11), Holds(), ("11 states expected, 10 found",)),
        (Expectation("p", "holds", "", transitions=21), Holds(), ("21 transitions expected, 20 found",)),
        (Expectation("p", "violated", "", states=11), Violated("", Trace(())), ()),
        (Expectation("p", "holds", ""), Unknown("time"), ("holds expected, unknown found",)),
        (Expectation("p", "holds", "", vacuous=True), Holds(), ("vacuous expected",)),
        (Expectation("p", "holds", "", vacuous=True), Holds(vacuous="it is"), ()),
        (Expectation("p", "holds", "", vacuous=False), Holds(vacuous="it is"), ("not vacuous expected",)),
    ],
)
def test_compare(expectation: Expectation, verdict: Verdict, differences: tuple[str, ...]) -> None:
    assert compare(expectation, result_of(verdict)).differences == differences
