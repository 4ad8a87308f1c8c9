"""What kind of recording a file or a folder is."""

from __future__ import annotations

import json
import re
from enum import StrEnum
from pathlib import Path
from typing import Final

from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.store.document import MANIFEST_NAME

_HEAD_BYTES: Final = 1 << 16
_READ: Final = (
    "Veristream reads Jepsen's history.edn or its JSON, the output of Kafka's verifiable clients, "
    "dumps of kafka-dump-log.sh, and the folder of a Kabis cluster"
)
_SPACE: Final = re.compile(r"(?:[\s,]|;[^\n]*)*")
_EDN: Final = re.compile(r"(?:[\[(](?:[\s,]|;[^\n]*)*)*(?:#_)?(?:#[A-Za-z][\w.]*)?\s*(?:\{[\s,]*:|\{\}|$)")
_JSON: Final = re.compile(r"(?:\[\s*)?\{\s*\"")
_DUMP: Final = re.compile(r"^(?:Dumping \S|Log starting offset: |baseOffset: )", re.MULTILINE)


class RecordingKind(StrEnum):
    """Who wrote a recording."""

    HISTORY = "a history of Veristream"
    JEPSEN_EDN = "a Jepsen history in EDN"
    JEPSEN_JSON = "a Jepsen history in JSON"
    KAFKA_CLIENT = "the output of a verifiable client of Kafka"
    KAFKA_LOG = "a dump of a Kafka broker's log"
    KABIS = "the folder of a Kabis cluster"


def detect(path: Path) -> RecordingKind:
    """Returns the kind of a file or a folder by what it contains; raises ModelError if it is none."""
    if path.is_dir():
        if (path / MANIFEST_NAME).is_file() or (path / "events").is_dir():
            return RecordingKind.HISTORY
        if (path / "genesis.json").is_file():
            return RecordingKind.KABIS
        kinds = {detect(each) for each in files_in(path)}
        if len(kinds) == 1:
            return kinds.pop()
        if kinds == {RecordingKind.KAFKA_CLIENT, RecordingKind.KAFKA_LOG}:
            return RecordingKind.KAFKA_CLIENT
        what = " and ".join(sorted(kinds)) or "nothing"
        raise ModelError(f"`{path}` contains {what}", hint="name the files that belong to one recording")
    if not path.exists():
        raise ModelError(f"`{path}` does not exist", hint="check the path")
    return _detect_file(path, _head(path))


def files_in(folder: Path) -> list[Path]:
    """Returns the files of a folder that may be recordings, by name."""
    named = [folder / "history.edn", folder / "history.json"]
    if named[0].is_file():  # a test in Jepsen's store has much else
        return named[:1]
    return sorted(each for each in folder.iterdir() if each.is_file() and not each.name.startswith("."))


def _head(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_HEAD_BYTES)
    except OSError as error:
        raise EnvironmentFailure(f"cannot read `{path}`: {error.strerror}") from error
    if not data:
        raise ModelError(f"`{path}` is empty", hint="copy it again; " + _READ)
    try:
        text = data.decode("utf-8-sig", errors="strict" if len(data) < _HEAD_BYTES else "ignore")
    except UnicodeDecodeError as error:
        raise ModelError(f"`{path}` is not a text in UTF-8: {error.reason}", hint=_READ) from error
    if "\0" in text:
        raise ModelError(f"`{path}` is not a text: it contains null bytes", hint=_READ)
    return text


def _detect_file(path: Path, head: str) -> RecordingKind:
    start = _SPACE.match(head)
    place = start.end() if start else 0
    if place == len(head) and len(head) < _HEAD_BYTES:
        raise ModelError(f"`{path}` contains nothing but space and comments", hint=_READ)
    if _JSON.match(head, place):
        return _detect_json(path, head, place)
    if _DUMP.search(head):
        return RecordingKind.KAFKA_LOG
    for line in head.splitlines():
        if line.startswith('{"'):  # after lines of a log
            return _detect_json(path, line, 0)
    if _EDN.match(head, place):
        return RecordingKind.JEPSEN_EDN
    raise ModelError(f"`{path}` is no recording that Veristream knows", hint=_READ)


def _detect_json(path: Path, head: str, place: int) -> RecordingKind:
    try:
        value, _ = json.JSONDecoder().raw_decode(head, head.index("{", place))
    except (ValueError, RecursionError):
        value = {}  # cut, or longer than the head
    names = set(value) if value else set(re.findall(r'"(process|f|name|timestamp)"\s*:', head))
    if {"process", "f"} & names:
        return RecordingKind.JEPSEN_JSON
    if {"name", "timestamp"} & names:
        return RecordingKind.KAFKA_CLIENT
    raise ModelError(
        f"`{path}` is JSON, but neither a Jepsen history nor the output of a verifiable client", hint=_READ
    )
