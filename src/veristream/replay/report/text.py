"""A replay as text for a terminal: each step beside what really happened, the finding, and the evidence."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace

from veristream.history.report.text import render_audit
from veristream.history.verdicts import Judgement
from veristream.replay.listed import Compared
from veristream.replay.outcome import Outcome, Replayed, Reproduced, explain, outcome
from veristream.replay.report.words import show_label, tell_step
from veristream.report.text import PLAIN, Look

BELOW = " " * 6
TITLES = ("step", "process", "action", "what really happened")
_COLOURS = {Outcome.REPRODUCED: "32", Outcome.NOT_REPRODUCED: "33", Outcome.NOT_EXECUTABLE: "33"}


def render_replay(replayed: Replayed, look: Look = PLAIN) -> str:
    """Renders what became of each step, where readers stop in the end, and the finding."""
    word = outcome(replayed.finding)
    painted = f"\x1b[{_COLOURS[word]}m{word}\x1b[0m" if look.colour else str(word)
    told = textwrap.fill(f"{word}: {explain(replayed.finding)}", look.width)
    blocks = ["\n".join(_steps(replayed, look))]
    if replayed.evidence:
        blocks.append("\n".join(textwrap.fill(one.told, look.width) for one in replayed.evidence))
    match replayed.finding:
        case Reproduced(Judgement() as judgement) if replayed.audit is not None:
            blocks.append(render_audit(replace(replayed.audit, judgements=(judgement,)), look))
        case _:
            pass
    return "\n\n".join([*blocks, painted + told.removeprefix(str(word))])


def _steps(replayed: Replayed, look: Look) -> Iterator[str]:
    rows = [
        (str(one.number), one.process, show_label(one), tell_step(replayed, one))
        for one in replayed.plan.steps
    ]
    widths = [max(len(row[at]) for row in (TITLES, *rows)) for at in range(3)]
    margin = sum(widths) + 8
    room = max(30, look.width - margin)
    yield _line(TITLES, widths)
    yield _line(tuple(look.marks.line * width for width in (*widths, 20)), widths)
    for row in rows:
        first, *rest = textwrap.wrap(row[3], room) or [""]
        yield _line((*row[:3], first), widths)
        yield from (" " * margin + each for each in rest)


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    number, process, action, told = cells
    return f"  {number:>{widths[0]}}  {process:<{widths[1]}}  {action:<{widths[2]}}  {told}".rstrip()


def render_listed(compared: Sequence[Compared], look: Look = PLAIN) -> str:
    """Renders each listed replay with its outcome, and how many are as expected."""
    lines = ["replays"]
    for each in compared:
        lines += textwrap.wrap(
            f"{each.listed.name} ({each.listed.broker}): {each.listed.about}",
            look.width,
            initial_indent="  ",
            subsequent_indent="  ",
        )
        word = outcome(each.replayed.finding)
        told = f"{word}: {explain(each.replayed.finding)}"
        if each.differences:
            told += f"; NOT AS EXPECTED: {'; '.join(each.differences)}"
        lines += textwrap.wrap(told, look.width, initial_indent=BELOW, subsequent_indent=BELOW)
        for one in each.replayed.evidence:
            if one.shows:
                lines += textwrap.wrap(one.told, look.width, initial_indent=BELOW, subsequent_indent=BELOW)
    as_expected = sum(not each.differences for each in compared)
    return "\n".join([*lines, "", f"{as_expected} of {len(compared)} replays are as expected"])
