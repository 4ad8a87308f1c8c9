"""Sends whose partition nobody learnt: they count in each partition in which their message was received."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.context import Context
from veristream.history.checks.rows import Rows, join
from veristream.history.checks.table.codes import encode_all
from veristream.history.events import NONE, Operation, Outcome


def with_strays(rows: Rows, context: Context) -> Rows:
    """Appends each stray to the rows, once for each partition among them that received its message."""
    strays = context.strays
    known = np.flatnonzero(strays["producer"] >= 0)
    if not known.size:
        return rows
    received = (rows["operation"] == Operation.RECEIVE) & (rows["producer"] >= 0)
    received &= np.isin(rows["stream"], np.unique(strays["stream"]))
    received &= np.isin(rows["producer"], np.unique(strays["producer"]))
    receipts = np.flatnonzero(received)
    if not receipts.size:
        return rows
    keys = [
        np.concatenate((strays[name][known], rows[name][receipts]))
        for name in ("stream", "producer", "number")
    ]
    codes, _ = encode_all(*keys)
    pairs, (partitions, messages) = encode_all(rows["partition"][receipts], codes[len(known) :])
    del pairs
    stray, partition = _pair_up(codes[: len(known)], messages, partitions)
    if not stray.size:
        return rows
    added = strays.select(known[stray])
    columns = {name: added[name] for name in rows.columns} | {"partition": partition.astype(np.int32)}
    return join([rows, Rows(columns, added.source, added.at)])


def _pair_up(
    strays: NDArray[np.int32], messages: NDArray[np.int64], partitions: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns each stray with each partition of its message."""
    order = np.argsort(messages, kind="stable")
    messages, partitions = messages[order], partitions[order]
    begin, end = np.searchsorted(messages, strays), np.searchsorted(messages, strays, side="right")
    counts = end - begin
    stray = np.repeat(np.arange(len(strays)), counts)
    inside = np.arange(len(stray)) - np.repeat(np.cumsum(counts) - counts, counts)
    return stray, partitions[begin[stray] + inside]


def unseen(rows: Rows, context: Context) -> int:
    """Returns a bit for each effective stray message, once for each subscription of a queue: whether none
    of the rows is a receipt of it."""
    strays = context.strays
    accepted = np.flatnonzero((strays["outcome"] == Outcome.OK) & (strays["producer"] != NONE))
    if not accepted.size:
        return 0
    effective = committed(strays, context)
    if effective.size:
        accepted = accepted[effective[accepted]]
    received = np.flatnonzero((rows["operation"] == Operation.RECEIVE) & (rows["producer"] != NONE))
    keys = (
        np.concatenate((strays[name][accepted], rows[name][received]))
        for name in ("stream", "producer", "number")
    )
    codes, (streams, _, _) = encode_all(*keys)
    seen = np.zeros(len(streams), np.bool_)
    seen[codes[len(accepted) :]] = True
    _, first = np.unique(codes[: len(accepted)], return_index=True)
    messages = codes[: len(accepted)][first]
    times = [
        1 if each.offsets else max(1, len(context.subscriptions.get(stream, ())))
        for stream, each in enumerate(context.manifest.streams)
    ]
    bits = np.repeat(~seen[messages], np.array(times)[streams[messages]])
    return int.from_bytes(np.packbits(bits).tobytes())


def committed(rows: Rows, context: Context) -> NDArray[np.bool_]:
    """Returns which rows are in no transaction, or in a committed one; nothing if none is in one."""
    empty = np.empty(0, np.bool_)
    if "transaction" not in rows.columns:
        return empty
    inside = np.flatnonzero((rows["transaction"] != NONE) & (rows["operation"] == Operation.SEND))
    if not inside.size:
        return empty
    control = context.control
    ends = np.isin(control["operation"], (Operation.END_COMMIT, Operation.END_ABORT))
    ended = np.flatnonzero(ends & (control["outcome"] == Outcome.OK) & (control["transaction"] != NONE))
    codes, _ = encode_all(
        *(np.concatenate((control[name][ended], rows[name][inside])) for name in ("process", "transaction"))
    )
    done = np.zeros((2, int(codes.max()) + 1), np.bool_)
    aborted = control["operation"][ended] == Operation.END_ABORT
    done[aborted.astype(np.int8), codes[: len(ended)]] = True
    found = np.ones(len(rows), np.bool_)
    found[inside] = (done[0] & ~done[1])[codes[len(ended) :]]
    return found
