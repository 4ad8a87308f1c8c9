#!/usr/bin/env python3
"""Veristream on Spark against our local search, SPIN and TLC, on the same models, in one run.

Two sizes of one model: one that every tool keeps in memory, and one whose states go to files while each
process stays under a limit of memory. Rates are distinct states a second of search, after the session
is up; beside them stand the peak memory of the largest process, levels, and bytes between workers. Then
one model in 1, 2, 4 and 8 parts, which is what the formula of docs/spark.md is fed with. All tools must
find the same number of states (SPIN with several workers keeps hashes alone, and may miss a few), or the
bench fails. Run it alone on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import ROOT, finish, middle, say, table

from veristream.errors import EnvironmentFailure
from veristream.export.promela import to_promela
from veristream.export.tla import to_tla
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.source import read_source
from veristream_testing.peers import run_spin, run_tlc

MODEL = ROOT / "bench" / "models" / "spark_philosophers.net"
LIMIT_MIB = 2048
SPIN_FLAGS = ("-O2", "-DNOREDUCE")
SPIN_MISSES_MAX = 1e-4
TIMEOUT_S = 3600.0
WORKERS = 2


@dataclass(frozen=True)
class Size:
    """The model with so many philosophers and chairs: whether states go to files, how often it is run."""

    name: str
    philosophers: int
    chairs: int
    spills: bool
    runs: int
    tools: tuple[str, ...] = ("spark", "local", "spin", "tlc")

    @property
    def hash_bits(self) -> int:
        """Of SPIN's table: twice the states, at least its usual size."""
        return max(24, (int(3**self.philosophers) * self.chairs).bit_length() + 1)

    @property
    def constants(self) -> dict[str, int]:
        """As the model wants them."""
        return {"N": self.philosophers, "K": self.chairs}


FULL = (
    Size("small", 13, 4, False, 3),  # 6.4 million states
    Size("large", 15, 4, True, 1, ("spark", "local", "spin")),  # 57 million
)
QUICK = (
    Size("small", 11, 1, False, 1),
    Size("large", 11, 4, True, 1, ("spark", "local", "spin")),
)
PARTS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Figure:
    """One tool on one size."""

    tool: str
    workers: int
    states: int
    search_seconds: float
    peak_mib: float  # resident, of the process that had most
    levels: int | None = None
    sent: int | None = None  # records between workers
    record_bytes: int | None = None

    @property
    def rate(self) -> float:
        """Distinct states a second of search."""
        return self.states / self.search_seconds

    @property
    def bytes_per_state(self) -> float | None:
        """Bytes between workers."""
        if self.sent is None or self.record_bytes is None:
            return None
        return self.sent * self.record_bytes / self.states

    def row(self) -> list[str]:
        """The figure as a row of the table."""
        sent = "" if self.bytes_per_state is None else f"{self.bytes_per_state:.1f}"
        return [
            self.tool,
            str(self.workers),
            f"{self.states:,}",
            f"{self.search_seconds:.2f}",
            f"{self.rate / 1000:,.0f}",
            f"{self.peak_mib:,.0f}",
            "" if self.levels is None else str(self.levels),
            sent,
        ]


HEAD = ("tool", "workers", "states", "search s", "k states/s", "peak MiB", "levels", "B sent/state")


class Peak:
    """The most resident memory that any of this process's descendants has had."""

    def __init__(self) -> None:
        self.most_mib = 0.0
        self._over = threading.Event()

    def watch(self) -> None:
        """Looks until it is over."""
        while not self._over.wait(0.2):
            for pid in descendants(os.getpid()):
                self.most_mib = max(self.most_mib, resident_mib(pid))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks while the block runs."""
        thread = threading.Thread(target=self.watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


def descendants(root: int) -> list[int]:
    """The processes that a process has started, and those that they have."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended meanwhile
        parents[int(folder.name)] = int(words[1])
    found, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return sorted(found - {root})


