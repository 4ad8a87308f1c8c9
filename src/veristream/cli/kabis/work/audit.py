"""Runs an audit and prints its report."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from veristream.cli.failure import Exit
from veristream.cli.kabis.table import draw_table
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.audit.findings import NOTES
from veristream.kabis.audit.page import to_html, where
from veristream.kabis.audit.report import AuditReport, to_json
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.cometbft.addresses import is_cometbft
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.wire.handshake import Role
from veristream.spark import describe_tasks, open_session

REFRESH_S = 0.5


@dataclass(frozen=True, slots=True)
class Asked:
    """Arguments of `audit`."""

    topics: tuple[str, ...]
    files: bool
    master: str | None
    html: Path | None
    samples: int
    name: str
    as_json: bool


def run(data: Path, asked: Asked) -> None:
    """Audits, prints the report, writes the page, and exits with 1 if there is a fault."""
    if asked.html is not None and not asked.html.resolve().parent.is_dir():
        raise ModelError(f"the folder of {asked.html} does not exist", hint="--html needs a file to write")
    report = _audit(data, asked)
    if asked.html is not None:
        try:
            asked.html.write_text(to_html(report), encoding="utf-8")
        except OSError as error:
            raise EnvironmentFailure(f"cannot write {asked.html}: {error.strerror}") from error
    typer.echo(json.dumps(to_json(report), indent=2) if asked.as_json else render(report))
    if not report.is_clean:
        raise typer.Exit(Exit.VIOLATED)


def _audit(data: Path, asked: Asked) -> AuditReport:
    folder = ClusterFolder(data)
    genesis = folder.genesis()  # before Spark starts, so that a wrong folder is reported at once
    if asked.files:
        require_files(folder, genesis)
    access = Access(folder)
    identity = None if asked.files else access.require_up().identity(asked.name, Role.CONSUMER)
    with telling_progress() as tell:
        tell("starting Spark")
        session = open_session(asked.master, "veristream kabis audit", elastic=True)
        from veristream.kabis.audit import job, network

        source: job.Source = job.Files(data, genesis)
        if identity is not None:
            source = job.Parties(network.PartyAccess(genesis, identity))
        return job.audit(session, source, job.AuditScope(asked.topics, asked.samples), tell)


def require_files(folder: ClusterFolder, genesis: Genesis) -> None:
    """Raises ModelError if this cluster keeps its blocks or logs outside the parties' files."""
    in_kafka = [party.name for party in genesis.storage if folder.kafka_path(party.name).is_file()]
    elsewhere = [f"the logs of {', '.join(in_kafka)} are in Kafka"] if in_kafka else []
    elsewhere += ["CometBFT has the blocks"] if is_cometbft(genesis) else []
    if elsewhere:
        raise ModelError(
            f"{folder.path} does not contain all files: {', and '.join(elsewhere)}",
            hint="omit --files to read from the parties, which must run (veristream kabis up)",
        )


@contextmanager
def telling_progress() -> Iterator[Callable[[str], None]]:
    """Shows progress on one line of stderr and clears it at the end; silent if stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    line, done = _Line(), threading.Event()
    watching = threading.Thread(target=line.watch, args=(done,), daemon=True)
    watching.start()
    try:
        yield line.tell
    finally:
        done.set()
        watching.join()


class _Line:
    """The current step, the elapsed time, and the number of finished Spark tasks."""

    def __init__(self) -> None:
        self.text = ""
        self.began_s = time.monotonic()

    def tell(self, text: str) -> None:
        self.text = text

    def watch(self, done: threading.Event) -> None:
        from rich.console import Console

        with Console(stderr=True).status("", spinner="dots") as status:
            while not done.wait(REFRESH_S):
                status.update(f"{self.text}{describe_tasks()}, {time.monotonic() - self.began_s:.0f} s")


def render(report: AuditReport) -> str:
    """Renders the report as text."""
    checked = report.checked
    source = "their files" if report.source == "files" else "the parties"
    whole = f"{checked.events:,} events in {checked.batches:,} batches"
    looked_at = f"{checked.event_copies:,} good copies of events and {checked.signatures:,} signatures"
    rates = f"{report.events_per_s:,.0f} events/s, {report.signatures_per_s:,.0f} signatures/s"
    return "\n".join(
        [
            f"chain {report.chain_id} up to block {report.height:,}, from {source}: {whole}",
            "",
            _stream_table(report),
            "",
            _party_table(report),
            "",
            *_tell_findings(report),
            f"checked {looked_at} in {report.seconds:.1f} s: {rates}",
        ]
    )


def _stream_table(report: AuditReport) -> str:
    head = ("topic", "partition", "producer", "batches", "events", "faults")
    rows = []
    for line in report.streams:
        numbers = (f"{line.batches:,}", f"{line.events:,}")
        rows.append((line.topic, str(line.partition), line.producer, *numbers, _faults(line.faults)))
    return draw_table(head, rows)


def _party_table(report: AuditReport) -> str:
    head = ("party", "vouched", "copies", "good", "unanswered", "faults")
    rows = []
    for line in report.parties:
        numbers = (line.vouched, line.copies, line.good, line.unanswered)
        rows.append((line.party, *(f"{number:,}" for number in numbers), _faults(line.faults)))
    return draw_table(head, rows)


def _tell_findings(report: AuditReport) -> Iterator[str]:
    for each in report.findings:
        word = "note" if each.kind in NOTES else "fault"
        place = ", ".join(part for part in (each.kind, each.accused or each.role, where(each)) if part)
        yield f"{word}: {place}: {each.detail}"
    for kind, count in report.counts.items():
        told = sum(each.kind == kind for each in report.findings)
        if told < count:
            yield f"and {count - told:,} more {kind}; --findings N prints more"
    if report.is_clean:
        yield "no fault was found"


def _faults(faults: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in faults.items() if count) or "-"
