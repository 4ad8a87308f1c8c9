"""The wording of audits: events, incidents, titles."""

from __future__ import annotations

from collections.abc import Sequence

from veristream.history.audited import Audit
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.manifest import Incident, Manifest
from veristream.history.verdicts import Judgement, Witness, Word
from veristream.report.words import tell_count

_VERBS: dict[Operation, str] = {
    Operation.SEND: "send",
    Operation.RECEIVE: "receive",
    Operation.ACKNOWLEDGE: "acknowledge",
    Operation.REJECT: "reject",
    Operation.COMMIT: "commit",
    Operation.OPEN: "open",
    Operation.BEGIN: "begin",
    Operation.END_COMMIT: "commit transaction",
    Operation.END_ABORT: "abort transaction",
    Operation.ASSIGN: "get",
    Operation.REVOKE: "give up",
    Operation.SEEK: "seek in",
    Operation.READY: "allow",
    Operation.READ_TO_END: "read to the end of",
    Operation.CLOSE: "end",
}
_ALONE = (
    Operation.RECEIVE,
    Operation.ASSIGN,
    Operation.REVOKE,
    Operation.SEEK,
    Operation.READY,
    Operation.CLOSE,
)
"""Operations whose calls have only one event: that they ended well goes without saying."""
_OF_MESSAGES = (Operation.SEND, Operation.RECEIVE, Operation.ACKNOWLEDGE, Operation.REJECT)


def tell_event(event: Event, manifest: Manifest) -> str:
    """Says what a client did, and what it learnt of it."""
    parts = [_VERBS[event.operation], *_object(event, manifest)]
    told = " ".join(part for part in parts if part)
    match event.outcome:
        case Outcome.INVOKE:
            return f"{told} …"
        case Outcome.OK:
            return told if event.operation in _ALONE else f"{told}: ok{_at(event)}"
        case Outcome.FAIL:
            return f"{told}: failed{_because(event)}"
        case Outcome.INDEFINITE:
            return f"{told}: unknown{_because(event)}"


def _object(event: Event, manifest: Manifest) -> list[str]:
    """Returns what an operation was done to."""
    place = _place(event, manifest)
    match event.operation:
        case Operation.SEND:
            within = "" if event.transaction == NONE else f"in transaction {event.transaction}"
            return [name_message(event), f"to {place}", within]
        case Operation.RECEIVE:
            at = "" if event.offset == NONE else f"at {event.offset}"
            attempt = f"(attempt {event.attempt})" if event.attempt > 1 else ""
            return [name_message(event), f"from {place}", at, attempt]
        case Operation.ACKNOWLEDGE | Operation.REJECT:
            return [name_message(event), f"of {place}"]
        case Operation.COMMIT:
            return [f"{event.offset} of {place}", _by(event, manifest)]
        case Operation.ASSIGN | Operation.SEEK:
            return [place, "" if event.offset == NONE else f"from {event.offset}", _epoch(event)]
        case Operation.OPEN:
            return [_group(event, manifest), _epoch(event)]
        case Operation.BEGIN | Operation.END_COMMIT | Operation.END_ABORT:
            return ["" if event.transaction == NONE else str(event.transaction), _epoch(event)]
        case Operation.READY:
            return [f"{tell_count(event.number, 'message')} in flight"]
        case Operation.READ_TO_END:
            logged = event.offset != NONE
            return [place, f"from {max(event.number, 0)} to {event.offset}" if logged else ""]
        case Operation.REVOKE:
            return [place]
        case Operation.CLOSE:
            return []


def _at(event: Event) -> str:
    known = event.operation is Operation.SEND and event.offset != NONE
    return f" at {event.offset}" if known else ""


def _because(event: Event) -> str:
    return f" ({event.error})" if event.error else ""


def _epoch(event: Event) -> str:
    return "" if event.epoch == NONE else f"(epoch {event.epoch})"


def _by(event: Event, manifest: Manifest) -> str:
    return "" if event.group == NONE else f"for {_group(event, manifest)}"


def _group(event: Event, manifest: Manifest) -> str:
    return "" if event.group == NONE else manifest.groups[event.group]


def _place(event: Event, manifest: Manifest) -> str:
    if event.stream == NONE:
        return ""
    stream = manifest.streams[event.stream]
    return f"{stream.name}/{event.partition}" if event.partition != NONE else stream.name


def name_message(event: Event) -> str:
    """Returns a message's name: its producer and number."""
    return (
        "a message of an unknown producer" if event.producer == NONE else f"{event.producer}:{event.number}"
    )


def tell_incident(incident: Incident) -> str:
    """Says which fault was injected, and when it ended if it lasted."""
    told = " ".join(part for part in (incident.kind, incident.target) if part)
    return told if incident.end_ns is None else f"{told}, until {show_time(incident.end_ns)}"


def tell_details(incident: Incident) -> str:
    """Says what else is known of a fault, or nothing."""
    return "; ".join(f"{name}: {value}" for name, value in incident.details.items())


def show_time(time_ns: int) -> str:
    """Formats a time of the recording in seconds."""
    return f"{time_ns / 1e9:.3f} s"


def summary(audit: Audit) -> str:
    """Says how large the history is, and where it is from."""
    manifest = audit.manifest
    streams, processes = tell_count(len(manifest.streams), "stream"), len(manifest.processes)
    clients = f"{processes:,} process{'' if processes == 1 else 'es'}"
    told = f"{audit.history}: {tell_count(audit.events, 'event')} of {clients} and {streams}"
    of = ", ".join(part for part in (manifest.source, manifest.workload, manifest.recorded_at) if part)
    return f"{told} ({of})" if of else told


def tell_verdicts(judgements: Sequence[Judgement]) -> str:
    """Counts the verdicts, worst first."""
    counts = {word: sum(one.word is word for one in judgements) for word in WORST_FIRST}
    told = [f"{count} {word}" for word, count in counts.items() if count]
    return f"{tell_properties(len(judgements))}: {', '.join(told)}"


def tell_properties(count: int) -> str:
    """Formats a number of properties."""
    return f"{count} propert{'y' if count == 1 else 'ies'}"


WORST_FIRST = (Word.VIOLATED, Word.NOT_OBSERVABLE, Word.HELD)


def witness_title(judgement: Judgement, witness: Witness) -> str:
    """Says what a witness shows, and which of how many anomalies of its kind it is."""
    kind = witness.anomaly.kind
    total = judgement.counts.get(kind, 0)
    shown = [one.anomaly for one in judgement.witnesses if one.anomaly.kind == kind]
    among = f" ({shown.index(witness.anomaly) + 1} of {total:,})" if total > 1 else ""
    return f"{judgement.property}, {kind}{among}: {witness.told}"


def tell_attribution(audit: Audit, witness: Witness) -> str:
    """Says why a message is lost, if logs of brokers were given; else empty."""
    why = (audit.attributions or {}).get(witness.anomaly, "")
    return f"brokers' logs: {why}" if why else ""


def tell_notes(judgement: Judgement) -> str:
    """Says what is legal and worth knowing; empty if there is nothing."""
    return ", ".join(f"{count:,} {kind}" for kind, count in judgement.notes.items())
