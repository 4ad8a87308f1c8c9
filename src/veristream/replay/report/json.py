"""A replay as JSON; every key here is part of the public interface."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from veristream.history.report.json import document_of
from veristream.replay.listed import Compared
from veristream.replay.outcome import Replayed, explain, outcome
from veristream.replay.report.words import show_label, tell_step


def render_replay(replayed: Replayed) -> str:
    """Renders the output of `veristream replay --json`."""
    return json.dumps(show_replay(replayed), indent=2, ensure_ascii=False)


def show_replay(replayed: Replayed) -> dict[str, Any]:
    """Returns a replay as a document."""
    left = None if replayed.course is None else replayed.course.left
    done = () if replayed.course is None else replayed.course.done
    return {
        "outcome": str(outcome(replayed.finding)),
        "reason": explain(replayed.finding),
        "property": None if replayed.property is None else str(replayed.property),
        "taken": len(done),
        "left_at": None if left is None else left.step.number,
        "steps": [
            {
                "number": one.number,
                "process": one.process,
                "action": show_label(one),
                "happened": tell_step(replayed, one),
            }
            for one in replayed.plan.steps
        ],
        "offsets": [asdict(one) for one in replayed.offsets],
        "evidence": [one.told for one in replayed.evidence],
        "audit": None if replayed.audit is None else document_of(replayed.audit),
    }


def show_listed(compared: Compared) -> dict[str, Any]:
    """Returns a listed replay with what is expected of it, as a document."""
    one = compared.listed
    return {
        "name": one.name,
        "about": one.about,
        "broker": one.broker,
        "model": f"{one.model.parent.name}/{one.model.name}",
        "model_property": compared.run.model_property,
        "constants": dict(one.constants),
        "settings": dict(one.settings),
        "steered": one.steered,
        "expected": str(one.expected),
        "expected_left_at": one.left or None,
        "as_expected": not compared.differences,
        "differences": list(compared.differences),
        **show_replay(compared.replayed),
    }
