#!/usr/bin/env python3
"""Compares Veristream on a Python model of Kafka's transactions with TLC on its exported TLA+.

For one and two workers: distinct states per second of search, the time to compile or load, and the total
time. Both tools check the model's invariants, and neither uses symmetry. In a small configuration, both
explore everything and must find the same number of states, or the benchmark fails. In the large one, of
at least a million states, TLC is stopped after a while, and its last progress report yields its rate;
Veristream explores all states. Run it on an otherwise idle machine.

The exported TLA+ is flat: sets are masks, bags are sorted arrays, every bound is tested. TLC would be
faster on a module written by hand, so the ratio shows what a user of the export sees, not the best that TLC
can do.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _explore import read
from _measure import ROOT, finish, middle, say, table
from local import HEAD, Figure, Model, measure_ours

from veristream.errors import EnvironmentFailure
from veristream.export.tla import to_tla
from veristream_testing.peers import PeerRun, run_tlc

STATES_MIN = 1_000_000  # of the full run
AFTER = {"CLIENT": 1, "VERSION": 2, "VERIFY": 1}  # the protocol after KIP-890
SMALL = {
    **AFTER,
    "FAILOVERS": 0,
    "TRANSACTIONS": 1,
}  # both finish on it, so that their counts can be compared
TLC_SECONDS = 130.0  # TLC reports once a minute


@dataclass(frozen=True)
class KnownModel(Model):
    """A Python model in the folder `models`, named by its path there."""

    @property
    def path(self) -> Path:
        """The model's file."""
        return ROOT / "models" / f"{self.name}.py"


TRANSACTIONS = KnownModel(
    "kafka_transactions/transactions",
    full={**AFTER, "TRANSACTIONS": 3, "PARTITIONS": 1, "FAILOVERS": 1},
    quick={**AFTER, "TRANSACTIONS": 3, "PARTITIONS": 1, "FAILOVERS": 1},
)


def measure_tlc(model: Model, constants: dict[str, int], workers: int, runs: int) -> Figure:
    """Measures TLC on the exported model."""
    exported = to_tla(read(model.path, constants), "Model")
    found: list[PeerRun] = []
    for _ in range(runs):
        run = run_tlc(exported, workers=workers, timeout_s=TLC_SECONDS)
        if run.verdict not in ("complete", "unfinished") or not run.distinct_states:
            raise EnvironmentFailure(f"tlc did not explore {model.name}: {run.output[-2000:]}")
        found.append(run)
    run = middle(found, lambda entry: entry.search_seconds / (entry.distinct_states or 1))
    assert run.distinct_states is not None
    times = (run.compile_seconds, run.search_seconds, run.wall_seconds)
    return Figure("tlc", workers, run.distinct_states, run.transitions or 0, *times, None)


def measure(model: Model, constants: dict[str, int], quick: bool) -> list[Figure]:
    """Measures both tools with one and with two workers."""
    runs = 1 if quick else 3
    figures = []
    for workers in (1, 2):
        say(f"{model.name}: veristream, {workers} worker(s), {runs} run(s) ...")
        figures.append(measure_ours(model, constants, workers, runs))
        say(f"{model.name}: tlc, {workers} worker(s), {runs} run(s) ...")
        figures.append(measure_tlc(model, constants, workers, runs))
    table(f"{model.name} {constants}", HEAD, [figure.row() for figure in figures])
    ours = min(figure.states for figure in figures if figure.tool == "veristream")
    if ours < STATES_MIN:
        raise SystemExit(f"{model.name} has {ours:,} states, too few to measure")
    return figures


def compare_counts(model: Model, constants: dict[str, int]) -> int:
    """Returns the number of states that both tools find; exits if they disagree."""
    say(f"{model.name} {constants}: both to the end ...")
    ours = measure_ours(model, constants, 1, 1)
    run = run_tlc(to_tla(read(model.path, constants), "Model"), timeout_s=20 * TLC_SECONDS)
    if run.verdict != "complete" or run.distinct_states != ours.states:
        raise SystemExit(f"the tools disagree: we find {ours.states} states, TLC {run.distinct_states}")
    return ours.states


def ratios_of(figures: list[Figure]) -> dict[str, float]:
    """Returns our rates over TLC's, and two workers over one."""
    by = {(figure.tool, figure.workers): figure for figure in figures}
    ours, tlc = by["veristream", 1], by["tlc", 1]
    return {
        "over_tlc": ours.rate / tlc.rate,
        "two_workers_over_one": by["veristream", 2].rate / ours.rate,
        "two_workers_over_tlc": by["veristream", 2].rate / by["tlc", 2].rate,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use a smaller configuration and one run each")
    parser.add_argument("-D", action="append", default=[], metavar="NAME=VALUE", help="override a constant")
    options = parser.parse_args()
    quick = bool(options.quick)
    chosen = {name: int(value) for name, _, value in (text.partition("=") for text in options.D)}
    constants = chosen or (TRANSACTIONS.quick if quick else TRANSACTIONS.full)
    agreed = compare_counts(TRANSACTIONS, SMALL)
    figures = measure(TRANSACTIONS, constants, quick)
    ratios = ratios_of(figures)
    table("ratios", ("ratio", "times"), [[key, f"{value:.2f}"] for key, value in ratios.items()])
    details = [figure.__dict__ | {"states_per_second": figure.rate} for figure in figures]
    finish(
        "actions",
        ratios,
        {
            "model": TRANSACTIONS.name,
            "constants": constants,
            "tools": details,
            "equal_counts": {"constants": SMALL, "states": agreed},
            "quick": quick,
        },
    )


if __name__ == "__main__":
    main()
