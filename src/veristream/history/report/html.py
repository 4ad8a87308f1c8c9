"""An audit as an HTML page, or as part of one: verdicts, witnesses as charts, throughput and faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from veristream.history.audited import Audit
from veristream.history.manifest import Incident, Manifest
from veristream.history.report.plots import draw_rate
from veristream.history.report.sequence import draw_sequence
from veristream.history.report.words import (
    show_time,
    summary,
    tell_attribution,
    tell_details,
    tell_incident,
    tell_notes,
    tell_verdicts,
    witness_title,
)
from veristream.history.verdicts import Judgement, Word
from veristream.page import Markup, element, escape, fold, render_page, scroll, table, text

_CLASSES: dict[Word, str] = {Word.HELD: "good", Word.VIOLATED: "bad", Word.NOT_OBSERVABLE: "open"}
INCIDENTS_LISTED = 100


def render_audit(audit: Audit) -> str:
    """Renders the page that `veristream audit --html` writes."""
    return render_page(f"Audit of {audit.history}", *show_audit(audit))


def show_audit(audit: Audit) -> Iterator[Markup]:
    """Yields the parts of a page about an audit, without its title."""
    yield text("p", f"{summary(audit)}.", "soft")
    yield text("p", f"{tell_verdicts(audit.judgements)}.")
    yield _verdicts(audit.judgements)
    for judgement in audit.judgements:
        for witness in judgement.witnesses:
            chart = scroll(draw_sequence(witness, audit.manifest))
            why = tell_attribution(audit, witness)
            told = (text("p", why),) if why else ()
            yield fold(witness_title(judgement, witness), *told, chart)
    yield from _course(audit)
    yield from _settings(audit.manifest)


def _verdicts(judgements: Sequence[Judgement]) -> Markup:
    rows = [
        (
            escape(one.property),
            text("span", str(one.word), _CLASSES[one.word]),
            escape(f"{one.operations:,}"),
            escape(f"{one.reason}; permitted: {tell_notes(one)}" if one.notes else one.reason),
        )
        for one in judgements
    ]
    return table(("property", "verdict", "operations", "reason"), rows, (2,), long=3)


def _course(audit: Audit) -> Iterator[Markup]:
    """Yields the plot over time and the list of faults."""
    incidents = sorted(audit.manifest.incidents, key=lambda one: one.begin_ns)
    timeline = audit.timeline
    if timeline is not None and timeline.moments:
        curves = {
            "Messages acknowledged to producers": [one.acknowledged for one in timeline.moments],
            "Messages received": [one.received for one in timeline.moments],
        }
        begin = timeline.moments[0].begin_ns
        figures = []
        for title, counts in curves.items():
            told = f"{title} over time; red: faults" if incidents else f"{title} over time"
            plot = draw_rate(told, counts, timeline.span_ns, begin, incidents)
            figures.append(element("figure", plot, text("figcaption", told, "soft")))
        yield element("div", *figures, class_="plots")
    if incidents:
        yield fold(f"Faults ({len(incidents):,})", _faults(incidents))


def _faults(incidents: Sequence[Incident]) -> Markup:
    listed = incidents[:INCIDENTS_LISTED]
    rows = [
        (escape(show_time(one.begin_ns)), escape(tell_incident(one)), escape(tell_details(one)))
        for one in listed
    ]
    more = len(incidents) - len(listed)
    caption = f"and {more:,} more" if more > 0 else ""
    if any(one.details for one in listed):
        return table(("at", "fault", "details"), rows, caption=caption, long=2)
    return table(("at", "fault"), [row[:2] for row in rows], caption=caption)


def _settings(manifest: Manifest) -> Iterator[Markup]:
    if manifest.settings:
        rows = [(escape(name), escape(value)) for name, value in sorted(manifest.settings.items())]
        yield fold(f"Settings ({len(rows)})", table(("setting", "value"), rows))
