"""Trials of NSQ: memory and disk, kills and stops, time-outs, RDY."""

from __future__ import annotations

from veristream.history.properties import Property
from veristream.history.verdicts import Word
from veristream.trials.trial import Difference, Pair, Trial

DELIVERED, ONCE, ORDER = Property.DELIVERED, Property.ONCE, Property.ORDER
BOUNDED, FINAL = Property.BOUNDED, Property.FINAL


def _topic(model: str, *properties: Property) -> tuple[Pair, ...]:
    names = {
        DELIVERED: "acknowledged_is_delivered",
        ONCE: "delivered_once",
        ORDER: "delivered_in_order",
        BOUNDED: "in_flight_is_bounded",
        FINAL: "acknowledged_is_never_delivered_again",
    }
    return tuple(Pair(one, model, names[one]) for one in properties)


_DRAINED = "a publisher; after the restart, a consumer drains the channel"
_NOBODY_CONSUMED = Difference(
    Word.HELD,
    "the model also kills nsqd after a consumer has finished messages, before its position is synced; "
    "in this trial the consumer comes later",
)

TRIALS = (
    Trial(
        "nsq",
        "memory",
        "nsqd is killed while it holds messages in memory, as it does by default.",
        {"--mem-queue-size": "10000 (default)"},
        _DRAINED,
        "SIGKILL of nsqd, restart",
        _topic("nsq_memory", DELIVERED),
    ),
    Trial(
        "nsq",
        "stopped",
        "nsqd is asked to end, and writes to disk what it holds in memory, and what is in flight.",
        {"--mem-queue-size": "10000 (default)"},
        "a publisher, and a consumer that holds 5 messages; after the restart, another one drains",
        "SIGTERM of nsqd, restart",
        _topic("nsq_stopped", DELIVERED, ONCE, FINAL),
    ),
    Trial(
        "nsq",
        "overflow",
        "What does not fit into memory goes to disk, and a consumer gets messages of both as it happens.",
        {"--mem-queue-size": "10"},
        "a publisher, then a consumer that finishes 60 messages; after the restart, another one drains",
        "SIGTERM of nsqd, restart",
        _topic("nsq_stopped", DELIVERED, ORDER),
    ),
    Trial(
        "nsq",
        "disk",
        "Messages go to disk, where they are durable only after the next sync; nsqd is killed before it.",
        {"--mem-queue-size": "0", "--sync-every": "2500 (default)"},
        _DRAINED,
        "SIGKILL of nsqd at once, restart",
        _topic("nsq_disk", DELIVERED),
    ),
    Trial(
        "nsq",
        "finished",
        "nsqd is killed before the position of reading is synced: what was finished comes again.",
        {"--mem-queue-size": "0", "--sync-every": "2500 (default)"},
        "a publisher; after a sync, a consumer finishes 5 messages; after the restart, another one drains",
        "SIGKILL of nsqd, restart",
        _topic("nsq_disk", ONCE, FINAL),
    ),
    Trial(
        "nsq",
        "synced",
        "Each message is synced to disk before it is acknowledged.",
        {"--mem-queue-size": "0", "--sync-every": "1"},
        _DRAINED,
        "SIGKILL of nsqd at once, restart",
        _topic("nsq_synced", DELIVERED, ONCE, FINAL),
        {ONCE: _NOBODY_CONSUMED, FINAL: _NOBODY_CONSUMED},
    ),
    Trial(
        "nsq",
        "in-flight",
        "nsqd is killed when messages are on the way to a consumer: its disk no longer has them.",
        {"--mem-queue-size": "0", "--sync-every": "1"},
        "a publisher, and a consumer that does not read what nsqd has sent to it; then another one drains",
        "SIGKILL of nsqd, restart",
        _topic("nsq_wire", DELIVERED, BOUNDED),
    ),
    Trial(
        "nsq",
        "timeout",
        "A consumer takes longer than --msg-timeout, and its messages are delivered again.",
        {"--msg-timeout": "1s"},
        "a publisher, a consumer that keeps messages too long, and one that finishes them",
        "",
        _topic("nsq_timeout", DELIVERED, ONCE, FINAL),
    ),
    Trial(
        "nsq",
        "ready",
        "A consumer changes how many messages it allows in flight (RDY), and gets no more.",
        {"RDY": "1, 5, 2, 10"},
        "a publisher, and a consumer that waits until nsqd has sent all that it allows",
        "",
        _topic("nsq_overflow", DELIVERED, ONCE, BOUNDED),
    ),
)
