"""Audits a history in a process of its own, on Spark unless `master` is null: `_history_audit.py JSON`.

Prints one JSON object: the seconds of each run and what the last one found. The session is open before the
clock starts, and has audited a small history.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import veristream as vs
from veristream.history.audited import Audit
from veristream.history.properties import Property
from veristream.spark import open_session

MASTER = "local[2]"
ASKED = (Property.DELIVERED, Property.ONCE, Property.ORDER, Property.ONE_OFFSET, Property.NOTHING_NEW)


def audit(history: str, master: str | None) -> tuple[float, Audit]:
    """Returns the seconds and the result."""
    began = time.perf_counter()
    found = vs.audit(Path(history), properties=[each.value for each in ASKED], master=master)
    return time.perf_counter() - began, found


def main() -> None:
    asked = json.loads(sys.argv[1])
    began = time.perf_counter()
    master = asked["master"]
    session = open_session(master, "veristream bench") if master else None
    opened_s = time.perf_counter() - began
    audit(asked["small"], master)
    seconds = []
    for _ in range(asked["runs"]):
        took_s, found = audit(asked["history"], master)
        seconds.append(took_s)
    if session is not None:
        session.stop()
    told = {kind: count for each in found.judgements for kind, count in each.counts.items()}
    witnesses = [
        [one.kind, one.stream, one.partition, one.offset, one.producer, one.number, one.process, one.index]
        for each in found.judgements
        for one in (witness.anomaly for witness in each.witnesses)
    ]
    json.dump(
        {
            "seconds": seconds,
            "opened_s": opened_s,
            "events": found.events,
            "counts": told,
            "witnesses": sorted(witnesses),
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main()
