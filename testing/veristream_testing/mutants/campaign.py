"""Checks many mutants in a process of their own, which a defect may end; counts what became of them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from veristream_testing.mutants.mutation import mutant
from veristream_testing.mutants.samples import ROOT, Sample
from veristream_testing.mutants.trial import Outcome

COMMAND = (sys.executable, "-m", "veristream_testing.mutants.trial")
SECONDS_MAX = 600.0
"""No mutant takes so long, not even one for which search loops are compiled first on a busy machine."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A mutant that shows a defect, made smaller where that was possible."""

    number: int
    outcome: Outcome
    sample: Sample

    def render(self) -> str:
        """Returns what is wrong, and the model."""
        queries = "" if self.sample.queries is None else f"--- queries\n{self.sample.queries}"
        head = f"mutant {self.number} of {self.sample.name}: {self.outcome.kind}\n{self.outcome.detail}"
        return f"{head}\n--- model{self.sample.suffix}\n{self.sample.text}{queries}"


@dataclass(slots=True)
class Campaign:
    """What became of mutants: how many had each outcome, and the defects."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def note(self, finding: Finding) -> None:
        """Counts an outcome; remembers it if it is a defect."""
        outcome = finding.outcome
        self.counts[f"verdict {outcome.detail}" if outcome.kind == "verdict" else outcome.kind] += 1
        if outcome.is_defect:
            self.findings.append(finding)


def run_mutants(numbers: range) -> Campaign:
    """Checks the mutants of these numbers; continues after one that ends the process."""
    campaign = Campaign()
    while numbers:
        last: int | None = None
        for finding in _until_the_end(numbers):
            campaign.note(finding)
            last = finding.number
        assert last is not None, "the process ended before its first mutant"
        numbers = numbers[numbers.index(last) + 1 :]
    return campaign


def _until_the_end(numbers: range) -> Iterator[Finding]:
    """Yields the outcomes of a process, and of the mutant it stopped at if it does not end by itself."""
    arguments = [str(number) for number in (numbers.start, numbers.stop, numbers.step)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "testing"), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            [*COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": path.strip(os.pathsep)},
        ) as process:
            begun: int | None = None
            for line in _lines(process):
                if "kind" in line:
                    begun = None
                    yield _finding(line)
                else:
                    begun = line["number"]
            stopped = process.poll() is None
            process.kill()
        if stopped or process.returncode != 0:
            errors.seek(0)
            kind = "no end" if stopped else "abort"
            detail = f"exit code {process.returncode}\n{errors.read()[-4000:]}"
            assert begun is not None, detail
            yield Finding(begun, Outcome(kind, detail), mutant(begun))


def _lines(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    """Yields what the process writes, until it ends or writes nothing for too long."""
    assert process.stdout is not None
    rest = b""
    while select.select([process.stdout], [], [], SECONDS_MAX)[0]:
        data = os.read(process.stdout.fileno(), 1 << 16)
        if not data:
            process.wait()
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield json.loads(line)


def _finding(line: dict[str, Any]) -> Finding:
    sample = Sample(line["name"], line["suffix"], line["text"], line["queries"])
    return Finding(line["number"], Outcome(line["kind"], line["detail"]), sample)


def save(finding: Finding, folder: Path) -> Path:
    """Writes the model, and beside it what is wrong; returns the path of the model."""
    place = folder / f"mutant-{finding.number}"
    place.mkdir(parents=True, exist_ok=True)
    (place / "finding.txt").write_text(finding.render(), encoding="utf-8")
    (place / "finding.json").write_text(json.dumps(asdict(finding)), encoding="utf-8")
    return finding.sample.write(place)
