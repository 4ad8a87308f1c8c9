#!/usr/bin/env python3
"""Measures `veristream audit` on histories of millions of events, beside Polars and DuckDB.

The histories are those of a log with 64 partitions, in buckets as recorders write them, and with anomalies
planted at seeded places. All three read the same files with two threads and must find exactly what was
planted, or the benchmark fails. We run on Spark with two cores; of each peer counts the faster of two ways:
all files in one query, or one bucket after the other. The peers do less: they do not look for skipped and
altered messages, sends out of order, gaps, and rows that break a rule. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _history import Plan, anomalies, make_plan, write
from _history_audit import MASTER
from _history_peers import PEERS, WAYS
from _measure import finish, middle, say, table

from veristream.history.verdicts import Anomaly
from veristream.history.witnesses import WITNESSES

BENCH = Path(__file__).resolve().parent
FULL, QUICK, SMALL = (10_000_000, 100_000_000), (2_000_000,), 100_000
PLANTED = 40
"""How many of each kind are planted."""

ALONE_MAX = 10_000_000
"""Histories of up to so many events are audited without Spark, too: `veristream audit` does so anyway."""

OURS_ONLY = ("skipped poll",)
POLL_S = 0.2
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Figures:
    """The median run of a tool on a history, and the peak memory of its processes."""

    tool: str
    events: int
    seconds: float
    memory_mib: float

    @property
    def events_per_s(self) -> float:
        """How many events it audits in a second."""
        return self.events / self.seconds


def run_child(script: str, asked: dict[str, Any]) -> tuple[dict[str, Any], float]:
    """Runs a script with a JSON object; returns what it printed, and the peak memory of its tree in MiB."""
    command = [sys.executable, str(BENCH / script), json.dumps(asked)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    watch = _Watch(child.pid)
    output, _ = child.communicate()
    peak = watch.end()
    if child.returncode != 0:
        raise SystemExit(f"{script} failed")
    found: dict[str, Any] = json.loads(output)
    return found, peak


class _Watch:
    """The memory of a process and all that it starts, shared pages divided, until `end`."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> float:
        """Returns the peak in MiB."""
        self._over.set()
        self._thread.join()
        return self._peak / MIB

    def _run(self) -> None:
        while not self._over.wait(POLL_S):
            self._peak = max(self._peak, sum(map(_memory, _tree(self._pid))))


