#!/usr/bin/env python3
"""Compares Veristream's local search with SPIN and TLC on the same exported models.

For each model, with one and with two workers: distinct states per second of search (by each tool's own
clock, or ours around the search), the time to compile or load, and the total time. All three must find
the same number of states, or the benchmark fails. Run it on an otherwise idle machine.

SPIN also runs as its users run it, with its partial-order reduction, and so again with -DCOLLAPSE, which
compresses states: on the exported model, which is one process, and on Promela written by hand if there is
some. These runs store fewer states, so their states, seconds and bytes per state are told beside ours.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import ROOT, finish, middle, say, table, times

from veristream.errors import EnvironmentFailure
from veristream.export.promela import to_promela
from veristream.export.tla import to_tla
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.source import read_source
from veristream_testing.peers import PeerRun, run_spin, run_tlc

SPIN_FLAGS = ("-O2", "-DNOREDUCE")  # and -DSAFETY, which the runner adds
AS_USED = {"spin, as used": ("-O2",), "spin, -DCOLLAPSE": ("-O2", "-DCOLLAPSE")}
BY_HAND = ", by hand"
TIMEOUT_S = 1800.0


@dataclass(frozen=True)
class Model:
    """A model with constants for the full and the quick run."""

    name: str
    full: dict[str, int]
    quick: dict[str, int]

    @property
    def path(self) -> Path:
        """The model's file."""
        return ROOT / "bench" / "models" / f"{self.name}.net"

    @property
    def by_hand(self) -> Path:
        """The same in Promela as a user of SPIN writes it; not every model has it."""
        return self.path.with_suffix(".pml")


MODELS = (
    Model("philosophers", {"N": 10}, {"N": 9}),
    Model("message_queue", {"ROOM": 5}, {"MESSAGES": 2, "ROOM": 5}),
)


@dataclass(frozen=True)
class Figure:
    """The medians of one tool on one model."""

    tool: str
    workers: int
    states: int
    transitions: int
    compile_seconds: float
    search_seconds: float
    wall_seconds: float
    bytes_per_state: float | None

    @property
    def rate(self) -> float:
        """Distinct states per second of search."""
        return self.states / self.search_seconds

    def row(self) -> list[str]:
        """Formats the figure as a table row."""
        memory = "" if self.bytes_per_state is None else f"{self.bytes_per_state:.0f}"
        return [
            self.tool,
            str(self.workers),
            f"{self.states:,}",
            f"{self.transitions:,}",
            f"{self.compile_seconds:.2f}",
            f"{self.search_seconds:.2f}",
            f"{self.wall_seconds:.2f}",
            f"{self.rate / 1000:,.0f}",
            memory,
        ]


HEAD = (
    "tool",
    "workers",
    "states",
    "transitions",
    "compile s",
    "search s",
    "whole s",
    "k states/s",
    "B/state",
)


def measure_ours(model: Model, constants: dict[str, int], workers: int, runs: int) -> Figure:
    """Measures our own search, each run in a separate process with an empty kernel cache."""
    settings = [f"{name}={value}" for name, value in constants.items()]
    script = ROOT / "bench" / "_explore.py"
    found: list[tuple[dict[str, Any], float]] = []
    for _ in range(runs):
        began = time.perf_counter()
        command = [sys.executable, str(script), str(model.path), str(workers), *settings]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append((json.loads(output), time.perf_counter() - began))
    run, wall = middle(found, lambda entry: float(entry[0]["search_seconds"]))
    return Figure(
        "veristream",
        workers,
        int(run["states"]),
        int(run["transitions"]),
        run["compile_seconds"],
        run["search_seconds"],
        wall,
        run["bytes_per_state"],
    )


def measure_peer(tool: str, model: Model, constants: dict[str, int], workers: int, runs: int) -> Figure:
    """Measures a peer on the exported model."""
    network = read_network(read_source(model.path), constants)
    verify(network)
    found: list[PeerRun] = []
    for _ in range(runs):
        if tool == "spin":
            text = to_promela(network)
            run = run_spin(text, workers=workers, timeout_s=TIMEOUT_S, cflags=SPIN_FLAGS)
        else:
            run = run_tlc(to_tla(network, "Model"), workers=workers, timeout_s=TIMEOUT_S)
        if run.verdict != "complete":
            raise EnvironmentFailure(f"{tool} did not finish {model.name}: {run.output[-2000:]}")
        found.append(run)
    run = middle(found, lambda entry: entry.search_seconds)
    assert run.distinct_states is not None
    return Figure(
        tool,
        workers,
        run.distinct_states,
        run.transitions or 0,
        run.compile_seconds,
        run.search_seconds,
        run.wall_seconds,
        spin_bytes_per_state(run) if tool == "spin" else None,
    )


def measure_as_used(model: Model, constants: dict[str, int], runs: int) -> list[Figure]:
    """Measures SPIN with its reduction, without and with compression of states."""
    texts = {"": to_promela(read_network(read_source(model.path), constants))}
    if model.by_hand.is_file():
        defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
        texts[BY_HAND] = defines + model.by_hand.read_text(encoding="utf-8")
    figures = []
    for suffix, text in texts.items():
        for tool, flags in AS_USED.items():
            say(f"{model.name}: {tool}{suffix}, {runs} run(s) ...")
            found = [run_spin(text, timeout_s=TIMEOUT_S, cflags=flags) for _ in range(runs)]
            figures.append(used_figure(tool + suffix, middle(found, lambda entry: entry.search_seconds)))
    return figures


