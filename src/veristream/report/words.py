"""What is said of results, whatever the page is made of: remarks, titles, figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from veristream.expected import Outcome
from veristream.verdict import Holds, Result, Trace, Unknown, Violated, word

EFFORT_TITLES = ("states", "transitions", "depth", "time", "memory")


def outcome_remarks(outcome: Outcome, all_outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What stands beneath a table of known verdicts: differences, published figures, what was meant."""
    name = outcome.result.property
    for difference in outcome.differences:
        yield f"  {name} differs: {difference} ({outcome.expectation.source})"
    if outcome.expectation.published is not None:
        yield f"  {name} was published with {outcome.expectation.published}"
    yield from remarks(outcome.result)
    for other in all_outcomes:
        if other.expectation.meant_by == name:
            found = word(other.result.verdict)
            verdict = found if found == "holds" else f"is {found}"
            yield f"    meant by {name}: {other.result.property}, which {verdict}"


def remarks(result: Result) -> Iterator[str]:
    """What a table cannot hold: reasons, vacuity, symmetry."""
    verdict = result.verdict
    if verdict.reason:
        yield f"  {result.property}: {verdict.reason}"
    if isinstance(verdict, Holds) and verdict.vacuous is not None:
        yield f"  {result.property} is vacuous: {verdict.vacuous}"
    if result.effort.unreduced_states is not None:
        counts = f"{result.effort.states:,} states stand for {result.effort.unreduced_states:,}"
        yield f"  {result.property}: by symmetry, {counts}"


def trace_title(result: Result, trace: Trace) -> str:
    """What a trace shows of a property, and how long it is."""
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
    return f"{what} {trace_length(trace)}:"


def trace_length(trace: Trace) -> str:
    """How long a run is, in words."""
    waits = len(trace.steps) > 1 and trace.steps[-1].action is None
    count = len(trace.steps) - 1 - waits
    if trace.loop is not None:
        stem = tell_count(trace.loop, "step")
        again = f"{count - trace.loop} again and again" if trace.loop < count else "nothing for ever"
        return f"{stem}, then {again}"
    if count == 0:
        return "waiting alone" if waits else "the initial state"
    what = tell_count(count, "step") + (" and waiting" if waits else "")
    return what + (" (no run is shorter)" if trace.shortest else "")


def show_effort(result: Result) -> tuple[str, ...]:
    """What a verdict cost, as `EFFORT_TITLES` names it."""
    effort = result.effort
    return (
        f"{effort.states:,}",
        f"{effort.transitions:,}",
        f"{effort.depth:,}",
        show_seconds(effort.seconds),
        show_memory(effort.memory_mib),
    )


def tell_count(number: int, noun: str) -> str:
    """A number of things."""
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
