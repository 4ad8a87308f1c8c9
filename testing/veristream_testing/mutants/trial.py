"""Checks mutants as the command does, each with an outcome; as a program, those of a range of numbers.

An outcome is a verdict or a refusal that says where and why; anything else is a defect. The program runs
apart from whoever asks for it, since a defect may end the process.
"""

from __future__ import annotations

import faulthandler
import json
import resource
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from veristream import library
from veristream.cli.choices import look
from veristream.cli.failure import Exit, exit_of
from veristream.errors import EnvironmentFailure, ModelError
from veristream.report import json as as_json
from veristream.report import text as as_text
from veristream.search.limits import Limits
from veristream.source import NOWHERE
from veristream.verdict import Result, Unknown, Violated
from veristream_testing.mutants.mutation import mutant
from veristream_testing.mutants.samples import Sample
from veristream_testing.mutants.shrink import shrink

LIMITS = Limits(workers=1, states_max=2000, seconds_max=2.0, memory_max_mib=256, reduction=True)
ADDRESS_SPACE_BYTES = 16 << 30
"""Searches reserve more than they use, several times what they may use."""
WITHOUT_TRACE = ("reachable", "potentially")
"""No single run shows that these are violated."""
CLEANED_EVERY = 200
"""Kernels of so many mutants stay on the disk."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a mutant, and a detail: `verdict`, `refusal`, `environment`, or the name of a defect.

    The environment refuses what is too large for this process: the zones of many clocks, for example.
    """

    kind: str
    detail: str = ""

    @property
    def is_defect(self) -> bool:
        """Whether the product should have done something else."""
        return self.kind not in ("verdict", "refusal", "environment")

    def resembles(self, other: Outcome) -> bool:
        """Whether both are the same defect: of one kind, with the same last line."""
        return self.kind == other.kind and self.detail.splitlines()[-1:] == other.detail.splitlines()[-1:]


def attempt(sample: Sample, folder: Path) -> Outcome:
    """Checks a model under limits; writes it into the folder."""
    path = sample.write(folder)
    try:
        networks = library.load_all(path)
        results = library.check(networks, limits=LIMITS)
        as_text.render_results(results, look(True, networks))
        json.loads(as_json.render_check("model", "local", results))
        return _outcome(results)
    except ModelError as error:
        return _refusal(error)
    except EnvironmentFailure as error:
        return Outcome("environment", error.message)
    except MemoryError:
        return Outcome("memory", traceback.format_exc())
    except Exception:  # noqa: BLE001 - a defect, whatever it is
        return Outcome("exception", traceback.format_exc())


def _outcome(results: Sequence[Result]) -> Outcome:
    for result in results:
        verdict = result.verdict
        if isinstance(verdict, Violated) and verdict.trace is None and result.kind not in WITHOUT_TRACE:
            return Outcome("no trace", f"{result.property} ({result.kind}) is violated without a trace")
        if isinstance(verdict, Unknown) and not verdict.reason and verdict.fault is None:
            return Outcome("no reason", f"{result.property} is unknown without a reason")
    return Outcome("verdict", Exit(exit_of(results)).name)


def _refusal(error: ModelError) -> Outcome:
    text = error.render()
    if not error.message.strip():
        return Outcome("empty refusal", text)
    if error.span.source is NOWHERE.source and "is empty" not in error.message:
        return Outcome("refusal without a place", text)
    return Outcome("refusal", text.splitlines()[0])


def run_range(numbers: Sequence[int]) -> None:
    """Checks the mutants of these numbers; writes a line before and after each on stdout."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    with tempfile.TemporaryDirectory() as name:
        folder, kernels = Path(name), Path(name) / "kernels"
        _keep_kernels_in(kernels)
        for count, number in enumerate(numbers):
            _write({"number": number})
            sample = mutant(number)
            outcome = attempt(sample, folder)
            if outcome.is_defect:
                sample = shrink(sample, lambda one: attempt(one, folder).resembles(outcome))  # noqa: B023
            _write({"number": number, **asdict(outcome), **asdict(sample)})
            if count % CLEANED_EVERY == CLEANED_EVERY - 1:
                shutil.rmtree(kernels, ignore_errors=True)


def _keep_kernels_in(folder: Path) -> None:
    """Kernels of mutants do not fill the user's cache; the loops, compiled once, come from there."""
    from veristream.kernel import load

    load.cache_directory = lambda: folder


def _write(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    first, end, step = map(int, sys.argv[1:])
    run_range(range(first, end, step))
