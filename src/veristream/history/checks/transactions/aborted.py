"""`aborted is never read`: decided in each bucket."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from veristream.history.checks.context import Context
from veristream.history.checks.transactions.clocks import Clocks
from veristream.history.checks.transactions.keys import Bools, Longs, lowest, pack, spread, starts_of
from veristream.history.checks.transactions.ledger import ABORTED, Ledger
from veristream.history.checks.transactions.traced import Traced
from veristream.history.events import Operation, Outcome
from veristream.history.reasons import Evidence
from veristream.history.verdicts import Anomaly, Witness
from veristream.history.witnesses import ABSENCE, WITNESSES, first_of_each, make_witness


def check_aborted(traced: Traced, context: Context, ledger: Ledger) -> Evidence:
    """Returns what a bucket shows of the property, without its operations."""
    asked = int(_read(traced).sum())
    if not context.manifest.transactions_recorded or not traced.count:
        return Evidence(asked=asked)
    calls = _calls(traced, ledger)
    check = _Check(traced, context, ledger, calls)
    aborted = np.flatnonzero(calls.is_aborted[traced.receipts["message"]])
    early, uncompared = check.find_early()
    found = {"aborted read": aborted, "precommitted read": early}
    if not context.manifest.complete:
        found = {kind: rows for kind, rows in found.items() if kind not in ABSENCE}
    witnesses = first_of_each(
        witness for kind, rows in found.items() if rows.size for witness in check.witnesses(kind, rows)
    )
    counts = {kind: int(rows.size) for kind, rows in found.items() if rows.size}
    return Evidence(0, asked, 0, uncompared, counts, witnesses)


def _read(traced: Traced) -> Bools:
    """Says of each message whether somebody received from its partition, or read it to the end."""
    rows = traced.rows
    operation, outcome = rows["operation"], rows["outcome"]
    reads = (operation == Operation.RECEIVE) | (
        (operation == Operation.READ_TO_END) & (outcome == Outcome.OK)
    )
    both = [np.concatenate([traced.message[name], rows[name][reads]]) for name in ("stream", "partition")]
    key = pack(both)
    return np.isin(key[: traced.count], np.unique(key[traced.count :]))


@dataclass(frozen=True, slots=True)
class _Calls:
    """Calls of `SEND`, ordered by message: those of message *m* are from `first[m]` to `first[m + 1]`.

    `is_aborted` says whether a message is, and `all_within` whether it is not, but is possible and every
    call that makes it so is in a transaction.
    """

    message: Longs
    process: Longs
    transaction: Longs
    possible: Bools
    of_send: Longs
    first: Longs
    is_aborted: Bools = field(repr=False)
    all_within: Bools = field(repr=False)


def _calls(traced: Traced, ledger: Ledger) -> _Calls:
    sends, count = traced.sends, traced.count
    starts = starts_of(sends["message"], sends["process"], sends["call"])
    rows = np.arange(sends["message"].size)
    ends = np.where(sends["outcome"] != Outcome.INVOKE, rows, -1)
    last = np.maximum.reduceat(ends, starts)
    possible = (last < 0) | (sends["outcome"][last] != Outcome.FAIL)
    message, transaction = sends["message"][starts], sends["transaction"][starts]
    aborted = (transaction >= 0) & (ledger.fate[transaction] == ABORTED if ledger.fate.size else False)

    def of_message(which: Bools) -> Bools:
        return np.bincount(message[which], minlength=count) > 0

    some, alive = of_message(possible), of_message(possible & ~aborted)
    without = of_message(possible & ~sends["within"][starts])
    return _Calls(
        message,
        sends["process"][starts],
        transaction,
        possible,
        np.repeat(np.arange(starts.size), np.diff(np.append(starts, rows.size))),
        np.searchsorted(message, np.arange(count + 1)),
        some & ~alive,
        alive & ~without,
    )


@dataclass(frozen=True, slots=True)
class _Check:
    traced: Traced
    context: Context
    ledger: Ledger
    calls: _Calls

    def find_early(self) -> tuple[Longs, bool]:
        """Returns the receipts before the commit, and whether one could not be compared."""
        calls, ledger, receipts = self.calls, self.ledger, self.traced.receipts
        asked = np.flatnonzero(calls.all_within[receipts["message"]])
        message = receipts["message"][asked]
        row, call = spread(calls.first[message + 1] - calls.first[message], calls.first[message])
        reader, sender = receipts["process"][asked][row], calls.process[call]
        apart = np.bincount(
            row[~Clocks(self.context).comparable(reader, sender)], minlength=asked.size
        ).astype(np.bool_)
        transaction = calls.transaction[call]
        known = transaction >= 0
        row, call, transaction = row[known], call[known], transaction[known]
        committing = (
            calls.possible[call] & ledger.ended[transaction] & (ledger.fate[transaction] != ABORTED)
        )
        row, call, transaction = row[committing], call[committing], transaction[committing]
        receipt = asked[row]
        before = np.where(
            receipts["process"][receipt] == calls.process[call],
            receipts["index"][receipt] < ledger.ending[transaction],
            receipts["time_ns"][receipt] < ledger.ending_ns[transaction],
        )
        has_commit, late = (
            np.bincount(each, minlength=asked.size).astype(np.bool_) for each in (row, row[~before])
        )
        return asked[~has_commit | (~apart & ~late)], bool((has_commit & apart).any())

    def witnesses(self, kind: str, found: Longs) -> Iterator[Witness]:
        """Yields the first witnesses of some receipts."""
        traced, receipts = self.traced, self.traced.receipts
        place = traced.place[receipts["message"][found]]
        first = lowest(WITNESSES, place, receipts["process"][found], receipts["index"][found])
        for row in found[first].tolist():
            (receipt,) = traced.events([int(receipts["row"][row])])
            anomaly = Anomaly(
                kind,
                stream=receipt.stream,
                partition=receipt.partition,
                process=receipt.process,
                index=receipt.index,
            )
            message = int(receipts["message"][row])
            begin, end = np.searchsorted(traced.sends["message"], [message, message + 1])
            rows = np.arange(begin, end)
            rows = rows[self.calls.possible[self.calls.of_send[rows]]]
            keys = (traced.sends[name][rows] for name in ("index", "process", "time_ns"))
            sent = int(rows[np.lexsort(tuple(keys))[0]])
            events = [receipt, *traced.events([int(traced.sends["row"][sent])])]
            transaction = int(self.calls.transaction[self.calls.of_send[sent]])
            if transaction >= 0:
                is_abort = kind == "aborted read"
                operation = Operation.END_ABORT if is_abort else Operation.END_COMMIT
                end_event = self.ledger.first_end(transaction, operation, only_ok=is_abort)
                events += [end_event] if end_event is not None else []
            yield make_witness(anomaly, events, self.context.manifest)
