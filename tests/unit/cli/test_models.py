"""`veristream models`: what it lists, what it copies, and its errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def test_all_are_listed(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = run("models")
    assert done.exit_code == 0
    blocks = dict(block.split("\n", 1) for block in done.stdout.rstrip("\n").split("\n\n"))
    assert {"kafka", "nsq", "rabbitmq", "kabis", "uppaal"} <= set(blocks)
    about, paper, files = blocks["peterson"].splitlines()
    assert about == "  about     Peterson's mutual exclusion of two processes"
    assert paper.startswith("  paper     G. L. Peterson, Myths about the mutual exclusion problem, ")
    assert files == "  files     expected.toml, peterson.net"
    assert "\n  includes  library/intruder.csp" in blocks["kafka_intruder"]


def test_one_is_listed_with_its_models(run: Any) -> None:
    lines = run("models", "message_queue").stdout.splitlines()
    assert lines[0] == "message_queue"
    assert lines[-2:] == [
        "  model     message_queue                  message_queue.net  CRASHES = 1",
        "  model     message_queue_without_crashes  message_queue.net  CRASHES = 0",
    ]


def test_a_copy_is_checked_like_any_model(run: Any, tmp_path: Path) -> None:
    done = run("models", "peterson", "--copy", tmp_path)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        f"{tmp_path}/peterson/expected.toml",
        f"{tmp_path}/peterson/peterson.net",
        "2 files copied",
    ]
    checked = run("check", tmp_path / "peterson" / "peterson.net", "-p", "exclusion")
    assert checked.exit_code == 0
    assert "exclusion" in checked.stdout
    assert run("models", "peterson", "--copy", tmp_path).stdout == (
        "0 files copied, 2 already existed with the same content\n"
    )


def test_a_file_in_the_way(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "peterson" / "peterson.net"
    path.parent.mkdir()
    path.write_text("mine", encoding="utf-8")
    done = run("models", "peterson", "--copy", tmp_path)
    assert done.exit_code == 2
    assert done.stderr.splitlines() == [
        f"error: {path} exists and differs from the file to copy",
        "hint: choose another folder, or move the file away; nothing was copied",
    ]
    assert path.read_text(encoding="utf-8") == "mine"


def test_a_wrong_name(run: Any, tmp_path: Path) -> None:
    done = run("models", "kafak", "--copy", tmp_path)
    assert done.exit_code == 2
    error, hint = done.stderr.splitlines()
    assert error == "error: no known model is called kafak"
    assert hint.startswith("hint: did you mean kafka? choose from alternating_bit, ")
    assert list(tmp_path.iterdir()) == []


def test_json(run: Any, tmp_path: Path) -> None:
    listed = json.loads(run("models", "message_queue", "--json").stdout)
    assert set(listed) == {"models"}
    (folder,) = listed["models"]
    assert set(folder) == {"name", "about", "paper", "files", "models"}
    assert folder["files"] == ["message_queue/expected.toml", "message_queue/message_queue.net"]
    assert folder["models"][0] == {
        "name": "message_queue",
        "file": "message_queue.net",
        "constants": {"CRASHES": 1},
    }
    copied = json.loads(run("models", "message_queue", "--copy", tmp_path, "--json").stdout)
    assert copied["models"] == listed["models"]
    assert copied["copied"] == [str(tmp_path / file) for file in folder["files"]]
    assert copied["kept"] == []


def test_from_another_folder(run: Any, tmp_path: Path) -> None:
    run("models", "peterson", "--copy", tmp_path)
    assert run("models", "--models", tmp_path).stdout.splitlines()[0] == "peterson"
    assert run("models", "kafka", "--models", tmp_path).exit_code == 2
