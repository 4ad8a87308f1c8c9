"""Renders results as text for a terminal: a table, then remarks, then the traces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from veristream.report.chart import LINE_WIDTH_MAX, UNICODE, Marks, render_chart
from veristream.report.words import (
    EFFORT_TITLES,
    all_remarks,
    model_title,
    outcome_remarks,
    show_constants,
    show_effort,
    tell_agreement,
    tell_count,
    trace_length,
    trace_title,
)
from veristream.verdict import Result, Trace, Word, word

if TYPE_CHECKING:
    from veristream.expected import KnownRun, Reproduction
    from veristream.known import Copied, KnownFolder


@dataclass(frozen=True, slots=True)
class Look:
    """How to draw text; `clocks` are the parts of the state that are clocks."""

    marks: Marks = UNICODE
    colour: bool = False
    full_trace: bool = False
    width: int = LINE_WIDTH_MAX
    clocks: frozenset[str] = frozenset()


PLAIN = Look()

_COLOURS: dict[Word, str] = {"holds": "32", "violated": "31", "unknown": "33", "error": "31"}
SOURCE_WIDTH = 44


def render_results(results: Sequence[Result], look: Look = PLAIN) -> str:
    """Renders a table of results, remarks below it, and every trace as a chart."""
    rows = [(one.property, one.kind, word(one.verdict), *show_effort(one)) for one in results]
    titles = ("property", "kind", "verdict", *EFFORT_TITLES)
    blocks = [_table(titles, rows, 3, look)]
    told = "\n".join(all_remarks(results))
    if told:
        blocks.append(told)
    blocks.extend(
        _headed_chart(trace_title(one, one.verdict.trace), one.verdict.trace, look)
        for one in results
        if one.verdict.trace is not None
    )
    return "\n\n".join(blocks)


def render_run(title: str, trace: Trace, look: Look = PLAIN) -> str:
    """Renders one trace as a chart below its title."""
    return _headed_chart(title, trace, look)


def render_known_run(run: KnownRun, trace: Trace, look: Look = PLAIN) -> str:
    """Renders a run that `expected.toml` lists, as a chart of its lanes."""
    chosen = f"seed {run.seed}" if run.goal is None else run.goal
    length = random_length(run, trace) if run.goal is None else trace_length(trace)
    return _headed_chart(f"{run.title} ({run.path.name}, {chosen}): {length}", trace, look, run.lanes)


def random_length(run: KnownRun, trace: Trace) -> str:
    """Says how long a random run is, and why if it ended early."""
    count = len(trace.steps) - 1
    return tell_count(count, "step") + (", then no step is possible" if count < run.steps else "")


def render_reproductions(reproductions: Sequence[Reproduction], look: Look = PLAIN) -> str:
    """Renders each model's expected verdicts beside ours, then how many agree."""
    blocks = [_reproduction(one, look) for one in reproductions]
    blocks.append(tell_agreement(reproductions))
    return "\n\n".join(blocks)


def render_models(folders: Sequence[KnownFolder], variants: bool = False) -> str:
    """Renders each folder of known models: description, paper, files; with `variants`, models too."""
    return "\n\n".join(_known_folder(one, variants) for one in folders)


def _known_folder(folder: KnownFolder, variants: bool) -> str:
    own = [
        path.relative_to(folder.name).as_posix() for path in folder.files if path.parts[0] == folder.name
    ]
    shared = [path.as_posix() for path in folder.files if path.parts[0] != folder.name]
    told = {
        "about": folder.about,
        "paper": folder.paper,
        "files": ", ".join(own),
        "includes": ", ".join(shared),
    }
    lines = [folder.name, *(f"  {word:<8}  {what}" for word, what in told.items() if what)]
    if variants:
        rows = [(one.name, one.path.name, show_constants(one)) for one in folder.models]
        name_width, file_width = (max(len(row[column]) for row in rows) for column in (0, 1))
        lines += [
            f"  model     {name:<{name_width}}  {file:<{file_width}}  {constants}".rstrip()
            for name, file, constants in rows
        ]
    return "\n".join(lines)


def render_copied(copied: Copied) -> str:
    """Renders the files that a copy wrote, then how many already existed."""
    lines = [str(path) for path in copied.written]
    lines.append(f"{tell_count(len(copied.written), 'file')} copied")
    if copied.kept:
        lines[-1] += f", {len(copied.kept)} already existed with the same content"
    return "\n".join(lines)


def _reproduction(reproduction: Reproduction, look: Look) -> str:
    model = reproduction.model
    rows = [
        (
            one.result.property,
            _shorten(one.expectation.source),
            one.expectation.verdict,
            word(one.result.verdict),
            *show_effort(one.result),
            "differs" if one.differences else "as expected",
        )
        for one in reproduction.outcomes
    ]
    titles = ("property", "source", "expected", "verdict", *EFFORT_TITLES, "")
    lines = [f"{model_title(model)}: {model.paper}"]
    lines.append(_table(titles, rows, 4, look))
    for outcome in reproduction.outcomes:
        lines.extend(outcome_remarks(outcome, reproduction.outcomes))
    return "\n".join(lines)


def _shorten(source: str) -> str:
    return source if len(source) <= SOURCE_WIDTH else source[: SOURCE_WIDTH - 1] + "…"


def _headed_chart(title: str, trace: Trace, look: Look, lanes: Sequence[str] = ()) -> str:
    chart = render_chart(trace, look.full_trace, look.marks, look.width, look.clocks, lanes)
    return f"{title}\n\n{chart}"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], left: int, look: Look) -> str:
    """Draws columns two spaces apart; the first `left` and an untitled last one are left-aligned."""
    widths = [max(len(row[i]) for row in (titles, *rows)) for i in range(len(titles))]
    lines = [_row(titles, widths, left), _row([look.marks.line * width for width in widths], widths, left)]
    for row in rows:
        line = _row(row, widths, left)
        at = left - 1  # the verdict is the last left-aligned column
        lines.append(_paint(line, row[at], sum(widths[:at]) + 2 * left) if look.colour else line)
    return "\n".join(lines)


def _row(cells: Sequence[str], widths: Sequence[int], left: int) -> str:
    padded = [
        f"{cell:<{width}}" if i < left or i == left + len(EFFORT_TITLES) else f"{cell:>{width}}"
        for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return ("  " + "  ".join(padded)).rstrip()


def _paint(line: str, verdict: str, start: int) -> str:
    colour = next(code for name, code in _COLOURS.items() if name == verdict)
    end = start + len(verdict)
    return f"{line[:start]}\x1b[{colour}m{line[start:end]}\x1b[0m{line[end:]}"
