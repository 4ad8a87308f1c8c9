#!/usr/bin/env python3
"""Measures how the zone search scales, and compares it with figure 12 of the RabbitMQ paper.

- Fischer's protocol (models/uppaal/fischer.xml): mutual exclusion, with 2 to 8 processes.
- RabbitMQ (models/rabbitmq/rabbitmq.xml): no fake client publishes or receives, in both scenarios of figure
  12, and in the first one with queues of 1 to 4 messages, to which one more is published.
- Models in the manner of real designs (bench/models/timed): a pacemaker with twelve clocks, an election of
  a leader, a level crossing with several trains and cars, a job shop; and Fischer's protocol with ten
  processes.

The benchmark does not run UPPAAL. The figures of R. Li, J. Yin, H. Zhu, P. C. Vinh, Verification of
RabbitMQ with Kerberos Using Timed Automata, 2022, are cited as published: they come from UPPAAL 4.1.24 on
the authors' machine, a Core i7 with 32 GB, and from their model, which is not public. A ratio shows what
a reader of the paper gains, not how the two tools compare on equal terms.

Each case is checked in a separate process. The comparison uses the search time. The model is first read and
compiled with an empty kernel cache; that time, and the total time including the start of the process, are
reported separately. Run it on an otherwise idle machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import ROOT, finish, middle, say, table

FISCHER = "uppaal/fischer.xml"
EXCLUSION = "A[] forall (i : id_t) forall (j : id_t) P(i).cs && P(j).cs imply i == j"
RABBITMQ = "rabbitmq/rabbitmq.xml"
SECURITY = "A[] !(Producer(1).Publish || Consumer(3).Deliver)"
PAPER = "figure 12, as published: UPPAAL 4.1.24 on the authors' machine, a Core i7, with their own model"


@dataclass(frozen=True)
class Case:
    """A query on a model, with constants."""

    name: str
    model: str
    query: str
    constants: dict[str, int] = field(default_factory=dict)
    folder: str = "models"


@dataclass(frozen=True)
class Published:
    """What figure 12 reports for a scenario's third query."""

    case: Case
    seconds: float
    memory_kb: int

    @property
    def memory_mib(self) -> float:
        """The memory in MiB."""
        return self.memory_kb / 1024


@dataclass(frozen=True)
class Figure:
    """Our result for one case: zones kept, zone steps, and their cost."""

    case: Case
    zones: int
    steps: int
    compile_seconds: float
    search_seconds: float
    wall_seconds: float
    memory_mib: float


FISCHER_CASES = [Case(f"fischer_{k}", FISCHER, EXCLUSION, {"N": k}) for k in range(2, 9)]
QUEUE_CASES = [
    Case(f"queue_{k}", RABBITMQ, SECURITY, {"SCENARIO": 1, "N": k, "MESSAGES": k + 1}) for k in range(1, 5)
]
DESIGNS = "bench/models/timed"
DESIGN_CASES = [
    Case("pacemaker", "pacemaker.xta", "A[] not Quick.early", {}, DESIGNS),
    Case("election", "election.xta", "A[] Node(N).wait imply Node(N).x <= WAIT", {"N": 7}, DESIGNS),
    Case(
        "crossing",
        "crossing.xta",
        "A[] not (exists (i : train_t) Train(i).over) or not (exists (j : car_t) Car(j).on)",
        {"TRAINS": 3, "CARS": 3},
        DESIGNS,
    ),
    Case("shop", "shop.xta", "A[] (forall (j : job_t) Job(j).done) imply time >= LEAST", {"J": 5}, DESIGNS),
    Case("fischer_10", FISCHER, EXCLUSION, {"N": 10}),
]
FIGURE_12 = (
    Published(Case("scenario_1", RABBITMQ, SECURITY, {"SCENARIO": 1}), 9.391, 126_004),
    Published(Case("scenario_2", RABBITMQ, SECURITY, {"SCENARIO": 2}), 28.125, 459_080),
)


