"""The examples in docs/csp.md: each command prints the output on the page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.pages import differences, read_blocks

BLOCKS = read_blocks("csp.md", "csp", "console")
TABLE = "table.csp"


def edit(model: str, block: str) -> str:
    """Edits the model as the page says: a block that defines `Table()` replaces that line."""
    repaired = re.sub(r"^Table\(\) = .*$", lambda _: block.rstrip(), model, flags=re.MULTILINE)
    if "Table() =" in block:
        assert repaired != model
        return repaired
    return f"{model}\n{block}"


def test_the_page_is_true(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = ""
    pending = ""
    consoles = 0
    for language, block in BLOCKS:
        if language == "csp":
            pending = block
            continue
        command, _, output = block.partition("\n")
        name = command.split()[3]
        if name != TABLE:
            Path(name).write_text(pending, encoding="utf-8")
        elif pending:
            model = edit(model, pending) if model else pending
            Path(name).write_text(model, encoding="utf-8")
        pending = ""
        done = run(*command.removeprefix("$ veristream ").split())
        assert differences(done.stdout + done.stderr, output) == [], command
        consoles += 1
    assert consoles == 6


def test_the_table_before_the_repair(run: Any, tmp_path: Path) -> None:
    """It violates the specification that the repaired one meets, and deadlocks with five seats too."""
    first, _, specification, *_ = (block for language, block in BLOCKS if language == "csp")
    path = tmp_path / TABLE
    path.write_text(f"{first}\n{specification}", encoding="utf-8")
    assert run("check", path, "-p", "Somebody").exit_code == 1
    assert run("check", path, "-p", "deadlockfree", "-D", "N=5").exit_code == 1
