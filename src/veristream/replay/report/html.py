"""A replay as a page: the model's run beside the real one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from veristream.history.report.html import show_audit
from veristream.history.verdicts import Word
from veristream.page import Markup, element, escape, fold, render_page, scroll, table, text
from veristream.replay.listed import Compared
from veristream.replay.outcome import Outcome, Replayed, explain, outcome
from veristream.replay.report.words import show_label, tell_step
from veristream.report.sequence import draw_sequence
from veristream.verdict import Trace

CLASSES: dict[Outcome, str] = {
    Outcome.REPRODUCED: "good",
    Outcome.NOT_REPRODUCED: "open",
    Outcome.NOT_EXECUTABLE: "open",
}


def render_replay(title: str, trace: Trace, replayed: Replayed) -> str:
    """Renders the page that `veristream replay --html` writes."""
    return render_page(f"Replay of {title}", *show_replay(trace, replayed))


def show_replay(trace: Trace, replayed: Replayed) -> Iterator[Markup]:
    """Yields the parts of a page about a replay, without its title."""
    word = outcome(replayed.finding)
    yield text("p", str(word), CLASSES[word])
    yield text("p", f"{explain(replayed.finding)}.")
    for one in replayed.evidence:
        yield text("p", f"{one.told}.")
    rows = [
        (
            escape(str(one.number)),
            escape(one.process),
            escape(show_label(one)),
            escape(tell_step(replayed, one)),
        )
        for one in replayed.plan.steps
    ]
    yield fold(
        "Step by step", table(("step", "process", "action", "what really happened"), rows, (0,), long=3)
    )
    yield fold("The run in the model", scroll(draw_sequence(trace)))
    if replayed.audit is not None:
        decided = tuple(one for one in replayed.audit.judgements if one.word is not Word.NOT_OBSERVABLE)
        yield text("h3", "What really happened")
        yield from show_audit(replace(replayed.audit, judgements=decided))


def show_listed(compared: Sequence[Compared]) -> Iterator[Markup]:
    """Yields the table of all listed replays, and then the parts of each."""
    rows = [
        (
            element("a", escape(each.listed.name), href=f"#replay-{each.listed.name}"),
            escape(each.listed.broker),
            escape(each.listed.about),
            text("span", str(word := outcome(each.replayed.finding)), CLASSES[word]),
            text("span", "differs", "bad") if each.differences else text("span", "as expected", "good"),
            escape(explain(each.replayed.finding)),
        )
        for each in compared
    ]
    yield text("h2", "Replays of counterexamples")
    yield table(("run", "on", "about", "outcome", "expectation", "why"), rows, long=5)
    for each in compared:
        yield element("h2", escape(each.listed.name), id=f"replay-{each.listed.name}")
        yield text("p", each.listed.about)
        yield from show_replay(each.run.trace, each.replayed)
