"""docs/kabis.md, typed in as a reader would, and what docs/kabis-guarantees.md says of tests."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kabis.session.console import opened
from tests.pages import DOCS, read_blocks

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("kabis-docs")]

ROOT = DOCS.parent
SECONDS_MAX = 60
STATUS = "veristream kabis status"

VARYING = {
    r"kabis-[0-9a-f]{8}": "kabis-CHAIN",
    r"[0-9a-f]{16}…": "KEY…",
    r"block \d+": "block N",
    r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00": "TIME",
    r"\d+ bytes": "N bytes",
    r"^(  by +)(validator-\d(, )?){3,4}$": r"\1VALIDATORS",
    r"^(  stored by )(storage-\d(, )?){2,3}$": r"\1STORAGE",
}


def comparable(output: str) -> list[str]:
    """The lines, without what differs from run to run, and without notes: who is asked first is chance."""
    for pattern, name in VARYING.items():
        output = re.sub(pattern, name, output, flags=re.MULTILINE)
    return [line for line in output.splitlines() if not line.startswith("note: ")]


def split_commands(block: str) -> list[tuple[str, str]]:
    """Each command of a console block with what it prints."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where `veristream` is this checkout's."""
    tools = tmp_path / "bin"
    tools.mkdir()
    script = tools / "veristream"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m veristream.cli "$@"\n', encoding="utf-8")
    script.chmod(0o700)
    kept = {name: value for name, value in os.environ.items() if name != "KABIS_DATA"}
    return kept | {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONIOENCODING": "utf-8"}


def say(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    """What a command prints."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=SECONDS_MAX,
    )
    return done.stdout


def test_the_page_is_true(tmp_path: Path, environment: dict[str, str]) -> None:
    folder = tmp_path / "laptop"
    folder.mkdir()
    commands = 0
    with opened(folder / "kabis-data"):
        for language, block in read_blocks("kabis.md", "console", "python"):
            typed = split_commands(block) if language == "console" else [(block, "")]
            shell = ["bash", "-c"] if language == "console" else [sys.executable, "-c"]
            for command, shown in typed:
                told = comparable(say([*shell, command], folder, environment))
                deadline_s = time.monotonic() + SECONDS_MAX
                # Evidence is on the ledger a block or two after the lie: who only looks may look again.
                while STATUS in command and told != comparable(shown) and time.monotonic() < deadline_s:
                    told = comparable(say([*shell, command], folder, environment))
                assert told == comparable(shown), command
                commands += 1
    assert commands == 38


def test_every_test_that_the_guarantees_name_exists() -> None:
    text = (DOCS / "kabis-guarantees.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 30
    cases = re.findall(r"^\| (\d+) \| .*`tests/", text, flags=re.MULTILINE)
    assert cases == [str(number) for number in range(1, 16)]
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert not test or test in functions, f"{file}::{test}"
