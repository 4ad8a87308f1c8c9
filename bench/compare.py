#!/usr/bin/env python3
"""Compares the speed of this checkout with that of another commit: `make compare BASE=COMMIT`.

Both commits run the same explorations alternately on this machine, each with a kernel cache and a Numba
cache of its own, after a run that fills them. The ratio is the median time of the base divided by ours:
above 1, ours is faster. Beside it is the range of the ratios of neighbouring runs; if the range includes
1, the runs do not show a difference. All states are searched at both commits, without reductions.

Philosophers and the message queue are explored as in `local.py`, with the commit's own `_explore.py`.
Liveness, refinement and zones are checked as users do, by `_check.py`. A case that the base cannot run is
reported and left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _commits import Code, ours, resolve, unpack, workplace
from _measure import ROOT, finish, say, table

RUNS_MIN = 5
EXCLUSION = "A[] forall (i : id_t) forall (j : id_t) P(i).cs && P(j).cs imply i == j"


@dataclass(frozen=True)
class Case:
    """A model with constants for the full and the quick run; with a property, that is checked."""

    name: str
    model: str
    full: dict[str, int]
    quick: dict[str, int]
    workers: int = 1
    property: str | None = None

    def words(self, code: Code, quick: bool) -> list[str]:
        """Returns the arguments of Python that run this case with the code of a commit."""
        settings = [f"{name}={value}" for name, value in (self.quick if quick else self.full).items()]
        model = str(ROOT / self.model)
        if self.property is None:
            return [str(code.root / "bench" / "_explore.py"), model, str(self.workers), *settings]
        script = str(ROOT / "bench" / "_check.py")
        return [script, model, self.property, str(self.workers), *settings]


def _exploration(model: str, workers: int, full: dict[str, int], quick: dict[str, int]) -> Case:
    return Case(f"{model}_{workers}", f"bench/models/{model}.net", full, quick, workers)


CASES = (
    *(_exploration("philosophers", workers, {"N": 10}, {"N": 9}) for workers in (1, 2)),
    *(
        _exploration("message_queue", workers, {"ROOM": 5}, {"MESSAGES": 2, "ROOM": 5})
        for workers in (1, 2)
    ),
    Case(
        "liveness",
        "models/philosophers/philosophers.net",
        {"N": 12, "ORDERED": 1},
        {"N": 11, "ORDERED": 1},
        property="nobody_starves",
    ),
    Case("refinement", "bench/models/cells.net", {"N": 13}, {"N": 12}, property="is_a_queue"),
    Case("zones", "models/uppaal/fischer.xml", {"N": 8}, {"N": 7}, property=EXCLUSION),
)


@dataclass(frozen=True)
class Sample:
    """One measured run."""

    states: int
    search_seconds: float
    cpu_seconds: float  # of the whole process, which a busy machine disturbs less


@dataclass(frozen=True)
class Comparison:
    """The runs of one case, in pairs: the base's and ours, one right after the other."""

    case: str
    base: list[Sample] = field(default_factory=list)
    ours: list[Sample] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median time of the base divided by ours."""
        return ratio_of_medians(_times(self.base), _times(self.ours))

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest ratio of a pair."""
        return spread_of_pairs(_times(self.base), _times(self.ours))

    @property
    def same_states(self) -> bool:
        """Whether all runs counted the same states."""
        return len({sample.states for sample in [*self.base, *self.ours]}) == 1

    def row(self) -> list[str]:
        """Formats the comparison as a table row."""
        least, greatest = self.spread
        return [
            self.case,
            f"{self.ours[0].states:,}" + ("" if self.same_states else f" (base: {self.base[0].states:,})"),
            f"{median(_times(self.base)):.3f}",
            f"{median(_times(self.ours)):.3f}",
            f"{self.ratio:.2f}",
            f"{least:.2f}..{greatest:.2f}",
        ]


HEAD = ("case", "states", "base s", "ours s", "base / ours", "of pairs")


def ratio_of_medians(base: Sequence[float], ours: Sequence[float]) -> float:
    """Returns how many times faster ours is, by the medians."""
    return median(base) / median(ours)


def spread_of_pairs(base: Sequence[float], ours: Sequence[float]) -> tuple[float, float]:
    """Returns the least and the greatest ratio of runs that followed each other."""
    ratios = [theirs / own for theirs, own in zip(base, ours, strict=True)]
    return min(ratios), max(ratios)


