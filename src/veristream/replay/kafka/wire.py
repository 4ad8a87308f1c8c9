"""The requests of Kafka's clients that a run may decide about, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError

from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.script import Match
from veristream.brokers.proxy.steering import Seen, Steering
from veristream.replay.course import Answer, Held
from veristream.replay.wire import Kind, Wire

KINDS: Final[Mapping[str, Kind]] = {
    "Produce": Kind(Key.PRODUCE),
    "InitProducerId": Kind(Key.INIT_PRODUCER_ID),
    "AddPartitionsToTxn": Kind(Key.ADD_PARTITIONS_TO_TXN),
    "EndTxn": Kind(Key.END_TXN),
}
"""The requests that tables name, as Kafka's protocol does."""


class KafkaWire(Wire):
    """Holds requests, each of which has an answer; the `client.id` is the name of the process."""

    def __init__(self, steering: Steering, counts: Mapping[tuple[str, str], int]) -> None:
        super().__init__(steering, KINDS, counts)

    def deliver(self, held: Held, seconds: float) -> Answer | None:
        """Lets a request go on and waits for its answer; None if none comes."""
        seen, mark = self.release(held)
        assert seen.header is not None, "a request has a header"
        asked = seen.header.request
        match = Match("to client", seen.node, seen.connection, key=asked.key)
        nth = 1
        while (passed := self.wait_passed(match, seconds, mark, nth)) is not None:
            assert passed.header is not None, "an answer has the header of its request"
            if passed.header.request.correlation == asked.correlation:
                return _answer(passed, seen)
            nth += 1
        return None


def _answer(passed: Seen, asked: Seen) -> Answer:
    seconds = (passed.at_ns - asked.at_ns) / 1e9
    errors = passed.header.errors if passed.header is not None else None
    if errors is None:
        return Answer(None, seconds)
    wrong = next((code for code in errors if code), 0)
    return Answer(KafkaError(wrong).name() if wrong else "", seconds)
