"""What intruders try, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Attack(StrEnum):
    """What an intruder tries; the paper's faking comes first, then its leaking."""

    PRODUCE_WITHOUT_TICKET = "produce-without-ticket"
    PRODUCE_AS_PRODUCER = "produce-as-producer"
    PRODUCE_WITH_FORGED_TICKET = "produce-with-forged-ticket"
    REPLAY_PRODUCER = "replay-producer"
    CHANGE_PRODUCER = "change-producer"
    PRODUCE_AS_ITSELF = "produce-as-itself"
    CONSUME_WITHOUT_TICKET = "consume-without-ticket"
    CONSUME_AS_CONSUMER = "consume-as-consumer"
    CONSUME_AS_ITSELF = "consume-as-itself"
    OVERHEAR_PRODUCER = "overhear-producer"
    OVERHEAR_CONSUMER = "overhear-consumer"

    @property
    def forges(self) -> bool:
        """Whether its goal is that the broker stores what the producer did not send."""
        return self.startswith(("produce", "replay", "change"))


ABOUT: Mapping[Attack, str] = {
    Attack.PRODUCE_WITHOUT_TICKET: "It sends a message as if nobody demanded tickets.",
    Attack.PRODUCE_AS_PRODUCER: "It claims to be the producer, whose key it does not have.",
    Attack.PRODUCE_WITH_FORGED_TICKET: "It makes a ticket in the producer's name, under a key of its own.",
    Attack.REPLAY_PRODUCER: "It sends what the producer has sent, ticket included, with another message.",
    Attack.CHANGE_PRODUCER: "It lets the producer authenticate, and then changes its message on the way.",
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