def _tree(root: int) -> set[int]:
    """Returns a process and its descendants."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found, before = {root}, 0
    while len(found) > before:
        before = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found


def _memory(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:  # the process has ended
        return 0
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))


def row_of(anomaly: Anomaly) -> list[Any]:
    """Returns an anomaly as the other processes print it."""
    return [
        anomaly.kind,
        anomaly.stream,
        anomaly.partition,
        anomaly.offset,
        anomaly.producer,
        anomaly.number,
        anomaly.process,
        anomaly.index,
    ]


def require(tool: str, found: Sequence[Any], planted: Sequence[Any]) -> None:
    """Exits unless exactly what was planted was found."""
    for what, rows in (
        ("did not find", [row for row in planted if row not in found]),
        ("found besides", [row for row in found if row not in planted]),
    ):
        if rows:
            raise SystemExit(f"{tool} {what} {len(rows)} anomalies, such as {rows[0]}")
    if len(found) != len(planted):
        raise SystemExit(f"{tool} found {len(found)} anomalies, and {len(planted)} were planted")


def measure_audit(asked: dict[str, Any], plan: Plan) -> tuple[Figures, float]:
    """Returns our figures, and how long it took to open the session."""
    name = "audit on Spark" if asked["master"] else "audit in one process"
    found, memory = run_child("_history_audit.py", asked)
    planted = anomalies(plan)
    counts = dict(Counter(each.kind for each in planted))
    if (found["events"], found["counts"]) != (plan.events, counts):
        raise SystemExit(
            f"{name} found {found['counts']} in {found['events']} events, and {counts} were planted"
        )
    first = [row_of(each) for kind in counts for each in _of(kind, planted)[:WITNESSES]]
    require(name, found["witnesses"], sorted(first))
    return _figures(name, plan.events, found["seconds"], memory), found["opened_s"]


def _of(kind: str, planted: Sequence[Anomaly]) -> list[Anomaly]:
    return [each for each in planted if each.kind == kind]


def measure_peer(tool: str, history: Path, plan: Plan, runs: int) -> list[Figures]:
    """Returns the figures of a peer, for each way."""
    planted = sorted(row_of(each) for each in anomalies(plan) if each.kind not in OURS_ONLY)
    figures = []
    for way in WAYS:
        name = f"{tool} {way}"
        found, memory = run_child(
            "_history_peers.py", {"tool": name, "history": str(history), "runs": runs}
        )
        require(name, found["found"], planted)
        figures.append(_figures(name, plan.events, found["seconds"], memory))
    return figures


def _figures(tool: str, events: int, seconds: Sequence[float], memory: float) -> Figures:
    return Figures(tool, events, middle(seconds, lambda each: each), memory)


def measure(events: int, place: Path, small: Path, runs: int) -> tuple[list[Figures], float]:
    """Measures all tools on a history of so many events; ours comes first."""
    plan = make_plan(events, PLANTED)
    history = place / f"history-{events}"
    say(f"writing {plan.events:,} events ...")
    began = time.perf_counter()
    write(history, plan)
    say(f"  {time.perf_counter() - began:.0f} s; audits on {MASTER} ...")
    asked = {"history": str(history), "small": str(small), "runs": runs}
    ours, opened_s = measure_audit({**asked, "master": MASTER}, plan)
    figures = [ours]
    if events <= ALONE_MAX:
        figures.append(measure_audit({**asked, "master": None}, plan)[0])
    for tool in PEERS:
        say(f"  {tool} ...")
        figures += measure_peer(tool, history, plan, runs)
    rows = [
        [each.tool, f"{each.seconds:.2f}", f"{each.events_per_s:,.0f}", f"{each.memory_mib:,.0f}"]
        for each in figures
    ]
    table(f"{plan.events:,} events", ("tool", "s", "events/s", "peak MiB"), rows)
    return figures, opened_s


def over(figures: Sequence[Figures], tool: str) -> float:
    """Returns how much faster we are than the faster way of a peer."""
    return min(each.seconds for each in figures if each.tool.startswith(tool)) / figures[0].seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="two million events instead of ten and a hundred"
    )
    parser.add_argument("--events", type=int, action="append", help="another number of events; repeatable")
    parser.add_argument("--data", type=Path, help="where to put the histories: 20 MB per million events")
    options = parser.parse_args()
    sizes = sorted(options.events or (QUICK if options.quick else FULL))
    found: dict[int, list[Figures]] = {}
    opened: list[float] = []
    with tempfile.TemporaryDirectory(dir=options.data) as place:
        small = Path(place) / "small"
        write(small, make_plan(SMALL, 2))
        for events in sizes:
            found[events], opened_s = measure(events, Path(place), small, runs=3)
            opened.append(opened_s)
    last = found[sizes[-1]]
    ratios = {f"over_{tool}": over(last, tool) for tool in PEERS}
    ratios |= {f"memory_over_{tool}": _memory_over(last, tool) for tool in PEERS}
    ratios["events_per_s"] = last[0].events_per_s
    if len(sizes) > 1:
        first = found[sizes[0]]
        ratios["linear"] = last[0].events_per_s / first[0].events_per_s
        say(f"  {ratios['linear']:.2f} of the events/s of {sizes[0]:,} events remain with {sizes[-1]:,}")
    details = {
        f"{events}": {
            each.tool: {
                "events": each.events,
                "seconds": round(each.seconds, 3),
                "events_per_s": round(each.events_per_s),
                "memory_mib": round(each.memory_mib),
            }
            for each in figures
        }
        for events, figures in found.items()
    }
    finish(
        "history",
        ratios,
        {
            "sizes": details,
            "session_s": round(max(opened), 1),
            "planted": 6 * PLANTED,
            "quick": options.quick,
        },
    )


def _memory_over(figures: Sequence[Figures], tool: str) -> float:
    """Returns our memory divided by that of the faster way of a peer."""
    ways = [each for each in figures if each.tool.startswith(tool)]
    return figures[0].memory_mib / min(ways, key=lambda each: each.seconds).memory_mib


if __name__ == "__main__":
    main()