def _times(samples: Sequence[Sample]) -> list[float]:
    return [sample.search_seconds for sample in samples]


def read_sample(output: str, cpu_seconds: float) -> Sample:
    """Reads the last line of a run's output."""
    found = json.loads(output.strip().splitlines()[-1])
    return Sample(int(found["states"]), float(found["search_seconds"]), cpu_seconds)


class UnableError(Exception):
    """The code of a commit cannot run a case."""


def measure(case: Case, code: Code, quick: bool) -> Sample:
    """Runs the case once; raises UnableError if the commit has no such model, property or search."""
    ran = code.python(*case.words(code, quick))
    if ran.code != 0:
        raise UnableError((ran.errors.strip().splitlines() or ["it printed nothing"])[-1])
    return read_sample(ran.output, ran.cpu_seconds)


def compare(case: Case, base: Code, own: Code, runs: int, quick: bool) -> Comparison | str:
    """Runs the case alternately; returns why not if the base is unable to."""
    say(f"{case.name}: {runs} pairs ...")
    try:
        measure(case, base, quick)
    except UnableError as reason:
        return f"{base.label} cannot run it: {reason}"
    try:
        measure(case, own, quick)
    except UnableError as reason:
        raise SystemExit(f"{case.name}: this checkout cannot run it: {reason}") from reason
    found = Comparison(case.name)
    for number in range(runs):
        # The order changes from pair to pair, so that neither is always the one after a pause.
        sides = [(base, found.base), (own, found.ours)]
        for code, samples in sides if number % 2 == 0 else reversed(sides):
            samples.append(measure(case, code, quick))
    return found


def ratios_of(found: Sequence[Comparison]) -> dict[str, float]:
    """Returns the ratio of each case, with the ends of its spread, and the worst ratio."""
    ratios = {}
    for one in found:
        least, greatest = one.spread
        ratios |= {one.case: one.ratio, f"{one.case}_min": least, f"{one.case}_max": greatest}
    return ratios | ({"worst": min(one.ratio for one in found)} if found else {})


def read_options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line; a wrong base ends the program before anything is measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", metavar="BASE", help="the commit to compare with")
    parser.add_argument("--ours", metavar="COMMIT", help="compare this commit instead of this checkout")
    parser.add_argument("--quick", action="store_true", help="use smaller models")
    parser.add_argument("--runs", type=int, default=RUNS_MIN, help=f"pairs of runs, at least {RUNS_MIN}")
    parser.add_argument("--only", metavar="CASE", action="append", help="run only this case; repeatable")
    options = parser.parse_args(words)
    if options.runs < RUNS_MIN:
        parser.error(f"fewer than {RUNS_MIN} pairs show nothing")
    names = [case.name for case in CASES]
    if wrong := [name for name in options.only or [] if name not in names]:
        parser.error(f"there is no case {wrong[0]}: choose from {', '.join(names)}")
    for name in (options.base, options.ours):
        if name is not None:
            resolve(name)
    return options


def main() -> None:
    options = read_options()
    chosen = [case for case in CASES if options.only is None or case.name in options.only]
    found: list[Comparison] = []
    left_out: dict[str, str] = {}
    with workplace() as place:
        base = unpack(options.base, place / "base")
        own = ours(place) if options.ours is None else unpack(options.ours, place / "ours")
        say(f"base: {base.label}, ours: {own.label}; filling the caches takes a minute or two")
        for case in chosen:
            match compare(case, base, own, options.runs, options.quick):
                case Comparison() as one:
                    found.append(one)
                case str() as reason:
                    left_out[case.name] = reason
    table(f"{own.label} compared with {base.label}", HEAD, [one.row() for one in found])
    say("  base / ours: the ratio of medians, above 1 where ours is faster; of pairs: its range")
    for name, reason in left_out.items():
        say(f"  {name}: left out, {reason}")
    figures: dict[str, Any] = {
        "base": base.label,
        "ours": own.label,
        "cases": {one.case: asdict(one) for one in found},
        "left_out": left_out,
        "quick": bool(options.quick),
    }
    finish("compare", ratios_of(found), figures)


if __name__ == "__main__":
    main()
