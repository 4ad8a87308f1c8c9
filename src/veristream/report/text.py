"""Results as text for a terminal: a table, then what it cannot hold, then the traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from veristream.expected import KnownRun, Outcome, Reproduction
from veristream.report.chart import LINE_WIDTH_MAX, UNICODE, Marks, render_chart
from veristream.verdict import Holds, Result, Trace, Unknown, Violated, Word, word


@dataclass(frozen=True, slots=True)
class Look:
    """How text is drawn: with which characters, in colour or not, traces whole or shortened, how wide,
    and which parts of a state are clocks."""

    marks: Marks = UNICODE
    colour: bool = False
    full_trace: bool = False
    width: int = LINE_WIDTH_MAX
    clocks: frozenset[str] = frozenset()


PLAIN = Look()

_COLOURS: dict[Word, str] = {"holds": "32", "violated": "31", "unknown": "33"}
SOURCE_WIDTH = 44
_EFFORT_TITLES = ("states", "transitions", "depth", "time", "memory")


def render_results(results: Sequence[Result], look: Look = PLAIN) -> str:
    """The table of results, remarks beneath it, and every trace as a chart."""
    rows = [(one.property, one.kind, word(one.verdict), *_effort(one)) for one in results]
    titles = ("property", "kind", "verdict", *_EFFORT_TITLES)
    blocks = [_table(titles, rows, 3, look)]
    remarks = "\n".join(line for one in results for line in _remarks(one))
    if remarks:
        blocks.append(remarks)
    blocks.extend(
        _headed_chart(_trace_title(one, one.verdict.trace), one.verdict.trace, look)
        for one in results
        if one.verdict.trace is not None
    )
    return "\n\n".join(blocks)


def render_run(title: str, trace: Trace, look: Look = PLAIN) -> str:
    """One trace as a chart beneath its title."""
    return _headed_chart(title, trace, look)


def render_known_run(run: KnownRun, trace: Trace, look: Look = PLAIN) -> str:
    """A run that a folder names, as a chart of its lanes."""
    chosen = f"seed {run.seed}" if run.goal is None else run.goal
    length = random_length(run, trace) if run.goal is None else _length(trace)
    return _headed_chart(f"{run.title} ({run.path.name}, {chosen}): {length}", trace, look, run.lanes)


def random_length(run: KnownRun, trace: Trace) -> str:
    """How long a random run became, and why if it is shorter than it may be."""
    count = len(trace.steps) - 1
    return _count(count, "step") + (", then no step is possible" if count < run.steps else "")


def render_reproductions(reproductions: Sequence[Reproduction], look: Look = PLAIN) -> str:
    """Each model's expected verdicts beside ours, then how many agree."""
    blocks = [_reproduction(one, look) for one in reproductions]
    outcomes = [outcome for one in reproductions for outcome in one.outcomes]
    agreeing = sum(not outcome.differences for outcome in outcomes)
    models = _count(len(reproductions), "model")
    blocks.append(f"{models}: {agreeing} of {_count(len(outcomes), 'verdict')} as expected")
    return "\n\n".join(blocks)


def _reproduction(reproduction: Reproduction, look: Look) -> str:
    model = reproduction.model
    constants = ", ".join(f"{name} = {value}" for name, value in model.constants.items())
    rows = [
        (
            one.result.property,
            _shorten(one.expectation.source),
            one.expectation.verdict,
            word(one.result.verdict),
            *_effort(one.result),
            "differs" if one.differences else "as expected",
        )
        for one in reproduction.outcomes
    ]
    titles = ("property", "source", "expected", "verdict", *_EFFORT_TITLES, "")
    lines = [f"{model.name}{f' with {constants}' if constants else ''}: {model.paper}"]
    lines.append(_table(titles, rows, 4, look))
    for outcome in reproduction.outcomes:
        lines.extend(_outcome_remarks(outcome, reproduction.outcomes))
    return "\n".join(lines)


def _shorten(source: str) -> str:
    return source if len(source) <= SOURCE_WIDTH else source[: SOURCE_WIDTH - 1] + "…"


