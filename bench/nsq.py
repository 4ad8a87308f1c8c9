#!/usr/bin/env python3
"""Compares the five properties of the NSQ model (models/nsq/nsq.csp) with its paper's figures for PAT.

The paper is D. Wang, J. Yin, S. Chen, H. Zhu, Formalization and Verification of Go-based New Simple Queue
System, QuASoQ 2023, figure 3. Its figures are cited as published: they come from PAT on the authors'
machine, which the paper does not name, and from their model, which it does not show in full. Ours are
measured here. So a ratio shows what a reader of the paper gains, not how the two tools compare on equal
terms.

Each property is checked in a separate process. The comparison uses the search time, assuming that PAT's
is that of the verification alone. The model is first read and compiled with an empty kernel cache; that
time and the total time are reported separately, with a separate ratio, since users of the small
properties wait mostly for those. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import ROOT, finish, middle, say, table

MODEL = ROOT / "models" / "nsq" / "nsq.csp"
RATIO_MIN = 50.0  # every property must be this many times faster
ORDER_MAX = 10.0  # our number of states must be within this factor of the paper's


@dataclass(frozen=True)
class Published:
    """A column of figure 3."""

    name: str
    assertion: str
    states: int
    transitions: int
    seconds: float


FIGURE_3 = (
    Published("divergence_freedom", "System() divergencefree", 324_159, 1_153_000, 361.275),
    Published("reachability", "System() |= <> Reachability", 730_077, 2_634_052, 116.7222),
    Published("scalability", "System() |= <> Scalability", 5_143, 10_565, 0.5011),
    Published("availability", "System2() |= <> Availability", 730_225, 2_634_218, 127.0521),
    Published(
        "flow_controllability",
        "System() |= (pushStop00 U Ready00) && (pushStop01 U Ready01)"
        " && (pushStop10 U Ready10) && (pushStop11 U Ready11)",
        42_775,
        120_917,
        5.3045,
    ),
)


@dataclass(frozen=True)
class Figure:
    """Our result for one property, with the paper's."""

    published: Published
    states: int
    transitions: int
    compile_seconds: float
    search_seconds: float
    wall_seconds: float

    @property
    def ratio(self) -> float:
        """The speedup of the search."""
        return self.published.seconds / self.search_seconds

    @property
    def whole_ratio(self) -> float:
        """The speedup of the whole run: start, reading, compiling and search."""
        return self.published.seconds / self.wall_seconds

    @property
    def same_order(self) -> bool:
        """Whether the two state spaces have a similar size."""
        return 1 / ORDER_MAX <= self.states / self.published.states <= ORDER_MAX

    def row(self) -> list[str]:
        """Formats the figure as a table row."""
        paper = self.published
        return [
            paper.name,
            f"{paper.states:,}",
            f"{self.states:,}",
            f"{paper.transitions:,}",
            f"{self.transitions:,}",
            f"{paper.seconds:.2f}",
            f"{self.search_seconds:.3f}",
            f"{self.compile_seconds:.2f}",
            f"{self.wall_seconds:.2f}",
            f"{paper.states / paper.seconds / 1000:.1f}",
            f"{self.states / self.search_seconds / 1000:,.0f}",
            f"{self.ratio:,.0f}",
            f"{self.whole_ratio:,.2f}",
        ]


HEAD = (
    "property",
    "states: paper",
    "ours",
    "transitions: paper",
    "ours",
    "seconds: paper",
    "search",
    "compile",
    "whole",
    "k states/s: paper",
    "ours",
    "times faster: search",
    "whole",
)


def measure(published: Published, runs: int) -> Figure:
    """Returns the median of several runs, each in a separate process."""
    found: list[tuple[dict[str, Any], float]] = []
    for _ in range(runs):
        began = time.perf_counter()
        command = [sys.executable, __file__, "--one", published.assertion]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found.append((json.loads(output), time.perf_counter() - began))
    run, wall = middle(found, lambda entry: float(entry[0]["search_seconds"]))
    if run["verdict"] != "holds":
        raise SystemExit(f"{published.assertion} holds in the paper, but is {run['verdict']} here")
    return Figure(
        published,
        int(run["states"]),
        int(run["transitions"]),
        run["compile_seconds"],
        run["search_seconds"],
        wall,
    )


def measure_one(assertion: str) -> dict[str, Any]:
    """Measures one property in this process; the native search loops are loaded before the clock starts."""
    from veristream.library import load_all
    from veristream.search.limits import Limits, silent
    from veristream.search.runs.liveness import LocalRuns, decide
    from veristream.search.runs.product import Product
    from veristream.search.session import Session
    from veristream.verdict import word

    began = time.perf_counter()
    network, property_ = next(
        (network, one) for network in load_all(MODEL) for one in network.properties if one.name == assertion
    )
    product = Product(network, property_)
    runs = LocalRuns(product, product.initial, None)
    session = Session(runs.exploration, Limits(), silent, assertion, time.monotonic())
    compiled = time.perf_counter()
    verdict = decide(product, session, lambda _: runs.look())
    ended = time.perf_counter()
    exploration = runs.exploration
    return {
        "verdict": word(verdict),
        "states": exploration.counts.states,
        "transitions": exploration.counts.transitions,
        "compile_seconds": compiled - began,
        "search_seconds": ended - compiled,
    }


def warm_up() -> None:
    """Loads the native search loops on a model of a few states."""
    from veristream.ir.text.read import read_network
    from veristream.library import check
    from veristream.source import Source

    text = """
network warm_up
var a: 0..9 = 0
component A { location here initial edge here -> here { action up when a < 9 do { a := a + 1; } } }
property comes: ltl <> {a == 9}
"""
    check(read_network(Source("warm_up.net", text), {}))


def run_one(assertion: str) -> None:
    """Measures one property and prints one JSON object; the main function of a child process."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["VERISTREAM_CACHE"] = cache
        warm_up()
        print(json.dumps(measure_one(assertion)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="run each property once instead of three times"
    )
    parser.add_argument("--one", metavar="ASSERTION", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        run_one(options.one)
        return
    runs = 1 if options.quick else 3
    figures = []
    for published in FIGURE_3:
        say(f"{published.assertion}: {runs} run(s) ...")
        figures.append(measure(published, runs))
    table("NSQ: figure 3 of the paper and ours", HEAD, [figure.row() for figure in figures])
    say("  paper: PAT's figures as published, from another machine and the authors' own model")
    say("  ours: measured here; the bar is for `search`, and `whole` begins with an empty kernel cache")
    ratios = {figure.published.name: figure.ratio for figure in figures}
    missed = [
        figure.published.name for figure in figures if figure.ratio < RATIO_MIN or not figure.same_order
    ]
    for name in missed:
        say(f"  {name}: not {RATIO_MIN:.0f} times faster at a number of states of the same order")
    details = {
        figure.published.name: {
            "assertion": figure.published.assertion,
            "states": figure.states,
            "transitions": figure.transitions,
            "compile_seconds": figure.compile_seconds,
            "search_seconds": figure.search_seconds,
            "wall_seconds": figure.wall_seconds,
            "states_per_second": figure.states / figure.search_seconds,
            "paper": {
                "states": figure.published.states,
                "transitions": figure.published.transitions,
                "seconds": figure.published.seconds,
            },
        }
        for figure in figures
    }
    finish(
        "nsq",
        ratios
        | {
            "slowest": min(ratios.values()),
            "slowest_whole_run": min(figure.whole_ratio for figure in figures),
        },
        {
            "properties": details,
            "paper": "figure 3, as published: PAT on the authors' machine",
            "missed": missed,
            "quick": bool(options.quick),
        },
    )
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
