"""docs/csp.md, typed in as a reader would: each run prints what the page says it prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "csp.md").read_text(encoding="utf-8")
BLOCKS: list[tuple[str, str]] = re.findall(r"^```(csp|console)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
TABLE = "table.csp"


def edit(model: str, block: str) -> str:
    """What the page tells the reader to do: a block that defines `Table()` replaces that line."""
    repaired = re.sub(r"^Table\(\) = .*$", lambda _: block.rstrip(), model, flags=re.MULTILINE)
    if "Table() =" in block:
        assert repaired != model
        return repaired
    return f"{model}\n{block}"


def comparable(output: str) -> list[str]:
    """The output's lines; in the table, times and memory differ from run to run, and so do its columns."""
    table, _, rest = output.rstrip().partition("\n\n")
    if "property" in table:
        table = re.sub(r"[\d.]+ (ms|s|min|MiB|GiB)\b", "SOME", table)
        table = "\n".join(" ".join(re.sub("─+", "─", line).split()) for line in table.splitlines())
    return [*table.splitlines(), *rest.splitlines()]


def agrees(printed: str, shown: str) -> bool:
    """Whether the page shows the line, perhaps cut as on a terminal."""
    cut = shown.removesuffix("…")
    return printed == shown or (cut != shown and printed.startswith(cut))


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
        printed, shown = comparable(done.stdout + done.stderr), comparable(output)
        assert len(printed) == len(shown), command
        assert [line for line in zip(printed, shown, strict=True) if not agrees(*line)] == [], command
        consoles += 1
    assert consoles == 6


def test_the_table_before_the_repair(run: Any, tmp_path: Path) -> None:
    """It fails the specification that the repaired one meets, and deadlocks with five seats too."""
    first, _, specification, *_ = (block for language, block in BLOCKS if language == "csp")
    path = tmp_path / TABLE
    path.write_text(f"{first}\n{specification}", encoding="utf-8")
    assert run("check", path, "-p", "Somebody").exit_code == 1
    assert run("check", path, "-p", "deadlockfree", "-D", "N=5").exit_code == 1
