"""Finds the run to replay: a counterexample that a check finds now, or one that `check --json` printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from veristream import library
from veristream.errors import ModelError, suggest
from veristream.search.limits import Limits
from veristream.verdict import Holds, Invalid, Step, Trace, Unknown, word

JSON: Final = ".json"
TELLS: Final = {
    "holds": "it holds",
    "violated": "no single run refutes it",
    "unknown": "it is not known",
    "error": "it is wrong",
}
"""Why a verdict has no run."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run of a model that decides a property, and the constants that it was found with.

    It refutes the property, or it is a `witness`: it reaches what is looked for.
    """

    model: Path
    model_property: str
    trace: Trace
    constants: Mapping[str, int] = field(default_factory=dict)
    witness: bool = False


def find_run(path: Path, name: str, constants: Mapping[str, int]) -> Run:
    """Returns the run that refutes the property or reaches its goal; raises ModelError without one."""
    if path.suffix == JSON:
        return _read(path, name, constants)
    if not name:
        raise ModelError("a replay needs one property", hint="name it with -p")
    results = library.check(path, [name], constants=constants, limits=Limits(workers=1, reduction=False))
    result = results[0]
    verdict = result.verdict
    if isinstance(verdict, Unknown | Invalid) or verdict.trace is None:
        raise ModelError(
            f"{result.property} has no run to replay: {TELLS[word(verdict)]}",
            hint="a run of a model with other constants can be replayed from the JSON of its check",
        )
    return Run(path, result.property, verdict.trace, constants, isinstance(verdict, Holds))


def _read(path: Path, name: str, constants: Mapping[str, int]) -> Run:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        model, results = Path(document["model"]), document["results"]
        runs = {one["property"]: one for one in results if one["trace"] is not None}
    except FileNotFoundError as error:
        raise ModelError(
            f"{path} does not exist", hint="make it with `veristream check MODEL --json`"
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{path} is not what `veristream check --json` prints", hint="print a check into it once more"
        ) from error
    chosen = name or next(iter(runs), "")
    if chosen not in runs:
        what = f"no run of {name}" if name else "no run"
        raise ModelError(
            f"{path} has {what}", hint=suggest(name, runs, f"it has {', '.join(runs) or 'none'}")
        )
    if not model.exists():
        raise ModelError(f"{path} is of {model}, which does not exist", hint="run this where the check ran")
    found = runs[chosen]
    steps = tuple(_step(one, path) for one in found["trace"])
    return Run(model, chosen, Trace(steps), constants, found.get("verdict") == "holds")


def _step(document: Any, path: Path) -> Step:
    try:
        return Step(document["action"], document["process"], document["state"], document.get("delay"))
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"a step in {path} lacks its action, process or state") from error
