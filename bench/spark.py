#!/usr/bin/env python3
"""Compares Veristream on Spark with our local search, SPIN and TLC on the same models.

There are two sizes of one model: one that every tool holds in memory, and one whose states are spilled to
files while each process stays within a memory limit. Rates are distinct states per second of search, with
an open session; the tables also show the peak memory of the largest process, levels, and bytes between
workers. Then one model runs with 1, 2, 4 and 8 parts, for the formula in docs/spark.md. All tools must
find the same number of states, or the benchmark fails; SPIN with several workers stores only hashes and
may miss a few. Run it on an otherwise idle machine.
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
    """A size of the model: philosophers and chairs, whether states are spilled, and the number of runs."""

    name: str
    philosophers: int
    chairs: int
    spills: bool
    runs: int
    tools: tuple[str, ...] = ("spark", "local", "spin", "tlc")

    @property
    def hash_bits(self) -> int:
        """The size of SPIN's hash table: twice the states, but at least its default."""
        return max(24, (int(3**self.philosophers) * self.chairs).bit_length() + 1)

    @property
    def constants(self) -> dict[str, int]:
        """The model's constants."""
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
    """The result of one tool on one size."""

    tool: str
    workers: int
    states: int
    search_seconds: float
    peak_mib: float  # resident memory of the largest process
    levels: int | None = None
    sent: int | None = None  # records between workers
    record_bytes: int | None = None

    @property
    def rate(self) -> float:
        """Distinct states per second of search."""
        return self.states / self.search_seconds

    @property
    def bytes_per_state(self) -> float | None:
        """Bytes sent between workers per state."""
        if self.sent is None or self.record_bytes is None:
            return None
        return self.sent * self.record_bytes / self.states

    def row(self) -> list[str]:
        """Formats the figure as a table row."""
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
    """The peak resident memory of any descendant of this process."""

    def __init__(self) -> None:
        self.most_mib = 0.0
        self._over = threading.Event()

    def watch(self) -> None:
        """Samples until the block ends."""
        while not self._over.wait(0.2):
            for pid in descendants(os.getpid()):
                self.most_mib = max(self.most_mib, resident_mib(pid))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Samples while the block runs."""
        thread = threading.Thread(target=self.watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


def descendants(root: int) -> list[int]:
    """Returns all descendants of a process."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        parents[int(folder.name)] = int(words[1])
    found, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return sorted(found - {root})


def resident_mib(pid: int) -> float:
    """Returns the resident memory of a process, including file pages and shared memory."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def measure_ours(tool: str, size: Size, parts: int) -> Figure:
    """Measures our own search, on Spark or locally, in a separate process."""
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
    """Measures SPIN or TLC on the exported model."""
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
    """Returns the median of a tool's runs."""
    say(f"{size.name} ({size.constants}): {tool}, {size.runs} run(s) ...")
    if tool in ("spark", "local"):
        runs = [measure_ours(tool, size, WORKERS) for _ in range(size.runs)]
    else:
        runs = [measure_peer(tool, size) for _ in range(size.runs)]
    return middle(runs, lambda one: one.search_seconds)


def measure_size(size: Size) -> dict[str, Figure]:
    """Measures all tools on one size; exits if their counts disagree."""
    figures = {tool: measure(tool, size) for tool in size.tools}
    table(f"{size.name}: {size.constants}", HEAD, [one.row() for one in figures.values()])
    exact = {one.states for tool, one in figures.items() if tool != "spin"}
    missed = 1 - figures["spin"].states / max(exact)
    if len(exact) != 1 or not 0 <= missed <= SPIN_MISSES_MAX:
        counts = {tool: one.states for tool, one in figures.items()}
        raise SystemExit(f"the tools disagree on {size.name}: {counts}")
    return figures


def measure_parts(size: Size) -> list[Figure]:
    """Measures one size with increasing numbers of parts."""
    say(f"{size.name} in {', '.join(map(str, PARTS))} parts ...")
    figures = [measure_ours("spark", replace(size, spills=False), n) for n in PARTS]
    table(f"parts: {size.constants}", HEAD, [one.row() for one in figures])
    return figures


def ratios_of(small: dict[str, Figure], large: dict[str, Figure]) -> dict[str, float]:
    """Returns the ratios: over TLC on the small size, over SPIN on the large one."""
    return {
        "over_tlc": small["spark"].rate / small["tlc"].rate,
        "over_spin": large["spark"].rate / large["spin"].rate,
        "over_local": small["spark"].rate / small["local"].rate,
        "large_over_local": large["spark"].rate / large["local"].rate,
        "peak_over_limit": large["spark"].peak_mib / LIMIT_MIB,
    }


def told(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """Returns the figures for JSON."""
    derived = [{"states_per_second": one.rate, "bytes_per_state": one.bytes_per_state} for one in figures]
    return [asdict(one) | more for one, more in zip(figures, derived, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use smaller sizes and one run each")
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
