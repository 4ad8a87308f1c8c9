"""The report as an HTML page, or as part of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from veristream.kabis.audit.findings import MEANINGS, NOTES, Finding, Kind
from veristream.kabis.audit.plots import Bar, Part, draw_bars, draw_timeline
from veristream.kabis.audit.report import AuditReport, PartyLine, StreamLine
from veristream.page import Markup, element, escape, render_page, table, text

STREAMS_DRAWN = 40

Drawn = TypeVar("Drawn")


def to_html(report: AuditReport) -> str:
    """Renders the report as a self-contained page."""
    return render_page(f"Audit of {report.chain_id}", *show_audit(report))


def show_audit(report: AuditReport) -> Iterator[Markup]:
    """Renders the report as plots and tables."""
    yield from _verdict(report)
    yield element("div", *_plots(report), class_="plots")
    yield from _section("Faults", _counts(report))
    yield from _section("Storage parties", _parties(report.parties))
    yield from _section("Producers and partitions", _streams(report.streams))
    yield from _section("Findings", _findings(report))


def _verdict(report: AuditReport) -> Iterator[Markup]:
    checked = report.checked
    faults = sum(count for kind, count in report.counts.items() if kind not in NOTES)
    told = "No fault was found." if report.is_clean else f"{_plural(faults, 'fault')} found."
    yield text("p", told, "good" if report.is_clean else "bad")
    if not report.is_clean:
        yield text("p", f"Accused: {_accused(report)}.")
    yield text(
        "p",
        f"{checked.events:,} events in {checked.batches:,} batches of {checked.blocks:,} blocks;"
        f" {checked.event_copies:,} good copies of events at the parties, {checked.signatures:,}"
        " signatures verified.",
    )
    source = "the parties' files" if report.source == "files" else "the parties themselves"
    yield text(
        "p",
        f"Read from {source} up to block {report.height:,}, in {report.seconds:.1f} s:"
        f" {report.events_per_s:,.0f} events/s, {report.signatures_per_s:,.0f} signatures/s.",
        "soft",
    )


def _accused(report: AuditReport) -> str:
    """Lists the accused with their kinds of faults."""
    kinds: dict[str, dict[str, None]] = {}
    for each in report.accused:
        if each.kind not in NOTES:
            kinds.setdefault(each.accused or each.role, {})[each.kind] = None
    return ", ".join(f"{name} ({', '.join(found)})" for name, found in kinds.items())


def _plots(report: AuditReport) -> Iterator[Markup]:
    """Yields the plots that have data."""
    drawn = sorted(report.streams, key=lambda line: -line.events)[:STREAMS_DRAWN]
    if report.timeline:
        yield _figure("Events admitted over time", draw_timeline, report.timeline)
    if report.parties:
        yield _figure(
            "Batches at each storage party; red: altered or withheld, amber: not answered",
            draw_bars,
            _party_bars(report),
        )
    if drawn:
        yield _figure(
            "Events of each producer and partition; red: with a fault",
            draw_bars,
            [_stream_bar(line) for line in drawn],
        )


def _figure(title: str, draw: Callable[[str, Sequence[Drawn]], Markup], values: Sequence[Drawn]) -> Markup:
    return element("figure", draw(title, values), text("figcaption", title, "soft"))


def _party_bars(report: AuditReport) -> list[Bar]:
    return [
        Bar(
            line.party,
            (
                Part(line.good, "good", "good"),
                Part(sum(line.faults.get(kind, 0) for kind in _AT_PARTIES), "bad", "altered or withheld"),
                Part(line.unanswered, "open", "unanswered"),
            ),
        )
        for line in report.parties
    ]


_AT_PARTIES = (Kind.ALTERED, Kind.WITHHELD, Kind.BAD_SIGNATURE)


def _stream_bar(line: StreamLine) -> Bar:
    name = f"{line.producer}, {line.topic}-{line.partition}"
    style = "bad" if any(count for kind, count in line.faults.items() if kind not in NOTES) else "good"
    return Bar(name, (Part(line.events, style, _faults(line.faults.items()) or "no fault"),))


def _section(title: str, parts: Iterable[Markup]) -> Iterator[Markup]:
    yield text("h3", title)
    yield from parts


def _counts(report: AuditReport) -> Iterator[Markup]:
    rows = [(kind, f"{count:,}", MEANINGS[kind]) for kind, count in report.counts.items()]
    yield _table(("kind", "found", "which is"), rows, (1,))


def _parties(parties: Sequence[PartyLine]) -> Iterator[Markup]:
    rows = []
    for line in parties:
        numbers = [f"{number:,}" for number in (line.vouched, line.copies, line.good)]
        unanswered = [("unanswered", line.unanswered)]
        rows.append((line.party, *numbers, _faults([*line.faults.items(), *unanswered])))
    yield _table(("party", "vouched", "copies", "good", "faults"), rows, (1, 2, 3))


def _streams(streams: Sequence[StreamLine]) -> Iterator[Markup]:
    rows = []
    for line in streams:
        numbers = (f"{line.batches:,}", f"{line.events:,}")
        place = f"{line.topic}-{line.partition}"
        rows.append((place, line.producer, *numbers, _faults(line.faults.items())))
    yield _table(("partition", "producer", "batches", "events", "faults"), rows, (2, 3))


def _findings(report: AuditReport) -> Iterator[Markup]:
    told, total = len(report.findings), sum(report.counts.values())
    if told < total:
        yield text("p", f"{told:,} of {total:,}, some of each kind.", "soft")
    rows = [(each.kind, each.accused or each.role, where(each), each.detail) for each in report.findings]
    yield _table(("kind", "whose", "where", "what"), rows)


def where(finding: Finding) -> str:
    """Describes the place of a finding."""
    words = []
    if finding.topic:
        words.append(f"{finding.topic}-{finding.partition}, {finding.producer}")
    if finding.sequence >= 0:
        words.append(f"event {finding.sequence:,}")
    if finding.height:
        words.append(f"block {finding.height:,}")
    return ", ".join(words)


def _faults(faults: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in faults if count)


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun} was" if count == 1 else f"{count:,} {noun}s were"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> Markup:
    if not rows:
        return text("p", "None.")
    return table(head, [[escape(cell) for cell in row] for row in rows], numbers)
