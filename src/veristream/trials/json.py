"""Trials as JSON; every key here is part of the public interface."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from veristream.trials.comparison import Agreement, Comparison, Tried
from veristream.trials.intruders.comparison import Attacked
from veristream.trials.intruders.json import to_trial


def render_trials(
    tried: Sequence[Tried], attacked: Sequence[Attacked] = (), replays: Sequence[dict[str, Any]] = ()
) -> str:
    """Renders the output of `veristream reproduce --real --json`; replays are documents already."""
    document: dict[str, Any] = {"trials": [*map(_trial, tried), *map(to_trial, attacked)]}
    if replays:
        document["replays"] = list(replays)
    return json.dumps(document, indent=2, ensure_ascii=False)


def _trial(tried: Tried) -> dict[str, Any]:
    trial = tried.trial
    return {
        "broker": trial.broker,
        "trial": trial.name,
        "about": trial.about,
        "settings": dict(trial.settings),
        "workload": trial.workload,
        "faults": trial.faults,
        "history": tried.audit.history,
        "events": tried.audit.events,
        "results": [_result(one) for one in tried.comparisons],
    }


def _result(one: Comparison) -> dict[str, Any]:
    """Returns a row; `agrees` is null if the history does not decide the property."""
    is_decided = one.agreement is not Agreement.NOT_OBSERVABLE
    return {
        "property": one.pair.property.value,
        "model": one.model.name,
        "file": f"models/{one.model.path.parent.name}/{one.model.path.name}",
        "constants": dict(one.model.constants),
        "model_property": one.pair.model_property,
        "model_verdict": one.model_verdict,
        "verdict": str(one.judgement.word),
        "reason": one.judgement.reason,
        "counts": dict(one.judgement.counts),
        "agrees": one.agreement is Agreement.AGREES if is_decided else None,
        "explanation": one.explanation,
    }
