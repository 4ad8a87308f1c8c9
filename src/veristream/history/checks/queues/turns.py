"""`order` of the receives from queues."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.table.codes import encode_all
from veristream.history.checks.table.table import Table, firsts, tell
from veristream.history.reasons import Evidence, merge

_KIND = "nonmonotonic poll"
_BITS = 32


def find_older_messages(table: Table) -> Evidence:
    """Finds first receipts by a process after that of a message of the producer with a higher number."""
    rows = table.rows
    receipts = table.queue_receipts()
    if not receipts.size:
        return Evidence()
    message, process, group = table.messages.of_row, rows["process"], rows["group"]
    receipts = receipts[
        np.lexsort((rows["index"][receipts], message[receipts], process[receipts], group[receipts]))
    ]
    receiver, _ = encode_all(group[receipts], process[receipts])
    again = (np.diff(receiver, prepend=-1) == 0) & (np.diff(message[receipts], prepend=-1) == 0)
    receipts = receipts[~again & (rows["attempt"][receipts] <= 1)]
    if not receipts.size:
        return Evidence()
    pair = table.messages.pair_of(message[receipts])
    turn, _ = encode_all(group[receipts], process[receipts], pair)
    order = np.lexsort((rows["index"][receipts], turn))
    receipts, turn = receipts[order], turn[order].astype(np.int64)
    # Messages of a pair ascend with their numbers, so the highest one so far is the running maximum.
    highest = np.maximum.accumulate((turn << _BITS) + message[receipts]) & ((1 << _BITS) - 1)
    asked = np.diff(turn, prepend=-1) == 0
    late = np.flatnonzero(message[receipts] < highest)
    after, highest = receipts[late], highest[late]
    before = receipts[_positions(turn, message[receipts], turn[late], highest)]
    same = rows["call"][before] == rows["call"][after]
    parts = [Evidence(asked=int(np.count_nonzero(asked)))]
    if not table.context.manifest.complete:
        return parts[0]
    for kind, which in ((_KIND, ~same), (f"int-{_KIND}", same)):
        one, other = before[which], after[which]
        shown = []
        for each in firsts(table.in_order(other)):
            events = rows.events([int(one[each]), int(other[each])])
            shown.append((table.anomaly_at(kind, int(other[each])), events))
        parts.append(tell(table, shown, counts={kind: len(other)}))
    return merge(parts)


def _positions(
    turns: NDArray[Any],
    messages: NDArray[np.int32],
    turn: NDArray[Any],
    message: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Returns where each turn and message is among the different `turns` and `messages`."""
    keys = (turns << _BITS) + messages
    order = np.argsort(keys)
    found: NDArray[np.int64] = order[np.searchsorted(keys[order], (turn << _BITS) + message)]
    return found
