"""`history.json`: the manifest as a file, written at once or not at all, and read strictly."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from veristream.errors import EnvironmentFailure, ModelError, suggest
from veristream.history.manifest import VERSION, Incident, Isolation, Manifest, Process, Stream
from veristream.source import Source, Span

T = TypeVar("T")

MANIFEST_NAME = "history.json"
_RECORD_AGAIN = "record or import the history again"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Writes `history.json`; whoever reads sees all of it or no file."""
    path = folder / MANIFEST_NAME
    unfinished = folder / f".{MANIFEST_NAME}.unfinished"
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            json.dump(asdict(manifest), file, indent=1, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write `{path}`: {error}", hint="free space on the disk, or name another folder"
        ) from error


def read_manifest(folder: Path) -> Manifest:
    """Reads `history.json`; refuses what it does not know, since it may change what the events mean."""
    path = folder / MANIFEST_NAME
    if not path.is_file():
        if (folder / "events").is_dir():
            raise ModelError(
                f"`{folder}` has events and no {MANIFEST_NAME}: its recording was killed before its end",
                hint=_RECORD_AGAIN,
            )
        raise ModelError(
            f"`{folder}` is not a history: it has no {MANIFEST_NAME}",
            hint="name the folder that `veristream record` wrote",
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"`{path}` is not UTF-8: {error}", hint=_RECORD_AGAIN) from error
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        place = Span(Source(str(path), text), error.pos, error.pos + 1)
        raise ModelError(f"not JSON: {error.msg}", place, hint=_RECORD_AGAIN) from error
    except RecursionError as error:
        raise ModelError(f"`{path}` is nested too deeply", hint=_RECORD_AGAIN) from error
    return _manifest(_Reader(path, ""), document)


class _Reader:
    """Reads values of JSON; an error says the file and the path of the value in it."""

    def __init__(self, path: Path, where: str) -> None:
        self._path = path
        self._where = where

    def at(self, step: str) -> _Reader:
        return _Reader(self._path, f"{self._where}.{step}" if self._where else step)

    def fail(self, message: str, hint: str = "") -> ModelError:
        where = f" `{self._where}`" if self._where else ""
        return ModelError(f"{self._path}:{where} {message}", hint=hint or _RECORD_AGAIN)

    def record(self, value: object, names: Iterable[str], required: Iterable[str]) -> Mapping[str, Any]:
        """Returns an object that has the required keys and no unknown ones."""
        if not isinstance(value, dict):
            raise self.fail("is not an object")
        known = list(names)
        for name in value:
            if name not in known:
                raise self.fail(f"has an unknown field `{name}`", suggest(name, known))
        for name in required:
            if name not in value:
                raise self.fail(f"has no field `{name}`")
        return cast("Mapping[str, Any]", value)

    def text(self, value: object) -> str:
        if not isinstance(value, str):
            raise self.fail("is not a string")
        return value

    def flag(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.fail("is not true or false")
        return value

    def natural(self, value: object, below: int | None = None) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.fail("is not a natural number")
        if below is not None and value >= below:
            raise self.fail(f"is {value}, and there are only {below}")
        return value

    def maybe(self, value: object, below: int | None = None) -> int | None:
        return None if value is None else self.natural(value, below)

    def texts(self, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise self.fail("is not an object")
        return {name: self.at(name).text(each) for name, each in value.items()}

    def items(self, value: object, read: Callable[[_Reader, object], T]) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise self.fail("is not a list")
        return tuple(read(self.at(str(place)), each) for place, each in enumerate(value))


def _manifest(reader: _Reader, document: object) -> Manifest:
    names = [field.name for field in fields(Manifest)]
    if isinstance(document, dict) and document.get("version", VERSION) != VERSION:
        raise reader.at("version").fail(
            f"is {document['version']!r}, and this Veristream reads {VERSION}",
            "use the Veristream that wrote it",
        )
    value = reader.record(document, names, ("source", "processes", "streams", "version", "buckets"))
    groups = reader.at("groups").items(value.get("groups", []), _Reader.text)
    listed = value["processes"]
    count = len(listed) if isinstance(listed, list) else 0

    def process(at: _Reader, each: object) -> Process:
        return _process(at, each, len(groups))

    def stream(at: _Reader, each: object) -> Stream:
        return _stream(at, each, count)

    return Manifest(
        source=reader.at("source").text(value["source"]),
        processes=reader.at("processes").items(listed, process),
        streams=reader.at("streams").items(value["streams"], stream),
        groups=groups,
        nodes=reader.at("nodes").items(value.get("nodes", []), _Reader.text),
        buckets=reader.at("buckets").natural(value["buckets"]),
        complete=reader.at("complete").flag(value.get("complete", True)),
        producers_complete=reader.at("producers_complete").flag(value.get("producers_complete", True)),
        transactions_recorded=reader.at("transactions_recorded").flag(
            value.get("transactions_recorded", True)
        ),
        workload=reader.at("workload").text(value.get("workload", "")),
        settings=reader.at("settings").texts(value.get("settings", {})),
        incidents=reader.at("incidents").items(value.get("incidents", []), _incident),
        recorded_at=reader.at("recorded_at").text(value.get("recorded_at", "")),
        events=reader.at("events").maybe(value.get("events")),
    )


def _process(reader: _Reader, each: object, groups: int) -> Process:
    value = reader.record(each, ("name", "host", "isolation", "member_of"), ("name",))
    isolation = reader.at("isolation").text(value.get("isolation", ""))
    if isolation not in ("", "read_committed", "read_uncommitted"):
        raise reader.at("isolation").fail(
            f"is `{isolation}`", "use read_committed, read_uncommitted or nothing"
        )
    return Process(
        name=reader.at("name").text(value["name"]),
        host=reader.at("host").text(value.get("host", "")),
        isolation=cast("Isolation", isolation),
        member_of=reader.at("member_of").maybe(value.get("member_of"), groups),
    )


def _stream(reader: _Reader, each: object, processes: int) -> Stream:
    names = ("name", "offsets", "readers", "attempts_max", "redelivery_ns")
    value = reader.record(each, names, ("name",))
    readers = value.get("readers")

    def number(at: _Reader, item: object) -> int:
        return at.natural(item, processes)

    return Stream(
        name=reader.at("name").text(value["name"]),
        offsets=reader.at("offsets").flag(value.get("offsets", True)),
        readers=None if readers is None else reader.at("readers").items(readers, number),
        attempts_max=reader.at("attempts_max").maybe(value.get("attempts_max")),
        redelivery_ns=reader.at("redelivery_ns").maybe(value.get("redelivery_ns")),
    )


def _incident(reader: _Reader, each: object) -> Incident:
    names = ("kind", "target", "begin_ns", "end_ns", "details")
    value = reader.record(each, names, ("kind", "target", "begin_ns"))
    return Incident(
        kind=reader.at("kind").text(value["kind"]),
        target=reader.at("target").text(value["target"]),
        begin_ns=reader.at("begin_ns").natural(value["begin_ns"]),
        end_ns=reader.at("end_ns").maybe(value.get("end_ns")),
        details=reader.at("details").texts(value.get("details", {})),
    )
