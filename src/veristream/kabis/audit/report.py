"""The report of an audit, and its JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from veristream.kabis.audit.findings import NOTES, Finding, Kind, Role, Tally


@dataclass(frozen=True, slots=True)
class Accused:
    """Count of one kind of fault of one party in one stream; `topic` may be empty."""

    kind: str
    role: str
    accused: str
    topic: str
    partition: int
    producer: str
    count: int


@dataclass(frozen=True, slots=True)
class StreamLine:
    """One producer's batches in one partition of the ledger, and the faults found there."""

    topic: str
    partition: int
    producer: str
    batches: int
    events: int
    faults: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PartyLine:
    """Counts of one storage party: receipts, returned copies, good copies, unanswered requests."""

    party: str
    vouched: int
    copies: int
    good: int
    unanswered: int
    events: int
    faults: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Checked:
    """How much was checked; an event copy is a good copy of one event at one party."""

    blocks: int
    batches: int
    events: int
    copies: int
    event_copies: int
    signatures: int


@dataclass(frozen=True, slots=True)
class AuditReport:
    """The result of an audit: `findings` has some findings of each kind, `accused` counts all of them.

    `timeline` has the start and the number of admitted events of spans of equal length.
    """

    chain_id: str
    height: int
    source: str
    topics: tuple[str, ...]
    streams: tuple[StreamLine, ...]
    parties: tuple[PartyLine, ...]
    accused: tuple[Accused, ...]
    findings: tuple[Finding, ...]
    timeline: tuple[tuple[int, int], ...]
    checked: Checked
    seconds: float

    @property
    def counts(self) -> dict[Kind, int]:
        """Number of findings of each kind, including notes and zeros."""
        found: Counter[str] = Counter()
        for each in self.accused:
            found[each.kind] += each.count
        return {kind: found[kind] for kind in Kind}

    @property
    def is_clean(self) -> bool:
        """Whether there are no findings except notes."""
        return not any(count for kind, count in self.counts.items() if kind not in NOTES)

    @property
    def events_per_s(self) -> float:
        """Good copies of events checked per second."""
        return self.checked.event_copies / self.seconds

    @property
    def signatures_per_s(self) -> float:
        """Signatures verified per second."""
        return self.checked.signatures / self.seconds


def count_findings(findings: Sequence[Finding]) -> list[Accused]:
    """Counts findings by accused."""
    found = Counter(
        (each.kind, each.role, each.accused, each.topic, each.partition, each.producer) for each in findings
    )
    return [Accused(*key, count) for key, count in found.items()]


def merge_accused(lists: Sequence[Sequence[Accused]]) -> tuple[Accused, ...]:
    """Merges counts, gravest kinds first."""
    total: Counter[tuple[str, str, str, str, int, str]] = Counter()
    for accused in lists:
        for each in accused:
            key = (each.kind, each.role, each.accused, each.topic, each.partition, each.producer)
            total[key] += each.count
    order = list(Kind)
    keys = sorted(total, key=lambda key: (order.index(Kind(key[0])), *key[1:]))
    return tuple(Accused(*key, total[key]) for key in keys)


def find_silent(tallies: Sequence[Tally], unread: frozenset[str]) -> list[Finding]:
    """Returns one finding for each party that did not answer for some batches."""
    unanswered: Counter[str] = Counter(dict.fromkeys(unread, 0))
    for tally in tallies:
        if tally.unanswered:
            unanswered[tally.party] += tally.unanswered
    return [
        Finding(
            Kind.SILENT,
            Role.STORAGE,
            party,
            count=count,
            detail=f"{count:,} of its batches could not be checked",
        )
        for party, count in sorted(unanswered.items())
    ]


def make_streams(tallies: Sequence[Tally], accused: Sequence[Accused]) -> tuple[StreamLine, ...]:
    """Returns a line for each stream on the ledger."""
    ledger = [tally for tally in tallies if not tally.party]
    faults: dict[tuple[str, int, str], Counter[str]] = {}
    for each in accused:
        faults.setdefault((each.topic, each.partition, each.producer), Counter())[each.kind] += each.count
    places = [(tally.topic, tally.partition, tally.producer) for tally in ledger]
    lines = [
        StreamLine(*place, tally.good, tally.events, dict(faults.get(place, {})))
        for place, tally in zip(places, ledger, strict=True)
    ]
    return tuple(sorted(lines, key=lambda line: (line.topic, line.partition, line.producer)))


def make_parties(
    names: Sequence[str], tallies: Sequence[Tally], accused: Sequence[Accused]
) -> tuple[PartyLine, ...]:
    """Returns a line for each storage party."""
    lines = []
    for name in names:
        own = [tally for tally in tallies if tally.party == name]
        faults: Counter[str] = Counter()
        for each in accused:
            if (each.role, each.accused) == (Role.STORAGE, name):
                faults[each.kind] += each.count
        lines.append(
            PartyLine(
                name,
                vouched=sum(tally.vouched for tally in own),
                copies=sum(tally.copies for tally in own),
                good=sum(tally.good for tally in own),
                unanswered=sum(tally.unanswered for tally in own),
                events=sum(tally.events for tally in own),
                faults=dict(faults),
            )
        )
    return tuple(lines)


def to_json(report: AuditReport) -> dict[str, Any]:
    """Returns the fields of the report's JSON object."""
    return {
        "chain_id": report.chain_id,
        "height": report.height,
        "source": report.source,
        "clean": report.is_clean,
        "topics": list(report.topics),
        "counts": dict(report.counts),
        "streams": [asdict(line) for line in report.streams],
        "parties": [asdict(line) for line in report.parties],
        "accused": [asdict(each) for each in report.accused],
        "findings": [asdict(each) for each in report.findings],
        "timeline": [{"time_ms": time_ms, "events": events} for time_ms, events in report.timeline],
        "checked": asdict(report.checked),
        "seconds": round(report.seconds, 3),
        "events_per_s": round(report.events_per_s, 1),
        "signatures_per_s": round(report.signatures_per_s, 1),
    }