def measure(case: Case, runs: int) -> Figure:
    """Returns the median of several runs, each in a separate process."""
    say(f"{case.name}: {runs} run(s) ...")
    figures = [_run(case) for _ in range(runs)]
    if len({(figure.zones, figure.steps) for figure in figures}) > 1:
        raise SystemExit(f"{case.name}: runs differ in zones or steps")
    return middle(figures, lambda figure: figure.search_seconds)


def _run(case: Case) -> Figure:
    began = time.perf_counter()
    command = [sys.executable, __file__, "--one", json.dumps(asdict(case))]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    wall = time.perf_counter() - began
    found: dict[str, Any] = json.loads(output)
    if found.pop("verdict") != "holds":
        raise SystemExit(f"{case.name}: {case.query} should hold, but does not")
    return Figure(case, wall_seconds=wall, **found)


def run_one(case: Case) -> None:
    """Measures one case and prints one JSON object; the main function of a child process."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["VERISTREAM_CACHE"] = cache
        _warm_up()
        print(json.dumps(_measure_one(case)))


def _warm_up() -> None:
    """Loads the native search loops on a network of two zones."""
    from veristream.ir.text.read import read_network
    from veristream.library import check
    from veristream.source import Source

    text = """
network warm_up
timed
clock x
component A { location on initial clock x <= 1 location off edge on -> off { clock x >= 1 } }
property off: reachable A@off
"""
    check(read_network(Source("warm_up.net", text), {}))


def _measure_one(case: Case) -> dict[str, Any]:
    """Measures the case in this process; the search clock starts when its kernel is loaded."""
    from veristream.library import load
    from veristream.search.limits import Limits, silent
    from veristream.search.safety import Search
    from veristream.search.session import peak_memory_mib
    from veristream.search.zones.inquiry import inquire
    from veristream.search.zones.safety import REACH_FIRST, ZoneJudge, opening_zones_locally
    from veristream.verdict import word

    began = time.perf_counter()
    network = load(ROOT / case.folder / case.model, case.constants)
    asked = [one for one in network.properties if one.name == case.query]
    inquiry = inquire(network, asked, REACH_FIRST)
    compiled = time.perf_counter()
    with opening_zones_locally(Limits())(inquiry) as zones:
        judge = ZoneJudge.of(inquiry, zones)
        search = Search(inquiry.cases, judge, zones, (Limits(), silent), time.monotonic())
        search.run()
    ended = time.perf_counter()
    (result,) = search.results().values()
    return {
        "verdict": word(result.verdict),
        "zones": result.effort.states,
        "steps": result.effort.transitions,
        "compile_seconds": compiled - began,
        "search_seconds": ended - compiled,
        "memory_mib": peak_memory_mib(),
    }


GROWTH_HEAD = (
    "case",
    "zones",
    "steps",
    "times more zones",
    "search s",
    "times longer",
    "k zones/s",
    "compile s",
    "whole s",
    "MiB",
)


def growth_rows(figures: Sequence[Figure]) -> list[list[str]]:
    """Formats each figure beside the one before it."""
    return [_growth_row(figure, before) for figure, before in zip(figures, [None, *figures], strict=False)]


def _growth_row(figure: Figure, before: Figure | None) -> list[str]:
    return [
        ", ".join(f"{name}={value}" for name, value in figure.case.constants.items()),
        f"{figure.zones:,}",
        f"{figure.steps:,}",
        "" if before is None else f"{figure.zones / before.zones:.2f}",
        f"{figure.search_seconds:.4f}",
        "" if before is None else f"{figure.search_seconds / before.search_seconds:.2f}",
        f"{figure.zones / figure.search_seconds / 1000:,.0f}",
        f"{figure.compile_seconds:.2f}",
        f"{figure.wall_seconds:.2f}",
        f"{figure.memory_mib:,.0f}",
    ]


DESIGN_HEAD = ("case", "zones", "steps", "search s", "k zones/s", "compile s", "whole s", "MiB")


def design_row(figure: Figure) -> list[str]:
    """Formats a figure of a design."""
    constants = [f"{name}={value}" for name, value in figure.case.constants.items()]
    return [
        " ".join([figure.case.name, *constants]),
        f"{figure.zones:,}",
        f"{figure.steps:,}",
        f"{figure.search_seconds:.3f}",
        f"{figure.zones / figure.search_seconds / 1000:,.0f}",
        f"{figure.compile_seconds:.2f}",
        f"{figure.wall_seconds:.2f}",
        f"{figure.memory_mib:,.0f}",
    ]


PAPER_HEAD = (
    "figure 12",
    "zones",
    "steps",
    "seconds: paper",
    "search",
    "compile",
    "whole",
    "MiB: paper",
    "ours",
    "times faster: search",
    "whole",
)


def paper_row(published: Published, figure: Figure) -> list[str]:
    """Formats our figures beside the paper's."""
    return [
        figure.case.name,
        f"{figure.zones:,}",
        f"{figure.steps:,}",
        f"{published.seconds:.2f}",
        f"{figure.search_seconds:.2f}",
        f"{figure.compile_seconds:.2f}",
        f"{figure.wall_seconds:.2f}",
        f"{published.memory_mib:,.0f}",
        f"{figure.memory_mib:,.0f}",
        f"{published.seconds / figure.search_seconds:.1f}",
        f"{published.seconds / figure.wall_seconds:.1f}",
    ]


