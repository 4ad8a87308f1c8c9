"""What is known of each message of a bucket, collected in one pass over the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.history.events import Operation, Outcome
from veristream.native.loop import loop

SENT = 1  # a SEND of any outcome
SURE = 2  # a SEND that ended with another outcome than FAIL
BEGUN = 4  # the INVOKE of a SEND
FAILED = 8
ACKNOWLEDGED = 16
EFFECTIVE = 32
RECEIVED = 64
AGAIN = 128  # received at two offsets of a log
ALTERED = 256  # sent with several digests

_SEND, _RECEIVE = Operation.SEND.value, Operation.RECEIVE.value
_INVOKE, _OK, _FAIL = Outcome.INVOKE.value, Outcome.OK.value, Outcome.FAIL.value


class Told(NamedTuple):
    """The columns that tell of messages; `committed` and `digest` may be empty."""

    operation: NDArray[np.int8]
    outcome: NDArray[np.int8]
    process: NDArray[np.int32]
    at: NDArray[np.int64]  # its index
    offset: NDArray[np.int64]
    message: NDArray[np.int32]
    committed: NDArray[np.bool_]
    digest: NDArray[np.int64]


class Tally(NamedTuple):
    """Of each message: its bits, the lowest offset at which it was received, the row of its OK `SEND` with
    an offset that is first by process and index, and the digest with which it was sent, if there is one."""

    bits: NDArray[np.int16]
    lowest: NDArray[np.int64]
    stored: NDArray[np.int64]
    digest: NDArray[np.int64]


@loop
def collect(told: Told, tally: Tally) -> None:
    """Fills the tally, which has zeros, and -1 in `stored`."""
    by_transaction = told.committed.size > 0
    has_digests = told.digest.size > 0
    for i in range(told.operation.size):
        message = told.message[i]
        if message < 0:
            continue
        if told.operation[i] == _RECEIVE:
            offset = told.offset[i]
            bits = tally.bits[message]
            if bits & RECEIVED == 0:
                tally.bits[message] = bits | RECEIVED
                tally.lowest[message] = offset
            elif offset != tally.lowest[message]:
                tally.bits[message] = bits | AGAIN
                if offset < tally.lowest[message]:
                    tally.lowest[message] = offset
        elif told.operation[i] == _SEND:
            bits = tally.bits[message] | SENT
            if told.outcome[i] == _INVOKE:
                bits |= BEGUN
            elif told.outcome[i] == _FAIL:
                bits |= FAILED
            elif told.outcome[i] == _OK:
                bits |= SURE | ACKNOWLEDGED
                if not by_transaction or told.committed[i]:
                    bits |= EFFECTIVE
                if told.offset[i] >= 0:
                    known = tally.stored[message]
                    if known < 0 or _precedes(told, i, known):
                        tally.stored[message] = i
            else:
                bits |= SURE
            if has_digests and told.digest[i] != 0:
                if tally.digest[message] == 0:
                    tally.digest[message] = told.digest[i]
                elif tally.digest[message] != told.digest[i]:
                    bits |= ALTERED
            tally.bits[message] = bits


@loop
def _precedes(told: Told, i: int, other: int) -> bool:
    """Whether a row is before another one by process and index."""
    if told.process[i] != told.process[other]:
        return told.process[i] < told.process[other]
    return told.at[i] < told.at[other]
