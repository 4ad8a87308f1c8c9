"""What intruders try, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Attack(StrEnum):
    """What an intruder tries; the paper's faking comes first, then its leaking."""

    PRODUCE_WITHOUT_TICKET = "produce-without-ticket"
    PRODUCE_AS_PRODUCER = "produce-as-producer"
    PRODUCE_AS_ITSELF = "produce-as-itself"
    CONSUME_WITHOUT_TICKET = "consume-without-ticket"
    CONSUME_AS_CONSUMER = "consume-as-consumer"
    CONSUME_AS_ITSELF = "consume-as-itself"
    OVERHEAR_PRODUCER = "overhear-producer"
    OVERHEAR_CONSUMER = "overhear-consumer"


ABOUT: Mapping[Attack, str] = {
    Attack.PRODUCE_WITHOUT_TICKET: "It sends a message as if nobody demanded tickets.",
    Attack.PRODUCE_AS_PRODUCER: "It claims to be the producer, whose key it does not have.",
    Attack.PRODUCE_AS_ITSELF: "A registered user, it sends a message with a ticket of its own.",
    Attack.CONSUME_WITHOUT_TICKET: "It reads the topic as if nobody demanded tickets.",
    Attack.CONSUME_AS_CONSUMER: "It claims to be the consumer, whose key it does not have.",
    Attack.CONSUME_AS_ITSELF: "A registered user, it reads the topic with a ticket of its own.",
    Attack.OVERHEAR_PRODUCER: "It reads what passes between the producer and the broker.",
    Attack.OVERHEAR_CONSUMER: "It reads what passes between the consumer and the broker.",
}


class Outcome(StrEnum):
    """What came of an attack."""

    SUCCEEDED = "succeeded"
    PREVENTED = "prevented"


@dataclass(frozen=True, slots=True)
class Observation:
    """What a run showed: the outcome, the evidence in words, and the numbers behind them."""

    outcome: Outcome
    reason: str
    counts: Mapping[str, int] = field(default_factory=dict)
