"""The commands in the documents do what the documents say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import veristream as vs
from veristream.expected import Expectation, read_known, read_runs

ROOT = Path(__file__).resolve().parents[3]


def snippets(document: str, language: str = "") -> list[str]:
    """Returns the code blocks of a document in that language; those without one are networks."""
    text = (ROOT / document).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for named, block in blocks if named == language]


def verdicts(run: Any, *arguments: object) -> dict[str, str]:
    done = run("check", *arguments, "--json")
    return {one["property"]: one["verdict"] for one in json.loads(done.stdout)["results"]}


@pytest.fixture
def printer(tmp_path: Path) -> Path:
    model, repair, *_ = snippets("docs/tutorial.md")
    path = tmp_path / "printer.net"
    path.write_text(model, encoding="utf-8")
    broken = next(line for line in model.splitlines() if "action begin(i)" in line)
    (tmp_path / "repaired.net").write_text(model.replace(broken, repair.rstrip()), encoding="utf-8")
    return path


def test_tutorial_finds_the_bug(run: Any, printer: Path) -> None:
    assert verdicts(run, printer) == {
        "no_deadlock": "holds",
        "one_at_a_time": "violated",
        "busy_is_known": "holds",
        "served": "violated",
    }
    assert "busy_is_known is vacuous" in run("check", printer).stdout
    assert run("simulate", printer, "--seed", 1, "--steps", 8).exit_code == 0


def test_tutorial_repairs_it(run: Any, printer: Path) -> None:
    repaired = printer.with_name("repaired.net")
    assert verdicts(run, repaired) == {
        "no_deadlock": "holds",
        "one_at_a_time": "holds",
        "busy_is_known": "holds",
        "served": "violated",
    }
    shown = run("check", repaired).stdout
    assert "vacuous" not in shown
    assert "loop begins" in shown
    served = (repaired, "-p", "served", "--fairness")
    assert verdicts(run, *served, "weak-process") == {"served": "violated"}
    assert verdicts(run, *served, "strong-process") == {"served": "holds"}
    assert verdicts(run, repaired, "-D", "CLIENTS=3", "-p", "one_at_a_time") == {"one_at_a_time": "holds"}


def test_readme(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "inbox.py"
    path.write_text(snippets("README.md", "python")[0], encoding="utf-8")
    assert verdicts(run, path) == {"in_order": "violated"}
    assert verdicts(run, path, "-D", "WORKERS=1") == {"in_order": "holds"}
    printed = snippets("README.md", "console")[0]
    chart = printed[printed.index("in_order is violated") : printed.rindex("$ veristream")].rstrip()
    assert run("check", path).stdout.rstrip().endswith(chart)


def test_known_runs_are_read(tmp_path: Path) -> None:
    known, runs = snippets("docs/properties.md", "toml")
    (tmp_path / "expected.toml").write_text(f"{known}\n{runs}", encoding="utf-8")
    (model,) = read_known(tmp_path)
    assert model.expectations == (Expectation("exclusion", "holds", "the two-process solution"),)
    to_goal, at_random = read_runs(tmp_path)
    assert (to_goal.goal, to_goal.lanes) == ("E<> Producer(0).InitP", ("Producer(0)", "AS(0)"))
    assert (at_random.goal, at_random.seed, at_random.steps) == (None, 7, 40)


def test_reference_is_read(tmp_path: Path) -> None:
    """The reference's snippets together form a valid network."""
    declarations, components, statements, properties = snippets("docs/network.md")
    declarations = declarations.replace("clock t ", "// ")
    others = "component A { location a initial edge a -> a { meet meeting } }\n"
    others += "".join(
        f"component {n} {{ location a initial edge a -> a {{ meet meeting }} }}\n" for n in "BC"
    )
    others += "var a[N]: 0..9\nvar y: 0..9\nfunction f(x: int): int { x := x; return x }\n"
    others += f"function all_statements(x: int): int {{ {statements} }}\n"
    path = tmp_path / "shop.net"
    path.write_text(declarations + components + others + properties, encoding="utf-8")
    network = vs.load(path)
    assert [component.name for component in network.components][:3] == [
        "Client(0)",
        "Client(1)",
        "Client(2)",
    ]
    assert len(network.properties) == 9
