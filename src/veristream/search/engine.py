"""The local engine: checks properties on one machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from veristream.errors import ModelError
from veristream.ir.network import Network
from veristream.ir.property import (
    Deterministic,
    DivergenceFree,
    Fairness,
    Inevitable,
    LeadsTo,
    PotentiallyAlways,
    Property,
    Refines,
    Temporal,
    kind_of,
)
from veristream.search.limits import Limits, Report, silent
from veristream.search.reach.safety import check_safety
from veristream.search.refine import refinement
from veristream.search.refine.determinism import check_determinism
from veristream.search.runs.liveness import check_liveness
from veristream.search.session import INTERRUPTED, peak_memory_mib
from veristream.search.zones.runs import check_timed_runs
from veristream.search.zones.safety import check_timed_safety
from veristream.verdict import Effort, Result, Unknown

LOCAL_REMEDY = "--max-memory-mib gives more; --engine spark --spill DIR has a cluster's memory and disks"


def check(
    network: Network, properties: Sequence[Property], limits: Limits, report: Report = silent
) -> tuple[Result, ...]:
    """The result of each property, in their order; the network must have been verified.

    A bound that is hit or an interrupt gives `Unknown` for what is not decided by then.
    """
    safety = [p for p in properties if not is_temporal(p) and not _is_of_events(p)]
    results: dict[str, Result] = {}
    if safety:
        if network.timed:
            results = check_timed_safety(network, safety, limits, report)
        else:
            results = check_safety(network, safety, replace(limits, remedy=LOCAL_REMEDY), report)
    for property_ in properties:
        if property_.name in results:
            continue
        if any(result.verdict == Unknown(INTERRUPTED) for result in results.values()):
            results[property_.name] = not_begun(property_)
        else:
            results[property_.name] = _check_alone(network, property_, limits, report)
    return tuple(results[property_.name] for property_ in properties)


def _check_alone(network: Network, property_: Property, limits: Limits, report: Report) -> Result:
    """The result of a property that needs a search of its own."""
    match property_.claim:
        case Refines():
            return refinement.check_refinement(network, property_, limits, report)
        case Deterministic():
            return check_determinism(network, property_, limits, report)
        case _ if network.timed:
            if property_.fairness is not Fairness.NONE:
                raise ModelError(
                    "runs of a timed network are not asked to be fair",
                    property_.span,
                    "leave --fairness out; invariants make steps happen in time",
                )
            return check_timed_runs(network, property_, limits, report)
        case _:
            return check_liveness(network, property_, replace(limits, remedy=LOCAL_REMEDY), report)


def not_begun(property_: Property) -> Result:
    """The result of a property that an interrupt came before."""
    effort = Effort(0, 0, 0, 0.0, peak_memory_mib())
    return Result(property_.name, kind_of(property_.claim), Unknown(INTERRUPTED), effort)


def _is_of_events(property_: Property) -> bool:
    """Whether the property compares events, of one network or of two."""
    return isinstance(property_.claim, Refines | Deterministic)


def is_temporal(property_: Property) -> bool:
    """Whether the property speaks of infinite runs."""
    return isinstance(property_.claim, Temporal | LeadsTo | DivergenceFree | Inevitable | PotentiallyAlways)
