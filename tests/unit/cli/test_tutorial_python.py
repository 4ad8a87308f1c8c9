"""docs/tutorial-python.md, followed step by step: each command prints what the page shows."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.pages import DOCS, differences, read_blocks

PAGE = (DOCS / "tutorial-python.md").read_text(encoding="utf-8")
BLOCKS = read_blocks("tutorial-python.md", r"\w+")


def edit(model: str, block: str) -> str:
    """Replaces in the model the class or method that the block starts with."""
    name = getattr(ast.parse(dedent(block)).body[0], "name")  # noqa: B009 (the node has many types)
    (node,) = (
        node
        for node in ast.walk(ast.parse(model))
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name
    )
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    lines = model.splitlines()
    return "\n".join([*lines[: first - 1], block.rstrip(), *lines[node.end_lineno :], ""])


def stages() -> list[str]:
    """Returns the model after each Python block of the page."""
    first, *edits = (block for language, block in BLOCKS if language == "python")
    found = [first]
    for block in edits:
        found.append(edit(found[-1], block))
    return found


def test_the_page_is_true(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    models = iter(stages())
    consoles = 0
    for language, block in BLOCKS:
        if language == "python":
            Path("queue.py").write_text(next(models), encoding="utf-8")
            continue
        command, _, output = block.partition("\n")
        done = run(*command.removeprefix("$ veristream ").split())
        assert differences(done.stdout, output) == [], command
        consoles += 1
    assert consoles == 5


def verdicts(run: Any, tmp_path: Path, model: str) -> dict[str, str]:
    path = tmp_path / "queue.py"
    path.write_text(model, encoding="utf-8")
    done = run("check", path, "--json")
    return {one["property"]: one["verdict"] for one in json.loads(done.stdout)["results"]}


def test_each_repair_does_what_the_page_says(run: Any, tmp_path: Path) -> None:
    found = [verdicts(run, tmp_path, model) for model in stages()]
    assert found == [
        {"handled_once": "holds", "all_handled": "violated"},
        {"handled_once": "violated", "all_handled": "holds"},
        {"handled_once": "holds", "all_handled": "holds"},
    ]


def test_the_hints_at_the_end(run: Any, tmp_path: Path) -> None:
    repaired = stages()[-1]
    narrow = repaired.replace("MESSAGES - 1], MESSAGES]", "MESSAGES - 1], 1]")
    assert narrow != repaired
    assert set(verdicts(run, tmp_path, narrow).values()) == {"unknown"}
    symmetric = repaired.replace("count=2", "count=2, symmetric=True")
    assert symmetric != repaired
    assert set(verdicts(run, tmp_path, symmetric).values()) == {"holds"}
    exported = run("export", tmp_path / "queue.py", "--to", "tla", "-o", tmp_path / "queue.tla")
    assert exported.exit_code == 0
    assert (tmp_path / "queue.tla").read_text(encoding="utf-8").startswith("---- MODULE queue ----")


def test_the_model_is_as_small_as_the_page_says() -> None:
    lines = [line for line in stages()[0].splitlines() if line.strip()]
    assert f"in {len(lines)} lines of Python" in PAGE
