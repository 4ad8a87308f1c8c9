"""A party's log: JSON lines, a bounded number of bounded files, private."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from veristream.kabis.process.logs import MESSAGE_CHARACTERS_MAX, log_to_file
from veristream.kabis.process.settings import LogSettings
from veristream.kabis.protocol.keys import make_key

LOGGER = logging.getLogger("veristream.tested")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    root, level = logging.getLogger(), logging.getLogger().level
    handler = log_to_file(tmp_path, "storage-1", LogSettings("info", 10_000, 3))
    yield tmp_path
    root.removeHandler(handler)
    root.setLevel(level)
    handler.close()


def read(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_line_has_all_its_fields(folder: Path) -> None:
    LOGGER.debug("not shown")
    LOGGER.info("two\nlines of %s", "text")
    try:
        raise ValueError("wrong")
    except ValueError:
        LOGGER.exception("failed")
    first, second = read(folder / "party.log")
    assert first["time"].endswith("+00:00")
    assert {**first, "time": ""} == {
        "time": "",
        "level": "info",
        "party": "storage-1",
        "logger": "veristream.tested",
        "message": "two\nlines of text",
    }
    assert second["error"].endswith("ValueError: wrong")


def test_the_number_and_the_size_of_files_are_bounded(folder: Path) -> None:
    for number in range(1000):
        LOGGER.info("%d %s", number, "x" * 100)
    files = sorted(folder.iterdir())
    assert [path.name for path in files] == ["party.log", "party.log.1", "party.log.2"]
    assert all(path.stat().st_size <= 10_000 for path in files)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert read(files[0])[-1]["message"].startswith("999 ")


def test_a_long_message_is_cut_and_a_key_is_not_shown(folder: Path) -> None:
    key = make_key(bytes(range(32)))
    LOGGER.info("%s", "x" * 1_000_000)
    LOGGER.info("%r %s", key, key)
    text = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())
    assert "x" * MESSAGE_CHARACTERS_MAX in text
    assert "x" * (MESSAGE_CHARACTERS_MAX + 1) not in text
    assert key.public.hex() in text
    assert key.seed.hex() not in text


def test_a_log_that_cannot_be_written_fails_nobody(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    LOGGER.info("before")
    (folder / "party.log").unlink()
    (folder / "party.log").mkdir()
    for _ in range(200):
        LOGGER.info("%s", "x" * 1000)
    assert capsys.readouterr().err == ""
