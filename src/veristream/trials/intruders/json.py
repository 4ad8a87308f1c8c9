"""Attacks as JSON, in the form of trials; every key here is part of the public interface."""

from __future__ import annotations

from typing import Any

from veristream.trials.intruders.comparison import Agreement, Attacked, Cell
from veristream.trials.intruders.outcomes import BROKER
from veristream.trials.intruders.words import show_file


def to_trial(attacked: Attacked) -> dict[str, Any]:
    """Returns an entry of `trials` in the output of `veristream reproduce --real --json`."""
    configuration = attacked.configuration
    return {
        "broker": BROKER,
        "trial": configuration.name,
        "about": configuration.about,
        "settings": configuration.settings,
        "workload": "an honest producer and an honest consumer",
        "faults": "an eavesdropper and an intruder",
        "history": None,
        "events": None,
        "results": [_result(cell) for cell in attacked.cells],
    }


def _result(cell: Cell) -> dict[str, Any]:
    """Returns a row; without a model, what the model says is null."""
    counterpart, model = cell.expected.counterpart, cell.model
    is_compared = cell.agreement is not Agreement.NO_COUNTERPART
    return {
        "property": cell.expected.attack.value,
        "model": model.name if model else None,
        "file": f"models/{show_file(cell)}" if model else None,
        "constants": dict(model.constants) if model else {},
        "model_property": counterpart.property if counterpart else None,
        "model_verdict": cell.model_verdict,
        "verdict": cell.observation.outcome.value,
        "reason": cell.observation.reason,
        "counts": dict(cell.observation.counts),
        "agrees": cell.agreement is Agreement.AGREES if is_compared else None,
        "explanation": cell.expected.why,
        "expected": cell.is_as_expected,
    }
