"""Runs the commands of docs/timed.md, and compares their output with the page."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import veristream as vs
from tests.pages import DOCS, differences, read_blocks

PAGE = (DOCS / "timed.md").read_text(encoding="utf-8")
BLOCKS = read_blocks("timed.md", "xta", "q", "console")
STATES = re.compile(r"^  state unsafe.*\n", re.MULTILINE)


def save(path: Path, block: str) -> None:
    """Saves a block as the page instructs: a line of states replaces the existing one."""
    if STATES.match(block):
        model = path.read_text(encoding="utf-8")
        assert len(STATES.findall(model)) == 1
        block = STATES.sub(block, model)
    path.write_text(block, encoding="utf-8")


def test_the_page_shows_real_output(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pending: dict[str, str] = {}
    consoles = 0
    for language, block in BLOCKS:
        if language != "console":
            pending[language] = block
            continue
        command, _, output = block.partition("\n")
        arguments = shlex.split(command.removeprefix("$ veristream "))
        for suffix, text in pending.items():
            save(Path(arguments[1]).with_suffix(f".{suffix}"), text)
        pending.clear()
        done = run(*arguments)
        assert differences(done.stdout + done.stderr, output) == [], command
        consoles += 1
    assert consoles == 6


def test_the_least_time(run: Any, tmp_path: Path) -> None:
    """`inf` finds directly what the page finds with two limits."""
    (model, queries) = (next(block for kind, block in BLOCKS if kind == wanted) for wanted in ("xta", "q"))
    path = tmp_path / "vikings.xta"
    path.write_text(model, encoding="utf-8")
    path.with_suffix(".q").write_text(queries, encoding="utf-8")
    (result,) = json.loads(run("check", path, "-p", "inf", "--json").stdout)["results"]
    assert result["reason"] == "min time = 60"
    assert sum(step["delay"] for step in result["trace"]) == 60


PROCESS = "process P() { state A, B; init A; trans A -> B { }; } system P;"
REFUSED = [
    (f"hybrid clock x; {PROCESS}", ""),
    (PROCESS.replace("A, B;", "A { x' == 0 }, B;"), ""),
    (PROCESS.replace("{ }", "{ guard x > 1.5; }"), ""),
    (PROCESS, "Pr[<=10](<> P.B)"),
    (PROCESS, "control: A<> P.B"),
    (f'import "libm.so"; {PROCESS}', ""),
    ("<nta><lsc><name>L</name></lsc><system>system L;</system></nta>", ""),
    (PROCESS, "E[] deadlock"),
    (f"clock x; urgent chan a; {PROCESS.replace('{ }', '{ guard x > 1; sync a!; }')}", ""),
    (f"chan a[2]; chan priority a[0] < a[1]; {PROCESS}", ""),
    (f"broadcast chan a; {PROCESS.replace(' system P;', ' Q = P(); system P < Q;')}", ""),
    (
        f"clock x; broadcast chan a; {PROCESS.replace('init', 'commit A; init')}".replace(
            "{ };", "{ guard x > 1; sync a?; };"
        ),
        "",
    ),
    ('<!DOCTYPE nta [<!ENTITY x "y">]><nta></nta>', ""),
]
"""A model and its query for each row of the table under "Unsupported constructs"."""


def refusals() -> list[str]:
    """Returns the errors of the table, in order."""
    table = PAGE.split("## Unsupported constructs")[1].split("\n\n")[2]
    cells = [line.rsplit(" | ", 1)[1].removesuffix(" |") for line in table.splitlines()[2:]]
    return [cell.strip().strip("`").strip() if "``" in cell else cell.strip("`") for cell in cells]


@pytest.mark.parametrize(
    ("model", "query", "message"),
    [(*refused, message) for refused, message in zip(REFUSED, refusals(), strict=True)],
)
def test_unsupported_constructs(tmp_path: Path, model: str, query: str, message: str) -> None:
    path = tmp_path / "model.xta"
    path.write_text(model, encoding="utf-8")
    path.with_suffix(".q").write_text(query, encoding="utf-8")
    if query:
        (verdict,) = [result.verdict for result in vs.check(path)]
        assert isinstance(verdict, vs.Invalid)
        assert verdict.reason == message
        return
    with pytest.raises(vs.ModelError) as refusal:
        vs.check(path)
    assert refusal.value.message == message
