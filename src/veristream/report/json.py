"""Renders results as JSON; every key here is part of the public interface."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from veristream.source import NOWHERE
from veristream.verdict import Holds, Invalid, Result, Step, Trace, Verdict, word

if TYPE_CHECKING:  # a check has none of these
    from veristream.expected import KnownRun, Outcome, Reproduction
    from veristream.known import Copied, KnownFolder


class _Line(dict[str, Any]):
    """An object that is written on one line."""


def render_check(model: str, engine: str, results: Sequence[Result]) -> str:
    """Renders the output of `veristream check --json`."""
    return _dump({"model": model, "engine": engine, "results": [_result(one) for one in results]})


def render_reproductions(reproductions: Sequence[Reproduction]) -> str:
    """Renders the output of `veristream reproduce --json`."""
    return _dump({"models": [_reproduction(one) for one in reproductions]})


def render_models(folders: Sequence[KnownFolder], copied: Copied | None = None) -> str:
    """Renders the output of `veristream models --json`; with `--copy`, it lists the copied files too."""
    document: dict[str, Any] = {"models": [_known_folder(one) for one in folders]}
    if copied is not None:
        document["copied"] = [str(path) for path in copied.written]
        document["kept"] = [str(path) for path in copied.kept]
    return _dump(document)


def render_run(model: str, seed: int, trace: Trace) -> str:
    """Renders the output of `veristream simulate --json`."""
    return _dump({"model": model, "seed": seed, "trace": _trace(trace)})


def render_known_runs(folder: str, runs: Sequence[tuple[KnownRun, Trace]]) -> str:
    """Renders the output of `veristream simulate --json` for a folder that lists its runs."""
    return _dump({"model": folder, "runs": [_known_run(run, trace) for run, trace in runs]})


def full_reason(verdict: Verdict) -> str:
    """Returns the verdict's reason; for a lasso, it adds where the loop begins, as the steps cannot say."""
    trace, reason = verdict.trace, verdict.reason
    if trace is None or trace.loop is None or "leads back to" in reason:
        return reason
    loop = f"the last step leads back to step {trace.loop}"
    return f"{reason}; {loop}" if reason else loop


_encode = json.JSONEncoder(ensure_ascii=False).encode


def _dump(value: object, margin: str = "\n") -> str:
    """Writes a value with an indent, but each step on one line: there may be many, and `json` is
    fast only without an indent."""
    inner = margin + "  "
    if isinstance(value, dict) and value and not isinstance(value, _Line):
        items = [f"{inner}{_encode(key)}: {_dump(item, inner)}" for key, item in value.items()]
        return f"{{{','.join(items)}{margin}}}"
    if isinstance(value, list) and value:
        return f"[{','.join([inner + _dump(item, inner) for item in value])}{margin}]"
    return _encode(value)


def _known_folder(folder: KnownFolder) -> dict[str, Any]:
    models = [
        {"name": one.name, "file": one.path.name, "constants": dict(one.constants)} for one in folder.models
    ]
    return {
        "name": folder.name,
        "about": folder.about,
        "paper": folder.paper,
        "files": [path.as_posix() for path in folder.files],
        "models": models,
    }


def _result(result: Result) -> dict[str, Any]:
    verdict, effort = result.verdict, result.effort
    document: dict[str, Any] = {
        "property": result.property,
        "kind": result.kind,
        "verdict": word(verdict),
        "reason": full_reason(verdict),
        "vacuous": verdict.vacuous if isinstance(verdict, Holds) else None,
        "states": effort.states,
        "transitions": effort.transitions,
        "depth": effort.depth,
        "seconds": round(effort.seconds, 6),
        "memory_mib": round(effort.memory_mib, 3),
        "trace": None if verdict.trace is None else _trace(verdict.trace),
    }
    if isinstance(verdict, Invalid):
        document["place"] = "" if verdict.span.source is NOWHERE.source else verdict.span.place
        document["hint"] = verdict.hint
    if effort.reduced:
        document["reduced"] = True
    if effort.depth_first:
        document["order"] = "depth"
    if effort.hash_bits is not None:
        document["hash_bits"] = effort.hash_bits
        document["omission_probability"] = verdict.omission
    if effort.spread is not None:
        document["spread"] = asdict(replace(effort.spread, skew=round(effort.spread.skew, 3)))
    return document


def _trace(trace: Trace) -> list[_Line]:
    return [_step(step) for step in trace.steps]


def _step(step: Step) -> _Line:
    document = _Line(action=step.action, process=step.process)
    if step.delay is not None:
        document["delay"] = int(step.delay) if step.delay.is_integer() else step.delay
    document["state"] = dict(step.state)
    return document


def _known_run(run: KnownRun, trace: Trace) -> dict[str, Any]:
    chosen = {"seed": run.seed} if run.goal is None else {"goal": run.goal}
    return {"title": run.title, "model": run.path.name, **chosen, "trace": _trace(trace)}


def _reproduction(reproduction: Reproduction) -> dict[str, Any]:
    model = reproduction.model
    results = [_outcome(outcome) for outcome in reproduction.outcomes]
    return {"model": model.name, "paper": model.paper, "results": results}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    expectation = outcome.expectation
    document = _result(outcome.result)
    document["expected"] = expectation.verdict
    document["source"] = expectation.source
    if expectation.meant_by is not None:
        document["meant_by"] = expectation.meant_by
    return document
