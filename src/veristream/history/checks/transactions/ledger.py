"""Ledger: every transaction of a history, what became of it and when, from the events without a stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.context import Context
from veristream.history.checks.rows import Rows
from veristream.history.checks.transactions.keys import Bools, Longs, Places, starts_of
from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.witnesses import order_of

INDEFINITE, COMMITTED, ABORTED = 0, 1, 2
NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Ledger:
    """Transactions, numbered by process and then by their own number.

    `fate` is what became of each. `ended` says whether somebody called `END_COMMIT` of it; the first of
    these calls began at `ending` (index) and `ending_ns`. `begin` is the index of the first `BEGIN`, and
    `committed` that of the first OK `END_COMMIT`; -1 if there is none.
    """

    process: Longs
    number: Longs
    fate: NDArray[np.int8]
    ended: Bools
    ending: Longs
    ending_ns: Longs
    begin: Longs
    committed: Longs
    control: Rows
    _width: int
    _places: Places

    def find(self, process: NDArray[Any], transaction: NDArray[Any]) -> Longs:
        """Returns the transaction of each pair; -1 if nothing is known of it."""
        known = (transaction >= 0) & (transaction < self._width)
        found = self._places.find(process.astype(np.int64) * self._width + transaction)
        return np.where(known, found, -1)

    def first_end(self, transaction: int, operation: Operation, only_ok: bool = True) -> Event | None:
        """Returns the first event that ended a transaction so; None if there is none."""
        control = self.control
        found = (control["transaction"] == self.number[transaction]) & (
            control["process"] == self.process[transaction]
        )
        found &= control["operation"] == operation
        if only_ok:
            found &= control["outcome"] == Outcome.OK
        return min(control.events(np.flatnonzero(found)), key=order_of, default=None)


def read_ledger(context: Context) -> Ledger:
    """Returns the transactions of a history."""
    control = context.control
    operation = control["operation"]
    ends = (operation == Operation.END_COMMIT) | (operation == Operation.END_ABORT)
    rows = np.flatnonzero((ends | (operation == Operation.BEGIN)) & (control["transaction"] != NONE))
    columns = {
        name: control[name][rows]
        for name in ("process", "index", "call", "operation", "outcome", "time_ns", "transaction")
    }
    process, transaction = columns["process"].astype(np.int64), columns["transaction"]
    width = int(transaction.max(initial=0)) + 1
    if width > NEVER // (len(context.manifest.processes) + 1):
        raise OverflowError(f"transaction {width - 1} is too high")
    key = process * width + transaction
    order = np.argsort(key, kind="stable")  # within a transaction by index
    columns = {name: column[order] for name, column in columns.items()}
    starts = starts_of(key[order])
    known = key[order][starts]
    rows_of = _Runs(columns, starts)
    is_end = {each: columns["operation"] == each for each in Operation}
    ok = columns["outcome"] == Outcome.OK
    commits, aborts = is_end[Operation.END_COMMIT], is_end[Operation.END_ABORT]
    committed, aborted = rows_of.any(commits & ok), rows_of.any(aborts & ok)
    return Ledger(
        known // width,
        known % width,
        (committed & ~aborted) * np.int8(COMMITTED) + (aborted & ~committed) * np.int8(ABORTED),
        rows_of.any(commits),
        rows_of.least("index", commits),
        rows_of.least("time_ns", commits),
        rows_of.least("index", is_end[Operation.BEGIN], NONE),
        rows_of.least("index", commits & ok, NONE),
        control,
        width,
        Places(known),
    )


class _Runs:
    """The rows of each transaction, which follow each other."""

    def __init__(self, columns: dict[str, NDArray[Any]], starts: Longs) -> None:
        self._columns, self._starts = columns, starts

    def any(self, which: Bools) -> Bools:
        """Says of each transaction whether one of its rows is among them."""
        if not self._starts.size:
            return np.empty(0, np.bool_)
        return np.asarray(np.logical_or.reduceat(which, self._starts))

    def least(self, name: str, which: Bools, otherwise: int = NEVER) -> Longs:
        """Returns the lowest value of those rows of each transaction that are among them."""
        if not self._starts.size:
            return np.empty(0, np.int64)
        values = np.where(which, self._columns[name], NEVER)
        found = np.minimum.reduceat(values, self._starts)
        return np.where(found == NEVER, otherwise, found)
