"""Events: what a client of a broker did, and what it learnt of the outcome.

A *call* of a client begins with an event of outcome `INVOKE` and ends with one of another outcome. A call
that is never seen to end is indefinite: it may or may not have taken effect. Calls that have no effect on a
broker, such as receiving, have only their end, one event for each message.

A message is called by its producer and a number that its producer gave to no other message.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

NONE = -1
"""Stands for a number that an event does not have."""


class Operation(IntEnum):
    """What was called."""

    SEND = 0
    RECEIVE = 1
    """A message was delivered; `attempt` counts its deliveries from 1, as far as the broker tells."""
    ACKNOWLEDGE = 2
    """A consumer said that it has processed a message, and will not see it again (ack, FIN)."""
    REJECT = 3
    """A consumer gave a message back, to be delivered again (nack, REQ)."""
    COMMIT = 4
    """A group stored that it has processed all below `offset`."""
    OPEN = 5
    """A transactional producer obtained its `epoch`, which fences earlier ones of the same `group`."""
    BEGIN = 6
    END_COMMIT = 7
    END_ABORT = 8
    ASSIGN = 9
    """A member of a group got a partition; `offset` is where it starts, if it is known."""
    REVOKE = 10
    SEEK = 11
    """A consumer moved to `offset`: what follows is no continuation of what it received before."""
    READY = 12
    """A consumer allows `number` messages in flight (RDY, prefetch)."""
    READ_TO_END = 13
    """A reader saw everything from offset `number` up to, not including, `offset`; or drained a queue."""
    CLOSE = 14
    """A client ended, or was killed."""


class Outcome(IntEnum):
    """What a client learnt of a call."""

    INVOKE = 0
    OK = 1
    FAIL = 2
    """It certainly had no effect."""
    INDEFINITE = 3
    """It may or may not have had its effect."""


@dataclass(frozen=True, slots=True)
class Event:
    """A row of a history; see `docs/history-checks.md` for which operation has which fields.

    `index` counts the events of a process from 0, without gaps. `call` is the same for all events of one
    call. `time_ns` is the monotonic clock, from the start of the recording; `wall_us` is the time of day.
    `stream`, `group`, `node` and `process` are numbers of names in the manifest. `group` is a consumer
    group, a subscription (an NSQ channel, a queue) or a transactional id. `transaction` counts those of the
    process that sends. `epoch` is a producer's epoch, or a group's generation. `digest` is of the bytes;
    0 if it was not taken.
    """

    process: int
    index: int
    call: int
    operation: Operation
    outcome: Outcome
    time_ns: int = 0
    wall_us: int = 0
    stream: int = NONE
    partition: int = NONE
    offset: int = NONE
    producer: int = NONE
    number: int = NONE
    digest: int = 0
    group: int = NONE
    transaction: int = NONE
    epoch: int = NONE
    attempt: int = NONE
    node: int = NONE
    error: str = ""
