"""Which search decides which claim; and the local engine, which runs all of them on this machine.

An engine is a table from methods to searches. `run_searches` is the same for all engines: it chooses the
method of each property, runs the searches one after the other, and begins none after an interrupt. Each
search is imported when it first runs: most checks need one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import assert_never

from veristream.errors import ModelError
from veristream.ir.network import Network
from veristream.ir.property import (
    Always,
    DeadlockFree,
    Deterministic,
    DivergenceFree,
    Fairness,
    Inevitable,
    LeadsTo,
    NonTerminating,
    PotentiallyAlways,
    Property,
    Reachable,
    Refines,
    Temporal,
    Transition,
    kind_of,
)
from veristream.search.limits import HASH_BITS_MAX, HASH_BITS_MIN, Limits, Order, Report, silent
from veristream.search.session import INTERRUPTED, OUT_OF_MEMORY, out_of_states, peak_memory_mib
from veristream.verdict import Effort, Invalid, Result, Unknown

EXPLODED = 4
"""A frontier has exploded if it has at least this part of the states, a fourth..."""
EXPLODED_FROM = 10_000
"""...and if there are at least so many states."""
LOCAL_REMEDY = "--max-memory-mib raises it; --engine spark --spill DIR uses a cluster's memory and disks"


class Method(Enum):
    """How a claim is decided."""

    STATES = "by exploring states"
    ZONES = "by exploring zones"
    RUNS = "by searching the product with a Büchi automaton for cycles"
    TIMED_RUNS = "by searching zones for a run that stays in a condition"
    REFINEMENT = "by comparing the network with its specification"
    DETERMINISM = "by comparing steps of the same event"


SHARES_ONE_SEARCH = (Method.STATES, Method.ZONES)
"""Methods that decide several properties in one search."""

Check = Callable[[Network, Sequence[Property], Limits, Report], dict[str, Result]]
"""Checks properties that one search decides; returns the results by name."""

CheckOne = Callable[[Network, Property, Limits, Report], Result]


def method_for(network: Network, property_: Property) -> Method:
    """The method that decides the property; raises ModelError for fairness in a timed network."""
    match property_.claim:
        case DeadlockFree() | NonTerminating() | Always() | Reachable() | Transition():
            return Method.ZONES if network.timed else Method.STATES
        case Refines():
            return Method.REFINEMENT
        case Deterministic():
            return Method.DETERMINISM
        case Temporal() | LeadsTo() | DivergenceFree() | Inevitable() | PotentiallyAlways():
            if not network.timed:
                return Method.RUNS
            if property_.fairness is not Fairness.NONE:
                raise ModelError(
                    "fairness is not supported for timed networks",
                    property_.span,
                    "remove --fairness; use invariants to force steps in time",
                )
            return Method.TIMED_RUNS
        case _:
            assert_never(property_.claim)


def check_order(asked: Sequence[tuple[Network, Property]], limits: Limits) -> None:
    """Raises ModelError if the limits ask for a depth-first search that nothing asked for can use."""
    if limits.order is not Order.DEPTH:
        return
    if limits.workers is not None and limits.workers > 1:
        raise ModelError(
            f"a depth-first search has one worker, not {limits.workers}",
            hint="remove --workers, or search breadth-first without --order depth",
        )
    if not any(method_for(network, one) is Method.STATES for network, one in asked):
        raise ModelError(
            f"--order depth does not apply to {', '.join(one.name for _, one in asked)}",
            hint="remove it; only safety properties of models without clocks are searched for depth-first",
        )


def check_hashing(asked: Sequence[tuple[Network, Property]], limits: Limits) -> None:
    """Raises ModelError if the limits ask for hash compaction that nothing asked for can use."""
    bits = limits.hash_bits
    if bits is None:
        return
    if not HASH_BITS_MIN <= bits <= HASH_BITS_MAX:
        raise ModelError(
            f"a hash cannot have {bits} bits",
            hint=f"choose from {HASH_BITS_MIN} to {HASH_BITS_MAX}; 40 to 64 suit most models",
        )
    clash = next((option for option, is_given in _without_hashing(limits).items() if is_given), None)
    if clash is not None:
        raise ModelError(f"--hash-compact cannot be combined with {clash}", hint="remove one of them")
    if not any(method_for(network, one) is Method.STATES for network, one in asked):
        raise ModelError(
            f"--hash-compact does not apply to {', '.join(one.name for _, one in asked)}",
            hint="remove it; it is for safety properties of models without clocks",
        )


def _without_hashing(limits: Limits) -> dict[str, bool]:
    """What hash compaction cannot do, and whether the limits ask for it."""
    return {
        f"--workers {limits.workers}": limits.workers is not None and limits.workers > 1,
        "--order depth": limits.order is Order.DEPTH,
        "--shortest": limits.shortest,
    }


def plan_searches(network: Network, properties: Sequence[Property]) -> list[tuple[Method, list[Property]]]:
    """The searches to run, in order, each with the properties that it decides: safety first."""
    methods = [(method_for(network, one), one) for one in properties]
    safety = [one for method, one in methods if method in SHARES_ONE_SEARCH]
    planned = _plan_safety(network, safety) if safety else []
    return planned + [(method, [one]) for method, one in methods if method not in SHARES_ONE_SEARCH]


def _plan_safety(network: Network, safety: Sequence[Property]) -> list[tuple[Method, list[Property]]]:
    if network.timed:
        from veristream.search.zones.safety import groups_of

        return [(Method.ZONES, group) for group in groups_of(safety)]
    from veristream.search.reach.batch import batches

    return [(Method.STATES, [case.property for case in batch.cases]) for batch in batches(safety)]


def run_searches(
    table: Mapping[Method, Check],
    network: Network,
    properties: Sequence[Property],
    limits: Limits,
    report: Report,
) -> tuple[Result, ...]:
    """The result of each property, in their order; the network must have been verified.

    A limit that is reached or an interrupt makes `Unknown` of what is not decided by then. A property that
    a search refuses is `Invalid`, and the others are searched for without it.
    """
    results: dict[str, Result] = {}
    for method, group in plan_searches(network, properties):
        if any(map(_was_interrupted, results.values())):
            results |= {one.name: not_begun(one) for one in group}
        else:
            results |= _search(table[method], network, group, limits, report)
    return tuple(results[one.name] for one in properties)


def _search(
    check_group: Check, network: Network, group: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    """The results of a group; raises ModelError for what is wrong with the network.

    If a property is wrong, or cannot be evaluated, the others are searched for without it.
    """
    wrong: dict[str, Result] = {}
    while len(wrong) < len(group):
        rest = [one for one in group if one.name not in wrong]
        try:
            found = check_group(network, rest, limits, report)
            if len(rest) > 1 and any(map(_fails_itself, found.values())):
                for one in rest:
                    found |= check_group(network, [one], limits, report)
            return wrong | found
        except ModelError as error:
            culprit = next((one for one in rest if one.span.contains(error.span)), None)
            if culprit is None:
                raise
            wrong[culprit.name] = refused(culprit.name, kind_of(culprit.claim), error)
        except RecursionError:
            if len(rest) == 1:
                return wrong | {rest[0].name: _too_deep(rest[0])}
            for one in rest:
                wrong |= _search(check_group, network, [one], limits, report)
    return wrong


def _too_deep(property_: Property) -> Result:
    hint = "split it, or move parts of it to functions"
    error = ModelError("the property, or the model, is nested too deeply", property_.span, hint)
    return refused(property_.name, kind_of(property_.claim), error)


def _fails_itself(result: Result) -> bool:
    """Whether a property that cannot be evaluated ended the search, maybe another one of its group."""
    verdict = result.verdict
    return isinstance(verdict, Unknown) and verdict.fault is not None and verdict.fault.in_property


def refused(name: str, kind: str, error: ModelError) -> Result:
    """The result of a property that is wrong."""
    effort = Effort(0, 0, 0, 0.0, peak_memory_mib())
    return Result(name, kind, Invalid(error.message, error.span, error.hint), effort)


def _was_interrupted(result: Result) -> bool:
    return isinstance(result.verdict, Unknown) and result.verdict.reason.startswith(INTERRUPTED)


def not_begun(property_: Property) -> Result:
    """The result of a property that no search was begun for because of an interrupt."""
    effort = Effort(0, 0, 0, 0.0, peak_memory_mib())
    return Result(property_.name, kind_of(property_.claim), Unknown(INTERRUPTED), effort)


# --- The local engine -------------------------------------------------------------------------------


def _check_states(
    network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    from veristream.search.reach.safety import check_safety

    found = check_safety(network, properties, replace(limits, remedy=LOCAL_REMEDY), report)
    return {name: _with_hint_to_go_deep(result, limits) for name, result in found.items()}


def _with_hint_to_go_deep(result: Result, limits: Limits) -> Result:
    """Adds a hint if a limit ended a breadth-first search with an exploded frontier: it cannot get deep."""
    verdict, effort = result.verdict, result.effort
    if not isinstance(verdict, Unknown) or verdict.fault is not None or limits.order is Order.DEPTH:
        return result
    stopped = verdict.reason.startswith(OUT_OF_MEMORY) or verdict.reason == out_of_states(limits)
    exploded = effort.frontier * EXPLODED >= effort.states >= EXPLODED_FROM
    if not stopped or not exploded or effort.hash_bits is not None:
        return result
    share = f"{effort.frontier:,} of {effort.states:,} states were still to be explored"
    hint = f"{share} at depth {effort.depth}: --order depth may find what lies deeper"
    return replace(result, verdict=replace(verdict, reason=f"{verdict.reason}; {hint}"))


def _check_zones(
    network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    from veristream.search.zones.safety import check_timed_safety

    return check_timed_safety(network, properties, limits, report)


def _sharing_runs(properties: Sequence[Property]) -> Check:
    """Checks properties of runs, one at a time; all of them share what is found out about the network."""
    from veristream.search.runs.liveness import check_liveness
    from veristream.search.runs.stored import Sharing

    sharing = Sharing(properties)

    def check_run(network: Network, property_: Property, limits: Limits, report: Report) -> Result:
        return check_liveness(network, property_, replace(limits, remedy=LOCAL_REMEDY), report, sharing)

    return _one_by_one(check_run)


def _check_runs(
    network: Network, properties: Sequence[Property], limits: Limits, report: Report
) -> dict[str, Result]:
    return _sharing_runs(properties)(network, properties, limits, report)


def _check_timed_run(network: Network, property_: Property, limits: Limits, report: Report) -> Result:
    from veristream.search.zones.runs import check_timed_runs

    return check_timed_runs(network, property_, limits, report)


def _check_refinement(network: Network, property_: Property, limits: Limits, report: Report) -> Result:
    from veristream.search.refine.refinement import check_refinement

    return check_refinement(network, property_, limits, report)


def _check_determinism(network: Network, property_: Property, limits: Limits, report: Report) -> Result:
    from veristream.search.refine.determinism import check_determinism

    return check_determinism(network, property_, limits, report)


def _one_by_one(check_one: CheckOne) -> Check:
    """Searches for each property by itself."""

    def check_all(
        network: Network, properties: Sequence[Property], limits: Limits, report: Report
    ) -> dict[str, Result]:
        return {one.name: check_one(network, one, limits, report) for one in properties}

    return check_all


LOCAL: Mapping[Method, Check] = {
    Method.STATES: _check_states,
    Method.ZONES: _check_zones,
    Method.RUNS: _check_runs,
    Method.TIMED_RUNS: _one_by_one(_check_timed_run),
    Method.REFINEMENT: _one_by_one(_check_refinement),
    Method.DETERMINISM: _one_by_one(_check_determinism),
}


def check(
    network: Network, properties: Sequence[Property], limits: Limits, report: Report = silent
) -> tuple[Result, ...]:
    """The result of each property, in their order, searched for on this machine; see `run_searches`."""
    runs = [one for one in properties if method_for(network, one) is Method.RUNS]
    table = LOCAL if not runs else {**LOCAL, Method.RUNS: _sharing_runs(runs)}
    return run_searches(table, network, properties, limits, report)
