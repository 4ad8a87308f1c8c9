#!/usr/bin/env python3
"""Measures `veristream kabis audit` on two million events at three storage parties, with planted faults.

Blocks and logs are written with ten faults of each kind at seeded places; the audit must find all of them
and nothing else, or the benchmark fails. The rate covers only the audit, on two cores, from its first job
to the report, with an open session and after one warm-up audit. For comparison, one process checks one
party's log without Spark. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _audit import CHAIN, PLANTED, STORAGE, Plan, Sign, list_signs, make_genesis, sign_of, write_chain
from _measure import finish, middle, say, table

from veristream.kabis.audit import disk, job
from veristream.kabis.audit.registry import Registry, read_facts
from veristream.kabis.audit.report import AuditReport
from veristream.spark import open_session

FULL = Plan(batches=2000, batch_events=1000, faults=10)
QUICK = Plan(batches=1000, batch_events=200, faults=10)
MASTER = "local[2]"


def measure_alone(folder: Path) -> float:
    """Returns the events per second at which one process checks one party's log."""
    registry: Registry = read_facts(make_genesis(), [])[0]
    segments = disk.storage_segments(folder, STORAGE[:1])
    began = time.perf_counter()
    events = sum(stored.count for each in segments for stored in disk.read_stored(each, registry, None))
    return events / (time.perf_counter() - began)


def require_all(report: AuditReport, planted: set[Sign]) -> None:
    """Exits unless the audit found exactly the planted faults."""
    found = {sign_of(each) for each in report.findings}
    for what, signs in (("was not found", planted - found), ("was never planted", found - planted)):
        for line in list_signs(signs):
            say(f"{what}: {line}")
    if found != planted or len(report.findings) != len(planted):
        sys.exit("the audit did not find exactly what was planted")


def show(report: AuditReport, planted: set[Sign]) -> None:
    counted = Counter(kind for kind, *_ in planted)
    rows = [[kind, str(counted[kind]), str(report.counts[kind])] for kind in PLANTED]
    table("faults", ("kind", "planted", "found"), rows)
    checked = report.checked
    rows = [
        ["blocks", f"{checked.blocks:,}", ""],
        ["events on the ledger", f"{checked.events:,}", f"{checked.events / report.seconds:,.0f}"],
        ["copies of events", f"{checked.event_copies:,}", f"{report.events_per_s:,.0f}"],
        ["signatures", f"{checked.signatures:,}", f"{report.signatures_per_s:,.0f}"],
    ]
    table(f"{report.seconds:.1f} s on {MASTER}", ("what", "checked", "per second"), rows)


def measure(folder: Path, planted: set[Sign], runs: int) -> list[AuditReport]:
    """Audits the folder `runs` times after one warm-up; each audit must find exactly the planted faults."""
    session = open_session(MASTER, "veristream bench")
    reports = []
    for number in range(runs + 1):
        say(f"audit {number} of {runs} ..." if number else "one audit to warm up ...")
        source = job.Files(folder, make_genesis())
        reports.append(job.audit(session, source, job.AuditScope(samples_max=1000), lambda _: None))
        require_all(reports[-1], planted)
    session.stop()
    return reports


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use a tenth of the events and one run")
    quick = bool(parser.parse_args().quick)
    plan, runs = (QUICK, 1) if quick else (FULL, 3)
    events = plan.batches * plan.batch_events
    with tempfile.TemporaryDirectory() as name:
        say(f"writing {CHAIN}: {events:,} events, three copies of each ...")
        planted = write_chain(Path(name), plan)
        say("checking one log in one process ...")
        alone = measure_alone(Path(name))
        first, *reports = measure(Path(name), planted, runs)
    report = middle(reports, lambda each: each.seconds)
    show(report, planted)
    figures = {
        "events": events,
        "parties": len(STORAGE),
        "first_seconds": round(first.seconds, 2),
        "seconds": round(report.seconds, 2),
        "events_per_s": round(report.checked.events / report.seconds),
        "event_copies_per_s": round(report.events_per_s),
        "signatures_per_s": round(report.signatures_per_s),
        "alone_event_copies_per_s": round(alone),
        "checked": asdict(report.checked),
        "planted": len(planted),
        "found": len(report.findings),
        "quick": quick,
    }
    finish("audit", {"over_one_process": report.events_per_s / alone}, figures)


if __name__ == "__main__":
    main()
