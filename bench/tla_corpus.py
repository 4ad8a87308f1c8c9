#!/usr/bin/env python3
"""Checks a collection of specifications in TLA+, and TLC does the same work in the same run.

The collection is a folder whose subfolders have a `manifest.json` each, as the public examples of TLA+
have: it says how many states each model has. A model is read correctly if its verdict, its distinct states,
the states generated and the depth are those of the manifest, or, where TLC with one worker prints others,
those.

Modules of theorems that the collection does not have stand empty for TLC; where TLC needs what they define,
its columns are empty, and the manifest is what we compare ourselves with.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from _measure import ROOT, finish, say, table

from veristream_testing.peers import find_tlc

EMPTY = (
    "TLAPS", "FiniteSetTheorems", "NaturalsInduction", "WellFoundedInduction", "FunctionTheorems",
    "SequenceTheorems",
)  # fmt: skip
LONG_S = 5.0
"""The speed is compared on models that take TLC longer than this."""

Counts = tuple[int, int, int]


@dataclass(frozen=True)
class Model:
    """A model of the collection, with the counts of its manifest."""

    name: str
    specification: Path
    config: Path
    result: str
    counts: Counts


@dataclass(frozen=True)
class Row:
    """What came of a model: counts are distinct, generated, depth."""

    name: str
    ours: Counts | None
    expected: Counts
    tlc: Counts | None
    seconds: float
    tlc_seconds: float | None
    reason: str

    @property
    def is_equal(self) -> bool:
        return not self.reason and self.ours in (self.expected, self.tlc)


def models(folder: Path) -> Iterator[Model]:
    """The models with recorded counts."""
    for manifest in sorted(folder.glob("*/manifest.json")):
        for module in json.loads(manifest.read_text())["modules"]:
            for one in module.get("models", []):
                if one.get("distinctStates") is None:
                    continue
                inside = [
                    manifest.parent.joinpath(*Path(path).parts[2:])
                    for path in (module["path"], one["path"])
                ]
                counts = (one["distinctStates"], one["totalStates"], one["stateDepth"])
                name = str(inside[1].relative_to(folder).with_suffix(""))
                yield Model(name, inside[0], inside[1], one["result"], counts)


def check(model: Model, seconds_max: float) -> tuple[Counts | None, float, str]:
    """Our counts, the time from the command to the verdicts, and why they are no answer, if so."""
    command = [sys.executable, "-m", "veristream.cli", "check", str(model.specification), "--json"]
    command += ["--config", str(model.config), "--max-seconds", str(seconds_max)]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if not done.stdout.startswith("{"):
        return None, seconds, (done.stderr.strip().splitlines() or ["no answer"])[0]
    results = json.loads(done.stdout)["results"]
    searched = [one for one in results if one["verdict"] != "error" and one["kind"] != "assumption"]
    found = [(one["states"], one["transitions"], one["depth"]) for one in searched]
    counts = max(found, default=(0, 0, 0))
    for one in results:
        if one["verdict"] != "holds" and model.result == "success":
            return counts, seconds, f"{one['property']}: {one['verdict']}, {one['reason']}"
    return counts, seconds, ""


def run_tlc(model: Model, seconds_max: float) -> tuple[Counts | None, float | None]:
    """The counts and the time of TLC with one worker; None if it cannot read the model or is too slow."""
    java, jar = find_tlc()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "models"
        shutil.copytree(model.specification.parent, folder)
        for name in EMPTY:
            if not (folder / f"{name}.tla").exists():
                (folder / f"{name}.tla").write_text(f"---- MODULE {name} ----\n====\n")
        command = [java, "-XX:+UseParallelGC", "-cp", str(jar), "tlc2.TLC", "-workers", "1"]
        command += ["-metadir", str(Path(place) / "states"), "-config", model.config.name]
        began = time.perf_counter()
        try:
            done = subprocess.run(
                [*command, model.specification.name],
                cwd=folder, capture_output=True, text=True, timeout=seconds_max, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return None, None
        seconds = time.perf_counter() - began
    found = re.findall(r"([\d,]+) states generated, ([\d,]+) distinct states found", done.stdout)
    depth = re.findall(r"graph search is (\d+)", done.stdout)
    if not found or not depth:
        return None, None
    generated, distinct = (int(one.replace(",", "")) for one in found[-1])
    return (distinct, generated, int(depth[0])), seconds


def measure(model: Model, seconds_max: float) -> Row:
    ours, seconds, reason = check(model, seconds_max)
    tlc, tlc_seconds = run_tlc(model, seconds_max)
    row = Row(model.name, ours, model.counts, tlc, seconds, tlc_seconds, reason)
    say(f"  {'equal' if row.is_equal else 'NOT EQUAL'}  {model.name}  {row.reason}")
    return row


def show(counts: Counts | None) -> str:
    return "" if counts is None else " / ".join(f"{one:,}" for one in counts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the collection")
    parser.add_argument("--seconds", type=float, default=600.0, help="the limit for each model and tool")
    parser.add_argument("--only", default="", help="models whose name contains this")
    asked = parser.parse_args()
    found = [measure(one, asked.seconds) for one in models(asked.folder) if asked.only in one.name]
    rows = [
        [
            one.name, "yes" if one.is_equal else "no", show(one.ours), show(one.expected), show(one.tlc),
            f"{one.seconds:.2f}", "" if one.tlc_seconds is None else f"{one.tlc_seconds:.2f}",
        ]
        for one in found
    ]  # fmt: skip
    head = ("model", "equal", "ours", "manifest", "TLC", "ours s", "TLC s")
    table("distinct / generated / depth", head, rows)
    long = [one for one in found if one.is_equal and (one.tlc_seconds or 0.0) > LONG_S]
    ratios = {one.name: (one.tlc_seconds or 0.0) / one.seconds for one in long}
    mean = prod(ratios.values()) ** (1 / len(ratios)) if ratios else 0.0
    equal = sum(one.is_equal for one in found)
    say(f"\n{equal} of {len(found)} models equal; geometric mean over {len(long)} long ones: {mean:.3f}")
    finish("tla_corpus", {"whole_run": mean}, {"equal": equal, "models": [asdict(one) for one in found]})


if __name__ == "__main__":
    main()