def _outcome_remarks(outcome: Outcome, all_outcomes: Sequence[Outcome]) -> Iterator[str]:
    name = outcome.result.property
    for difference in outcome.differences:
        yield f"  {name} differs: {difference} ({outcome.expectation.source})"
    if outcome.expectation.published is not None:
        yield f"  {name} was published with {outcome.expectation.published}"
    yield from _remarks(outcome.result)
    for other in all_outcomes:
        if other.expectation.meant_by == name:
            found = word(other.result.verdict)
            verdict = found if found == "holds" else f"is {found}"
            yield f"    meant by {name}: {other.result.property}, which {verdict}"


def _remarks(result: Result) -> Iterator[str]:
    verdict = result.verdict
    if verdict.reason:
        yield f"  {result.property}: {verdict.reason}"
    if isinstance(verdict, Holds) and verdict.vacuous is not None:
        yield f"  {result.property} is vacuous: {verdict.vacuous}"
    if result.effort.unreduced_states is not None:
        counts = f"{result.effort.states:,} states stand for {result.effort.unreduced_states:,}"
        yield f"  {result.property}: by symmetry, {counts}"


def _trace_title(result: Result, trace: Trace) -> str:
    match result.verdict:
        case Holds():
            what = f"{result.property} holds, for example by"
        case Violated():
            what = f"{result.property} is violated by"
        case Unknown(fault=None):
            what = f"{result.property} is not decided; the run so far is"
        case Unknown():
            what = f"{result.property} cannot be decided; the model fails after"
        case _ as never:
            assert_never(never)
    return f"{what} {_length(trace)}:"


def _length(trace: Trace) -> str:
    waits = len(trace.steps) > 1 and trace.steps[-1].action is None
    count = len(trace.steps) - 1 - waits
    if trace.loop is not None:
        stem = _count(trace.loop, "step")
        again = f"{count - trace.loop} again and again" if trace.loop < count else "nothing for ever"
        return f"{stem}, then {again}"
    if count == 0:
        return "waiting alone" if waits else "the initial state"
    what = _count(count, "step") + (" and waiting" if waits else "")
    return what + (" (no run is shorter)" if trace.shortest else "")


def _headed_chart(title: str, trace: Trace, look: Look, lanes: Sequence[str] = ()) -> str:
    chart = render_chart(trace, look.full_trace, look.marks, look.width, look.clocks, lanes)
    return f"{title}\n\n{chart}"


def _effort(result: Result) -> tuple[str, ...]:
    effort = result.effort
    return (
        f"{effort.states:,}",
        f"{effort.transitions:,}",
        f"{effort.depth:,}",
        show_seconds(effort.seconds),
        show_memory(effort.memory_mib),
    )


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: int, look: Look) -> str:
    """Columns two spaces apart; the first `left` and the last, if untitled, begin at their left."""
    widths = [max(len(row[i]) for row in (titles, *rows)) for i in range(len(titles))]
    lines = [_row(titles, widths, left), _row([look.marks.line * width for width in widths], widths, left)]
    for row in rows:
        line = _row(row, widths, left)
        at = left - 1  # the verdict is the last of the words
        lines.append(_paint(line, row[at], sum(widths[:at]) + 2 * left) if look.colour else line)
    return "\n".join(lines)


def _row(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    padded = [
        f"{cell:<{width}}" if i < left or i == left + len(_EFFORT_TITLES) else f"{cell:>{width}}"
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return ("  " + "  ".join(padded)).rstrip()


def _paint(line: str, verdict: str, start: int) -> str:
    colour = next(code for name, code in _COLOURS.items() if name == verdict)
    end = start + len(verdict)
    return f"{line[:start]}\x1b[{colour}m{line[start:end]}\x1b[0m{line[end:]}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show_seconds(seconds: float) -> str:
    """A duration with three digits at most."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def show_memory(memory_mib: float) -> str:
    """An amount of memory in MiB, or in GiB from 1 GiB on."""
    if memory_mib >= 1024:
        return f"{memory_mib / 1024:.1f} GiB"
    return f"{memory_mib:.1f} MiB" if memory_mib < 10 else f"{memory_mib:.0f} MiB"
