#!/usr/bin/env python3
"""Compares two workers with one, on every kind of search that several workers share.

Reachability, liveness and refinement on models of a million states and more; each run in a process of its
own, the numbers of workers in turn. Both must find the same number of states, or the benchmark fails.
Beside the ratio of the medians is what the machine allows: the ratio of two searches that run at once, each
with one worker, and share nothing. Two cores share caches and memory, so that it is below 2. The times of
the processor show what sharing costs in all: a busy machine disturbs them less. Run it on an otherwise idle
machine with two cores or more.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import ROOT, finish, say, table

WORKERS = (1, 2)
HEAD = (
    "search",
    "states",
    "1 worker s",
    "2 workers s",
    "ratio",
    "machine allows",
    "1 worker CPU s",
    "2 workers CPU s",
)


@dataclass(frozen=True)
class Case:
    """A property of a model with constants for the full and the quick run."""

    name: str
    model: str
    property: str
    full: dict[str, int]
    quick: dict[str, int]


CASES = (
    Case(
        "reachability",
        "models/philosophers/philosophers.net",
        "neighbours_take_turns",
        {"N": 13, "ORDERED": 1},
        {"N": 11, "ORDERED": 1},
    ),
    Case(
        "liveness",
        "models/philosophers/philosophers.net",
        "nobody_starves",
        {"N": 13, "ORDERED": 1},
        {"N": 11, "ORDERED": 1},
    ),
    Case("refinement", "bench/models/cells.net", "is_a_queue", {"N": 14}, {"N": 12}),
)


@dataclass(frozen=True)
class Figure:
    """The medians of one search with one number of workers."""

    states: int
    search_seconds: float
    cpu_seconds: float


def command_of(case: Case, workers: int, quick: bool) -> list[str]:
    """Returns the command that checks the property once."""
    constants = case.quick if quick else case.full
    settings = [f"{name}={value}" for name, value in constants.items()]
    script = str(ROOT / "bench" / "_check.py")
    return [sys.executable, script, str(ROOT / case.model), case.property, str(workers), *settings]


def run(case: Case, workers: int, quick: bool) -> Figure:
    """Checks the property once in a separate process."""
    before = os.times()
    output = subprocess.run(
        command_of(case, workers, quick), check=True, capture_output=True, text=True
    ).stdout
    after = os.times()
    found: dict[str, Any] = json.loads(output)
    if found["verdict"] != "holds":
        raise SystemExit(f"{case.property} of {case.model} does not hold: {found}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Figure(int(found["states"]), float(found["search_seconds"]), cpu)


def seconds_side_by_side(case: Case, quick: bool) -> float:
    """Runs two searches at once, each with one worker of its own; returns the mean of their times."""
    command = command_of(case, 1, quick)
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in WORKERS]
    outputs = [one.communicate()[0] for one in both]
    if any(one.returncode for one in both):
        raise SystemExit(f"{case.name}: one of two searches at once failed")
    return mean(float(json.loads(output)["search_seconds"]) for output in outputs)


def measure(case: Case, runs: int, quick: bool) -> tuple[dict[int, Figure], float]:
    """Returns the medians for each number of workers, and of two searches at once."""
    found: dict[int, list[Figure]] = {workers: [] for workers in WORKERS}
    together: list[float] = []
    for _ in range(runs):
        for workers in WORKERS:
            found[workers].append(run(case, workers, quick))
        together.append(seconds_side_by_side(case, quick))
    if len({figure.states for figures in found.values() for figure in figures}) != 1:
        raise SystemExit(f"{case.name}: the numbers of states differ: {found}")
    medians = {
        workers: Figure(
            figures[0].states,
            median(figure.search_seconds for figure in figures),
            median(figure.cpu_seconds for figure in figures),
        )
        for workers, figures in found.items()
    }
    return medians, median(together)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use smaller models and fewer runs")
    quick = parser.parse_args().quick
    figures, rows, ratios = {}, [], {}
    for case in CASES:
        say(f"{case.name} ...")
        medians, together = measure(case, 1 if quick else 5, quick)
        one, two = medians.values()
        allowed = 2 * one.search_seconds / together
        ratios[f"two_workers_over_one_{case.name}"] = one.search_seconds / two.search_seconds
        figures[case.name] = {"1": asdict(one), "2": asdict(two), "machine_allows": allowed}
        times = [f"{one.search_seconds:.2f}", f"{two.search_seconds:.2f}"]
        ratio = f"{one.search_seconds / two.search_seconds:.2f}"
        cpu = [f"{one.cpu_seconds:.2f}", f"{two.cpu_seconds:.2f}"]
        rows.append([case.name, f"{one.states:,}", *times, ratio, f"{allowed:.2f}", *cpu])
    table("Two workers beside one", HEAD, rows)
    finish("workers", ratios, {"searches": figures, "quick": quick})


if __name__ == "__main__":
    main()
