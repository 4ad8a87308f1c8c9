"""The option `--max-stack`: the limit on what waits behind a `;`."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from veristream.cli.app import app

TOWER = """var n = 0;
P() = [n < 150] a{n = n + 1;} -> (P(); b -> Skip) [] [n == 150] Skip;
#assert P() deadlockfree;
"""


@pytest.fixture
def tower(tmp_path: Path) -> Path:
    path = tmp_path / "tower.csp"
    path.write_text(TOWER, encoding="utf-8")
    return path


def test_a_higher_stack_than_the_default_is_unknown_with_its_place(tower: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(tower)])
    assert done.exit_code == 2, done.output
    assert "more than 100 processes wait behind `;` (--max-stack)" in done.output
    assert "tower.csp:2:17: error:" in done.output
    assert "P.stack[1]: - → b -> Skip" in done.output, "traces name what waits"


def test_the_limit_can_be_raised(tower: Path) -> None:
    done = CliRunner().invoke(app, ["check", str(tower), "--max-stack", "150", "--json"])
    assert done.exit_code == 0, done.output
    assert '"states": 303' in done.output


def test_a_model_of_csp_has_no_queries_with_a_limit_either(tower: Path, tmp_path: Path) -> None:
    (tmp_path / "more.q").write_text("E<> true\n", encoding="utf-8")
    options = ["--max-stack", "150", "--queries", str(tmp_path / "more.q")]
    done = CliRunner().invoke(app, ["check", str(tower), *options])
    assert done.exit_code == 2
    assert "cannot have the properties of another file" in done.output


def test_other_languages_have_no_stacks(tmp_path: Path) -> None:
    path = tmp_path / "m.net"
    path.write_text("network m\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(path), "--max-stack", "5"])
    assert done.exit_code == 2
    assert "only models in CSP# take --max-stack" in done.output
