"""The wording of results, shared by all formats: remarks, titles, figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, assert_never

from veristream.verdict import Holds, Invalid, Result, Trace, Unknown, Violated, word

if TYPE_CHECKING:
    from veristream.expected import KnownModel, Outcome, Reproduction

EFFORT_TITLES = ("states", "transitions", "depth", "time", "memory")


def model_title(model: KnownModel) -> str:
    """Returns the model's name, with its constants if it has any."""
    constants = show_constants(model)
    return f"{model.name} with {constants}" if constants else model.name


def show_constants(model: KnownModel) -> str:
    """Formats the constants that `expected.toml` sets."""
    return ", ".join(f"{name} = {value}" for name, value in model.constants.items())


def tell_agreement(reproductions: Sequence[Reproduction]) -> str:
    """Says how many verdicts of the models are as expected."""
    outcomes = [outcome for one in reproductions for outcome in one.outcomes]
    agreeing = sum(not outcome.differences for outcome in outcomes)
    models = tell_count(len(reproductions), "model")
    return f"{models}: {agreeing} of {tell_count(len(outcomes), 'verdict')} as expected"


def outcome_remarks(outcome: Outcome, all_outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yields remarks on a known verdict: differences, published figures, the intended property."""
    name = outcome.result.property
    for difference in outcome.differences:
        yield f"  {name} differs: {difference} ({outcome.expectation.source})"
    if outcome.expectation.published is not None:
        yield f"  {name}, published figures: {outcome.expectation.published}"
    yield from remarks(outcome.result)
    for other in all_outcomes:
        if other.expectation.meant_by == name:
            found = word(other.result.verdict)
            verdict = found if found == "holds" else f"is {found}"
            yield f"    {name} was meant as {other.result.property}, which {verdict}"


def remarks(result: Result) -> Iterator[str]:
    """Yields remarks on a result: its reason, vacuity, symmetry."""
    verdict = result.verdict
    if verdict.reason:
        yield f"  {result.property}: {verdict.reason}"
    if isinstance(verdict, Holds) and verdict.vacuous is not None:
        yield f"  {result.property} is vacuous: {verdict.vacuous}"
    if result.effort.unreduced_states is not None:
        counts = f"{result.effort.unreduced_states:,} states to {result.effort.states:,}"
        yield f"  {result.property}: symmetry reduced {counts}"


def reduction_remarks(results: Sequence[Result]) -> Iterator[str]:
    """Yields what partial-order reduction means for the results, if it was used."""
    reduced = [result for result in results if result.effort.reduced]
    if not reduced:
        return
    whose = "" if len(reduced) == len(results) else f" of {', '.join(one.property for one in reduced)}"
    yield f"  counts{whose} are reduced by partial order (--no-reduction)"
    traces = [one.verdict.trace for one in reduced]
    if any(trace is not None and not trace.shortest for trace in traces):
        yield "  traces may not be the shortest (--shortest)"


def order_remarks(results: Sequence[Result]) -> Iterator[str]:
    """Yields what a depth-first search means for the results, if there was one."""
    others = [result.property for result in results if not result.effort.depth_first]
    if len(others) == len(results):
        return
    if others:
        names = ", ".join(others)
        yield f"  not searched for depth-first: {names} (--order depth is for safety properties)"
    traces = [result.verdict.trace for result in results if result.effort.depth_first]
    if any(trace is not None and not trace.shortest for trace in traces):
        yield "  traces found depth-first may not be the shortest (--shortest)"


def hash_remarks(results: Sequence[Result]) -> Iterator[str]:
    """Yields which results do not come from hash compaction, if it was used."""
    others = [result.property for result in results if result.effort.hash_bits is None]
    if 0 < len(others) < len(results):
        names = ", ".join(others)
        yield f"  searched without hash compaction: {names} (--hash-compact is for safety properties)"


def all_remarks(results: Sequence[Result]) -> Iterator[str]:
    """Yields the remarks on each result, then what the kind of search means for all of them."""
    return chain(
        *map(remarks, results),
        reduction_remarks(results),
        order_remarks(results),
        hash_remarks(results),
    )


def trace_title(result: Result, trace: Trace) -> str:
    """Says what a trace shows about a property, and how long it is."""
    match result.verdict:
        case Holds():
            what = f"{result.property} holds, for example by"
        case Violated():
            what = f"{result.property} is violated by"
        case Unknown(fault=None):
            what = f"{result.property} is undecided; the trace so far is"
        case Unknown():
            what = f"{result.property} cannot be decided; the model fails after"
        case Invalid():
            what = f"{result.property} is wrong, after"
        case _ as never:
            assert_never(never)
    return f"{what} {trace_length(trace)}:"


def trace_length(trace: Trace) -> str:
    """Says how long a trace is."""
    waits = len(trace.steps) > 1 and trace.steps[-1].action is None
    count = len(trace.steps) - 1 - waits
    if trace.loop is not None:
        stem = tell_count(trace.loop, "step")
        again = f"a loop of {count - trace.loop}" if trace.loop < count else "nothing, forever"
        return f"{stem}, then {again}"
    if count == 0:
        return "a delay" if waits else "the initial state"
    what = tell_count(count, "step") + (" and a delay" if waits else "")
    return what + (" (no run is shorter)" if trace.shortest else "")


def show_effort(result: Result) -> tuple[str, ...]:
    """Formats what a verdict cost, in the order of `EFFORT_TITLES`."""
    effort = result.effort
    return (
        f"{effort.states:,}",
        f"{effort.transitions:,}",
        f"{effort.depth:,}",
        show_seconds(effort.seconds),
        show_memory(effort.memory_mib),
    )


def tell_count(number: int, noun: str) -> str:
    """Formats a number with its noun, in the plural if needed."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def show_seconds(seconds: float) -> str:
    """Formats a duration with about three digits."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def show_memory(memory_mib: float) -> str:
    """Formats an amount of memory in MiB, or in GiB from 1 GiB on."""
    if memory_mib >= 1024:
        return f"{memory_mib / 1024:.1f} GiB"
    return f"{memory_mib:.1f} MiB" if memory_mib < 10 else f"{memory_mib:.0f} MiB"
