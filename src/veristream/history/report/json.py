"""An audit as JSON; every key here is part of the public interface.

Absent numbers are left out, and names stand in place of the manifest's numbers. The document says nothing
of how the history was checked: one machine and a cluster write the same.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

from veristream.history.audited import Audit
from veristream.history.events import NONE, Event
from veristream.history.manifest import Manifest
from veristream.history.verdicts import Anomaly, Judgement, Witness


def render_audit(audit: Audit) -> str:
    """Renders the output of `veristream audit --json`."""
    return json.dumps(document_of(audit), indent=2, ensure_ascii=False)


def document_of(audit: Audit) -> dict[str, Any]:
    """Returns an audit as a document."""
    return {
        "history": audit.history,
        "source": audit.manifest.source,
        "events": audit.events,
        "results": [_result(one, audit) for one in audit.judgements],
    }


def _result(judgement: Judgement, audit: Audit) -> dict[str, Any]:
    return {
        "property": judgement.property,
        "verdict": str(judgement.word),
        "reason": judgement.reason,
        "operations": judgement.operations,
        "counts": dict(judgement.counts),
        "anomalies": [_witness(one, audit) for one in judgement.witnesses],
        "notes": dict(judgement.notes),
    }


def _witness(witness: Witness, audit: Audit) -> dict[str, Any]:
    manifest, why = audit.manifest, (audit.attributions or {}).get(witness.anomaly)
    identity = _named(_numbers(witness.anomaly, ("kind",)), manifest)
    return {
        "kind": witness.anomaly.kind,
        "told": witness.told,
        **({"attribution": why} if why else {}),
        **identity,
        "operations": [_event(one, manifest) for one in witness.events],
    }


def _event(event: Event, manifest: Manifest) -> dict[str, Any]:
    numbers = _numbers(event, ("operation", "outcome", "digest", "error", "time_ns", "wall_us"))
    named = _named(numbers, manifest)
    document = {"process": named.pop("process"), "index": named.pop("index"), "call": named.pop("call")}
    document |= {
        "operation": event.operation.name.lower().replace("_", " "),
        "outcome": event.outcome.name.lower(),
        "time_ns": event.time_ns,
        "wall_us": event.wall_us,
        **named,
    }
    if event.digest:
        document["digest"] = event.digest
    if event.error:
        document["error"] = event.error
    return document


def _numbers(value: Event | Anomaly, without: tuple[str, ...]) -> dict[str, Any]:
    """Returns the numbers that a value has, by the names of its fields."""
    pairs = ((one.name, getattr(value, one.name)) for one in fields(value) if one.name not in without)
    return {name: number for name, number in pairs if number != NONE}


def _named(numbers: dict[str, Any], manifest: Manifest) -> dict[str, Any]:
    """Replaces the manifest's numbers by what they stand for."""
    names: dict[str, list[str]] = {
        "process": [one.name for one in manifest.processes],
        "stream": [one.name for one in manifest.streams],
        "group": list(manifest.groups),
        "node": list(manifest.nodes),
    }
    return {key: names[key][value] if key in names else value for key, value in numbers.items()}
