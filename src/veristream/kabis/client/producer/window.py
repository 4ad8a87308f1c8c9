"""How much a producer asks of the other parties at a time, and how long it waits before it asks again."""

from __future__ import annotations

from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.protocol.outcomes import NOT_YET, Outcome, Refused

MOVING_MAX = 64
"""How many batches of a partition are stored and submitted at a time; later ones wait, signed."""
MOVING_MIN = 4
MOVING_TOTAL = 512
"""The same for all partitions, so that validators do not refuse some of them for lack of room."""

DOUBLINGS_MAX = 16


def find_window(partitions: int) -> int:
    """Returns how many batches of each partition may move."""
    return max(MOVING_MIN, min(MOVING_MAX, MOVING_TOTAL // max(1, partitions)))


def find_refusal(outcome: Outcome) -> str:
    """Returns why a validator refused; empty if it keeps the transaction, perhaps until others arrive."""
    is_kept = not isinstance(outcome, Refused) or outcome.reason in NOT_YET
    return "" if is_kept else str(outcome)


def find_wait(options: ProducerOptions, submits: int) -> int:
    """Returns how long to wait after a refusal of what was submitted this often, at least once."""
    return min(options.submit_timeout_ms, options.retry_ms << min(submits - 1, DOUBLINGS_MAX))