def used_figure(tool: str, run: PeerRun) -> Figure:
    """Returns the figure of a run whose states are stored as SPIN's users store them."""
    if run.verdict != "complete" or run.distinct_states is None:
        raise EnvironmentFailure(f"{tool} did not finish: {run.output[-2000:]}")
    return Figure(
        tool,
        1,
        run.distinct_states,
        run.transitions or 0,
        run.compile_seconds,
        run.search_seconds,
        run.wall_seconds,
        spin_stored_bytes_per_state(run),
    )


def spin_stored_bytes_per_state(run: PeerRun) -> float | None:
    """Returns what SPIN reports as its actual memory for states, without its hash table and stack."""
    found = re.search(r"([\d.]+)\s+actual memory usage for states", run.output)
    if found is None or not run.distinct_states:
        return spin_bytes_per_state(run)
    return float(found[1]) * 2**20 / run.distinct_states


def spin_bytes_per_state(run: PeerRun) -> float | None:
    """Returns what SPIN reports as its memory without compression: stored * (state vector + overhead)."""
    found = re.search(r"([\d.]+)\s+equivalent memory usage for states", run.output)
    if found is None or not run.distinct_states:
        return None
    return float(found[1]) * 2**20 / run.distinct_states


def measure_start(runs: int) -> dict[str, float]:
    """Measures the command from start to verdict on a model of about 1,000 states, with a warm cache."""
    path = ROOT / "bench" / "models" / "philosophers.net"
    command = [sys.executable, "-m", "veristream.cli", "check", str(path), "-D", "N=5", "--json"]
    seconds, states = [], 0
    for _ in range(runs + 1):  # the first fills the caches
        began = time.perf_counter()
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        seconds.append(time.perf_counter() - began)
        states = json.loads(output)["results"][0]["states"]
    return {"states": states, "seconds": times(seconds[1:])}


def measure_model(model: Model, quick: bool) -> list[Figure]:
    """Measures all tools on one model; exits if their counts disagree."""
    constants = model.quick if quick else model.full
    runs = 1 if quick else 3
    figures = []
    for workers in (1, 2):
        for tool in ("veristream", "spin", "tlc"):
            say(f"{model.name}: {tool}, {workers} worker(s), {runs} run(s) ...")
            if tool == "veristream":
                figures.append(measure_ours(model, constants, workers, runs))
            else:
                figures.append(measure_peer(tool, model, constants, workers, runs))
    used = measure_as_used(model, constants, runs)
    table(f"{model.name} {constants}", HEAD, [figure.row() for figure in [*figures, *used]])
    counts = {figure.states for figure in figures}
    if len(counts) != 1:
        raise SystemExit(f"the tools disagree on the states of {model.name}: {sorted(counts)}")
    return [*figures, *used]


def ratios_of(figures: list[Figure]) -> dict[str, float]:
    """Returns our rate over the peers' on one model."""
    by = {(figure.tool, figure.workers): figure for figure in figures}
    ours, spin = by["veristream", 1], by["spin", 1]
    assert ours.bytes_per_state is not None and spin.bytes_per_state is not None
    as_used = [figure for figure in figures if figure.tool.startswith(tuple(AS_USED))]
    stored = [figure.bytes_per_state for figure in as_used if figure.bytes_per_state is not None]
    return {
        "over_spin": ours.rate / spin.rate,
        "over_tlc": ours.rate / by["tlc", 1].rate,
        "two_workers_over_one": by["veristream", 2].rate / ours.rate,
        "two_workers_over_spin": by["veristream", 2].rate / by["spin", 2].rate,
        "two_workers_over_tlc": by["veristream", 2].rate / by["tlc", 2].rate,
        "whole_run_over_spin": spin.wall_seconds / ours.wall_seconds,
        "memory_over_spin": ours.bytes_per_state / spin.bytes_per_state,
        # The best of SPIN's runs as its users run it, with fewer states than ours where it reduces.
        "search_over_spin_as_used": min(figure.search_seconds for figure in as_used) / ours.search_seconds,
        "memory_over_spin_as_used": ours.bytes_per_state / min(stored),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use smaller models and one run each")
    quick = parser.parse_args().quick
    figures = {model.name: measure_model(model, quick) for model in MODELS}
    start = measure_start(3)
    say(f"\nstart to verdict, {start['states']} states, warm cache: {start['seconds']:.2f} s")
    per_model = {name: ratios_of(measured) for name, measured in figures.items()}
    worst = {
        key: (max if key.startswith("memory") else min)(ratios[key] for ratios in per_model.values())
        for key in next(iter(per_model.values()))
    }
    table(
        "ratios (the worse of the models is what counts)",
        ("ratio", *per_model, "counts"),
        [
            [key, *(f"{ratios[key]:.2f}" for ratios in per_model.values()), f"{worst[key]:.2f}"]
            for key in worst
        ],
    )
    details = {
        name: [figure.__dict__ | {"states_per_second": figure.rate} for figure in measured]
        for name, measured in figures.items()
    }
    finish("local", worst, {"models": details, "start_to_verdict": start, "quick": quick})


if __name__ == "__main__":
    main()
