"""The checks of transactions on a bucket: what it decides itself, and what it sends to be joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from veristream.history.checks.context import Context
from veristream.history.checks.rows import Rows
from veristream.history.checks.transactions.aborted import check_aborted
from veristream.history.checks.transactions.cycles import Edges, Step, find_edges, show_step
from veristream.history.checks.transactions.cycles import Shown as Shown
from veristream.history.checks.transactions.hanging import check_hanging
from veristream.history.checks.transactions.ledger import Ledger
from veristream.history.checks.transactions.traced import has_transactions, trace
from veristream.history.checks.transactions.whole import (
    Half,
    Readings,
    find_halves,
    find_members,
    find_readings,
)
from veristream.history.events import NONE, Operation
from veristream.history.properties import Property
from veristream.history.reasons import Evidence, looks_at

DECIDED = (Property.ABORTED, Property.WHOLE, Property.HANGING)


@dataclass(frozen=True, slots=True)
class Sent:
    """What a bucket shows: evidence of its own, and what is to be joined with that of other buckets."""

    evidence: dict[Property, Evidence] = field(default_factory=dict)
    readings: Readings | None = None
    edges: Edges | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Anomalies whose events are asked for: torn readings (reader, transaction), the transactions that
    components are told by, and the steps of cycles in these."""

    torn: tuple[tuple[int, int], ...] = ()
    components: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()

    def transactions(self) -> list[int]:
        """Returns the transactions that they are about."""
        in_steps = {each for step in self.steps for each in step[:2]}
        return sorted({each for _, each in self.torn} | {*self.components} | in_steps)


@dataclass(frozen=True, slots=True)
class Telling:
    """What a bucket has of them, in the same order."""

    halves: tuple[tuple[Half | None, Half | None], ...] = ()
    steps: tuple[Shown | None, ...] = ()


def check_transactions(rows: Rows, context: Context, ledger: Ledger, asked: Sequence[Property]) -> Sent:
    """Returns what the rows of a bucket show of the properties in `DECIDED`."""
    chosen = [each for each in DECIDED if each in asked]
    evidence = {each: Evidence(_operations(rows, context, each)) for each in chosen}
    if Property.HANGING in evidence:
        found = check_hanging(rows, context)
        evidence[Property.HANGING] = replace(found, operations=evidence[Property.HANGING].operations)
    if not chosen or not has_transactions(rows, context):
        return Sent(evidence)
    traced = trace(rows, context, ledger)
    if Property.ABORTED in evidence:
        found = check_aborted(traced, context, ledger)
        evidence[Property.ABORTED] = replace(found, operations=evidence[Property.ABORTED].operations)
    if Property.WHOLE not in evidence or not context.manifest.transactions_recorded:
        return Sent(evidence)
    readings = find_readings(traced, find_members(traced, ledger), ledger)
    return Sent(evidence, readings, find_edges(traced, ledger))


def tell_transactions(rows: Rows, context: Context, ledger: Ledger, wanted: Wanted) -> Telling:
    """Returns the events that a bucket has of some anomalies that all buckets showed together."""
    traced = trace(rows, context, ledger)
    members = find_members(traced, ledger)
    return Telling(
        tuple(find_halves(traced, members, ledger, *each) for each in wanted.torn),
        tuple(show_step(traced, ledger, each) for each in wanted.steps),
    )


def _operations(rows: Rows, context: Context, asked: Property) -> int:
    """Counts the events that are looked at."""
    kinds = np.array([int(each.offsets) for each in context.manifest.streams] + [2])
    kind = np.where(rows["stream"] == NONE, 2, kinds[rows["stream"]])
    counts = np.bincount(rows["operation"] * 3 + kind, minlength=3 * len(Operation)).reshape(-1, 3)
    return sum(
        int(counts[operation, number])
        for operation in Operation
        for number, is_log in enumerate((False, True, None))
        if looks_at(asked, operation, is_log)
    )
