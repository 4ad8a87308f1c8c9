"""Histories that are imported in tests, and their events as lines that are easy to read."""

from __future__ import annotations

from pathlib import Path

from veristream.history.events import NONE, Event, Outcome
from veristream.history.foreign.importing import ImportOptions, import_history
from veristream.history.manifest import Manifest
from veristream.history.store.reader import read_events, read_manifest, validate

OUTCOMES = {Outcome.INVOKE: "?", Outcome.OK: "ok", Outcome.FAIL: "fail", Outcome.INDEFINITE: "info"}


def imported(
    folder: Path, files: dict[str, str], options: ImportOptions | None = None
) -> tuple[Manifest, list[Event]]:
    """Writes the files, imports them, and returns what a reader of the history gets."""
    paths = []
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        paths.append(path)
    history = folder / "history"
    manifest, count = import_history(paths, history, options)
    assert read_manifest(history) == manifest
    assert validate(history) == manifest.events == count
    events = sorted(read_events(history), key=lambda event: (event.process, event.index))
    for process in range(len(manifest.processes)):
        own = [event for event in events if event.process == process]
        assert [event.index for event in own] == list(range(len(own)))
        assert [event.time_ns for event in own] == sorted(event.time_ns for event in own)
    return manifest, events


def tell(manifest: Manifest, events: list[Event]) -> list[str]:
    """Returns a line for each event: time, process, operation, and the fields that it has."""
    return [_tell(manifest, event) for event in events]


def _tell(manifest: Manifest, event: Event) -> str:
    words = [f"{event.time_ns}", manifest.processes[event.process].name + ":"]
    words += [event.operation.name, OUTCOMES[event.outcome]]
    if event.stream != NONE:
        words.append(f"{manifest.streams[event.stream].name}/{event.partition}")
    if event.producer != NONE:
        words.append(f"{event.producer}:{event.number}")
    elif event.number != NONE:
        words.append(f"from {event.number}")
    if event.offset != NONE:
        words.append(f"@{event.offset}")
    if event.group != NONE:
        words.append(f"by {manifest.groups[event.group]}")
    if event.transaction != NONE:
        words.append(f"in {event.transaction}")
    if event.error:
        words.append(f"({event.error})")
    return " ".join(words)
