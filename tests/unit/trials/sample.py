"""Two trials that were run: they agree, differ with and without an explanation, and leave one undecided."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.history.report.sample import AUDIT, LOST, judge
from veristream.history.properties import Property
from veristream.history.verdicts import Word
from veristream.trials.comparison import Tried, compare
from veristream.trials.run import find_models
from veristream.trials.trial import Difference, Pair, Trial

KNOWN = find_models()

LOG = (
    Pair(Property.DELIVERED, "kafka_acks_1", "acknowledged_is_stored"),
    Pair(Property.ONCE, "kafka_acks_1", "stored_once"),
    Pair(Property.ORDER, "kafka_acks_1", "stored_in_order"),
)
ACKS_1 = Trial(
    "kafka",
    "acks-1",
    "The leader is killed; it has acknowledged records that only it has.",
    {"acks": "1", "min.insync.replicas": "2"},
    "one producer",
    "SIGKILL of the leader",
    LOG,
    {Property.ONCE: Difference(Word.HELD, "no answer was lost, so that nothing was sent again")},
)
ACKS_ALL = Trial(
    "kafka",
    "acks-all",
    "The same, but two replicas must have a record.",
    {"acks": "all"},
    "one producer",
    "",
    (Pair(Property.DELIVERED, "kafka_acks_all", "acknowledged_is_stored"),),
)
IN_FLIGHT = Trial(
    "nsq",
    "in-flight",
    "nsqd is killed when messages are on the way.",
    {"--sync-every": "1"},
    "one consumer",
    "SIGKILL of nsqd",
    (Pair(Property.DELIVERED, "nsq_wire", "acknowledged_is_delivered"),),
)

LOSES = judge(Property.DELIVERED, Word.VIOLATED, "3 acknowledged messages were lost", 40, LOST)
ONCE = judge(Property.ONCE, Word.HELD, "20 received messages came once each", 60)
NO_ORDER = judge(
    Property.ORDER, Word.NOT_OBSERVABLE, "no two messages of a partition were sent by one producer", 0
)


def tried_acks_1() -> Tried:
    """A loss as the model has it, an explained difference, and something undecided."""
    return compare(ACKS_1, replace(AUDIT, judgements=(LOSES, ONCE, NO_ORDER)), KNOWN)


def tried_acks_all() -> Tried:
    """A loss that the model excludes."""
    return compare(ACKS_ALL, replace(AUDIT, judgements=(LOSES,)), KNOWN)


def tried_in_flight() -> Tried:
    """A loss of another broker."""
    return compare(IN_FLIGHT, replace(AUDIT, judgements=(LOSES, ONCE)), KNOWN)


def all_tried() -> list[Tried]:
    return [tried_acks_1(), tried_acks_all(), tried_in_flight()]
