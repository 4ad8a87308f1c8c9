"""User errors: each yields one clear message with its location, exit code 2, and no traceback."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import COUNTER


def complaint(done: Any, code: int = 2) -> str:
    assert done.exit_code == code
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error:") == 1
    return str(done.stderr)


def write(tmp_path: Path, content: str | bytes, name: str = "model.net") -> Path:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


VERBS = [
    ("check",),
    ("check", "--json"),
    ("simulate",),
    ("export", "--to", "promela"),
    ("export", "--to", "tla"),
]


@pytest.mark.parametrize("verb", VERBS)
def test_missing_file(run: Any, tmp_path: Path, verb: tuple[str, ...]) -> None:
    assert "there is no file" in complaint(run(*verb, tmp_path / "none.net"))


@pytest.mark.parametrize("verb", VERBS)
def test_typo(run: Any, tmp_path: Path, verb: tuple[str, ...]) -> None:
    path = write(tmp_path, COUNTER.replace("when n < LIMIT", "wen n < LIMIT"))
    message = complaint(run(*verb, path))
    assert f"{path}:6:" in message
    assert "wen n < LIMIT" in message
    assert "^" in message


def test_unknown_variable(run: Any, tmp_path: Path) -> None:
    path = write(tmp_path, COUNTER.replace("n := n + 1", "n := m + 1"))
    message = complaint(run("check", path))
    assert f"{path}:6:" in message


def test_folder(run: Any, tmp_path: Path) -> None:
    (tmp_path / "folder.net").mkdir()
    assert "is a folder" in complaint(run("check", tmp_path / "folder.net"))


def test_empty_file(run: Any, tmp_path: Path) -> None:
    for content in ("", "\n  \n"):
        assert "is empty" in complaint(run("check", write(tmp_path, content)))


def test_random_bytes(run: Any, tmp_path: Path) -> None:
    for seed in range(20):
        noise = random.Random(seed).randbytes(200)
        complaint(run("check", write(tmp_path, noise)))


def test_random_text(run: Any, tmp_path: Path) -> None:
    for seed in range(20):
        noise = "".join(random.Random(seed).choices("network var{}[]().;:=<>01 ab\n\t\0ü", k=200))
        complaint(run("check", write(tmp_path, noise)))


def test_deep_nesting(run: Any, tmp_path: Path) -> None:
    deep = "(" * 20000 + "n" + ")" * 20000
    complaint(run("check", write(tmp_path, COUNTER + f"property deep: always {deep}\n")))


def test_unknown_suffix(run: Any, tmp_path: Path) -> None:
    message = complaint(run("check", write(tmp_path, COUNTER, "model.txt")))
    assert ".txt" in message
    assert "models end in .csp, .net" in message
    assert "has no suffix" in complaint(run("check", write(tmp_path, COUNTER, "model")))


def test_unknown_property(run: Any, counter: Path) -> None:
    message = complaint(run("check", counter, "-p", "bouned"))
    assert "no property called bouned" in message
    assert "did you mean bounded?" in message
    assert "low, bounded, top, returns, no_deadlock" in message
    assert str(counter) in message


def test_out_of_range(run: Any, tmp_path: Path) -> None:
    path = write(tmp_path, COUNTER.replace("when n < LIMIT  do", "do"))
    done = run("check", path, "-p", "bounded")
    assert done.exit_code == 2
    assert f"{path}:6:" in done.stderr
    assert done.stderr.count("error:") == 1
    assert "unknown" in done.stdout
    assert "the model fails after 3 steps" in done.stdout


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        ("LIMIT", "write -D NAME=VALUE"),
        ("=3", "write -D NAME=VALUE"),
        ("LIMIT=", "nothing is not a constant's value"),
        ("LIMIT=many", "many is not a constant's value"),
        ("NOTHING=3", "NOTHING"),
    ],
)
def test_constants(run: Any, counter: Path, definition: str, words: str) -> None:
    assert words in complaint(run("check", counter, "-D", definition))


def test_usage(run: Any, counter: Path) -> None:
    for arguments in (
        ("--engine", "steam"),
        ("--workers", 0),
        ("--max-states", -1),
        ("--fairness", "some"),
    ):
        done = run("check", counter, *arguments)
        assert done.exit_code == 2
        assert arguments[0] in done.stderr
    assert run("check").exit_code == 2
    assert run("prove", counter).exit_code == 2
