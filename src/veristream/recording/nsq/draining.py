"""Reading a channel of an nsqd to its end, which is what makes it known that a message is lost."""

from __future__ import annotations

import time
from typing import Final

from veristream.brokers.nsq.connection import Refused
from veristream.brokers.nsq.interface import TopicDepth, read_depths
from veristream.history.events import Operation
from veristream.recording.nsq.clients import Consumer

QUIET_S: Final = 0.1
EMPTY_READINGS: Final = 3
"""nsqd counts a message nowhere for the moment in which it moves it from a topic to its channels, or from a
channel to a consumer; so one reading of zeros is not enough."""


def read_to_end(consumer: Consumer, patience_s: float) -> bool:
    """Receives and finishes messages until the channel has none, and says whether that was reached.

    None waits in the topic or the channel, is in flight to any consumer, or was given back for later. The
    consumer must be ready; nobody else may publish to the topic at this node in the meantime.
    """
    journal = consumer.journal
    call = journal.invoke(Operation.READ_TO_END, **consumer.fields)
    try:
        left = _drain(consumer, patience_s)
    except (OSError, Refused) as error:
        journal.fail(call, str(error) or type(error).__name__)
        return False
    except BaseException as error:
        journal.fail(call, type(error).__name__)
        raise
    if left:
        journal.fail(call, f"{left} after {patience_s:g} s")
    else:
        journal.ok(call)
    return not left


def _drain(consumer: Consumer, patience_s: float) -> str:
    """Returns what is left, in words; empty if nothing is."""
    deadline_s = time.monotonic() + patience_s
    empty = 0
    left = "nothing was read"
    while time.monotonic() < deadline_s:
        message = consumer.receive(QUIET_S)
        if message is not None:
            consumer.finish(message)
            empty = 0
            continue
        if not consumer.settle(deadline_s - time.monotonic()):
            break
        left = tell_left(read_depths(consumer.node.http, consumer.topic), consumer.channel)
        empty = 0 if left else empty + 1
        if empty == EMPTY_READINGS:
            return ""
    return left or "no time to be sure was left"


def tell_left(found: TopicDepth | None, channel: str) -> str:
    """Returns what a channel has or will get, in words; empty if that is nothing."""
    if found is None or channel not in found.channels:
        return "the channel is not there"
    one = found.channels[channel]
    counts = {
        "in the topic": found.depth,
        "in the channel": one.depth,
        "in flight": one.in_flight,
        "deferred": one.deferred,
    }
    return ", ".join(f"{count} {where}" for where, count in counts.items() if count)