def resident_mib(pid: int) -> float:
    """The memory that a process holds now, pages of files and what it shares with others included."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def measure_ours(tool: str, size: Size, parts: int) -> Figure:
    """Our own search on Spark or here, in a process of its own."""
    script = str(ROOT / "bench" / "_spark.py")
    peak = Peak()
    with tempfile.TemporaryDirectory(prefix="veristream-spill-") as folder, peak.watching():
        spill = folder if size.spills and tool == "spark" else ""
        order = {"tool": tool, "parts": parts, "constants": size.constants, "spill": spill}
        order |= {"model": str(MODEL), "limit_mib": LIMIT_MIB if spill else None}
        command = [sys.executable, script, json.dumps(order)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EnvironmentFailure(f"{tool} failed on {size.name}: {done.stderr[-2000:]}")
    return Figure(tool, parts, peak_mib=peak.most_mib, **json.loads(done.stdout))


def measure_peer(tool: str, size: Size) -> Figure:
    """SPIN or TLC on the exported model."""
    network = read_network(read_source(MODEL), size.constants)
    verify(network)
    peak = Peak()
    with peak.watching():
        if tool == "spin":
            text, bits = to_promela(network), size.hash_bits
            run = run_spin(text, workers=WORKERS, timeout_s=TIMEOUT_S, cflags=SPIN_FLAGS, hash_bits=bits)
        else:
            run = run_tlc(to_tla(network, "Model"), workers=WORKERS, timeout_s=TIMEOUT_S)
    if run.verdict != "complete" or run.distinct_states is None:
        raise EnvironmentFailure(f"{tool} did not finish {size.name}: {run.output[-2000:]}")
    return Figure(tool, WORKERS, run.distinct_states, run.search_seconds, peak.most_mib)


def measure(tool: str, size: Size) -> Figure:
    """The median of a tool's runs."""
    say(f"{size.name} ({size.constants}): {tool}, {size.runs} run(s) ...")
    if tool in ("spark", "local"):
        runs = [measure_ours(tool, size, WORKERS) for _ in range(size.runs)]
    else:
        runs = [measure_peer(tool, size) for _ in range(size.runs)]
    return middle(runs, lambda one: one.search_seconds)


def measure_size(size: Size) -> dict[str, Figure]:
    """All tools on one size; their counts must agree."""
    figures = {tool: measure(tool, size) for tool in size.tools}
    table(f"{size.name}: {size.constants}", HEAD, [one.row() for one in figures.values()])
    exact = {one.states for tool, one in figures.items() if tool != "spin"}
    missed = 1 - figures["spin"].states / max(exact)
    if len(exact) != 1 or not 0 <= missed <= SPIN_MISSES_MAX:
        counts = {tool: one.states for tool, one in figures.items()}
        raise SystemExit(f"the tools disagree on {size.name}: {counts}")
    return figures


def measure_parts(size: Size) -> list[Figure]:
    """One size in more and more parts."""
    say(f"{size.name} in {', '.join(map(str, PARTS))} parts ...")
    figures = [measure_ours("spark", replace(size, spills=False), n) for n in PARTS]
    table(f"parts: {size.constants}", HEAD, [one.row() for one in figures])
    return figures


def ratios_of(small: dict[str, Figure], large: dict[str, Figure]) -> dict[str, float]:
    """What others read: over TLC on the small size, over SPIN on the large one."""
    return {
        "over_tlc": small["spark"].rate / small["tlc"].rate,
        "over_spin": large["spark"].rate / large["spin"].rate,
        "over_local": small["spark"].rate / small["local"].rate,
        "large_over_local": large["spark"].rate / large["local"].rate,
        "peak_over_limit": large["spark"].peak_mib / LIMIT_MIB,
    }


def told(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The figures as JSON."""
    derived = [{"states_per_second": one.rate, "bytes_per_state": one.bytes_per_state} for one in figures]
    return [asdict(one) | more for one, more in zip(figures, derived, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, one run each")
    quick = parser.parse_args().quick
    began = time.perf_counter()
    sizes = QUICK if quick else FULL
    measured = [measure_size(size) for size in sizes]
    parts = measure_parts(sizes[0])
    ratios = ratios_of(*measured)
    table("ratios", ("ratio", "value"), [[key, f"{value:.2f}"] for key, value in ratios.items()])
    figures: dict[str, Any] = {
        size.name: told(list(one.values())) for size, one in zip(sizes, measured, strict=True)
    }
    figures |= {"parts": told(parts), "quick": quick, "seconds": time.perf_counter() - began}
    finish("spark", ratios, figures)


if __name__ == "__main__":
    main()