def ratios_of(
    fischer: Sequence[Figure], queue: Sequence[Figure], paper: Sequence[tuple[Published, Figure]]
) -> dict[str, float]:
    """Returns the speedups over the paper, and the growth factor of the last step of each series."""
    found: dict[str, float] = {}
    for published, figure in paper:
        found[f"{figure.case.name}_over_paper"] = published.seconds / figure.search_seconds
        found[f"{figure.case.name}_whole_over_paper"] = published.seconds / figure.wall_seconds
        found[f"{figure.case.name}_memory_of_paper"] = figure.memory_mib / published.memory_mib
    for name, figures in (("fischer", fischer), ("queue", queue)):
        before, last = figures[-2:]
        found[f"{name}_growth_zones"] = last.zones / before.zones
        found[f"{name}_growth_seconds"] = last.search_seconds / before.search_seconds
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run each case once instead of three times")
    parser.add_argument("--one", metavar="CASE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        run_one(Case(**json.loads(options.one)))
        return
    runs = 1 if options.quick else 3
    fischer = [measure(case, runs) for case in FISCHER_CASES]
    queue = [measure(case, runs) for case in QUEUE_CASES]
    paper = [(published, measure(published.case, runs)) for published in FIGURE_12]
    designs = [measure(case, runs) for case in DESIGN_CASES]
    table(f"Fischer's protocol: {EXCLUSION}", GROWTH_HEAD, growth_rows(fischer))
    table(f"RabbitMQ, N places and MESSAGES messages: {SECURITY}", GROWTH_HEAD, growth_rows(queue))
    table(f"RabbitMQ beside its paper: {SECURITY}", PAPER_HEAD, [paper_row(*both) for both in paper])
    table("Models in the manner of real designs", DESIGN_HEAD, [design_row(one) for one in designs])
    say("  paper: UPPAAL's figures as published, from another machine and the authors' own model;")
    say("  UPPAAL is not installed here and was not run")
    say("  ours: measured here; `whole` begins with an empty kernel cache, MiB is the peak of the process")
    finish(
        "timed",
        ratios_of(fischer, queue, paper),
        {
            "cases": [
                asdict(figure) for figure in [*fischer, *queue, *(figure for _, figure in paper), *designs]
            ],
            "paper": {
                "source": PAPER,
                **{
                    one.case.name: {"seconds": one.seconds, "memory_kb": one.memory_kb} for one in FIGURE_12
                },
            },
            "peer": "UPPAAL is not installed here and was not run",
            "quick": bool(options.quick),
        },
    )


if __name__ == "__main__":
    main()
