"""Writes histories of tests to folders, and audits them in this process."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from veristream.history.audited import Audit
from veristream.history.events import Event
from veristream.history.job.run import Options, audit_folder
from veristream.history.manifest import Manifest
from veristream.history.oracle.judge import judge
from veristream.history.properties import Property
from veristream.history.report.json import render_audit
from veristream.history.schema import EVENTS
from veristream.history.store.document import write_manifest
from veristream.history.store.writer import HistoryWriter
from veristream.history.verdicts import Judgement
from veristream_testing.histories.history import History

EVERYTHING = tuple(Property)


def record(folder: Path, of: History, buckets: int = 3, backwards: bool = False) -> Path:
    """Writes a history in buckets; `backwards` in the opposite order of its events."""
    writer = HistoryWriter(folder, buckets)
    writer.append(reversed(of.events) if backwards else of.events)
    writer.close(of.manifest)
    return folder


def record_loose(folder: Path, of: History, files: int = 2) -> Path:
    """Writes a history that is not in buckets, its events dealt out to files."""
    (folder / "events").mkdir(parents=True)
    for number in range(files):
        pq.write_table(table_of(of.events[number::files]), folder / "events" / f"{number}.parquet")
    write_manifest(folder, replace(of.manifest, buckets=0, events=len(of.events)))
    return folder


def forget_count(folder: Path) -> None:
    """Makes a history one that does not say how many events it has, as older ones."""
    path = folder / "history.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    del document["events"]
    path.write_text(json.dumps(document), encoding="utf-8")


def table_of(events: Sequence[Event]) -> pa.Table:
    """Returns events as a table."""
    columns = [[getattr(event, name) for event in events] for name in EVENTS.names]
    arrays = [
        pa.array([each if isinstance(each, str) else int(each) for each in column], field.type)
        for column, field in zip(columns, EVENTS, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=EVENTS)


def judge_one(asked: Property, of: History, folder: Path, buckets: int = 3) -> Judgement:
    """Records a history and audits it for one property."""
    (judgement,) = audit_folder(record(folder, of, buckets), [asked]).judgements
    return judgement


def audit_json(folder: Path, asked: Sequence[Property] = EVERYTHING, options: Options | None = None) -> str:
    """Audits a folder in this process; returns JSON."""
    return render_audit(audit_folder(folder, asked, options or Options(), name="history"))


def expected_json(
    manifest: Manifest, events: Sequence[Event], asked: Sequence[Property] = EVERYTHING
) -> str:
    """Returns the JSON of what the plain checker says."""
    return render_audit(Audit("history", manifest, len(events), judge(manifest, events, asked)))
