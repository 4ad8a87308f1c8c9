"""The messages between clients and brokers: those that the run decides about wait at the proxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError

from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.script import Match, Rule
from veristream.brokers.proxy.steering import Seen, Steering, WaitedTooLong
from veristream.replay.course import Answer, Held

KINDS: Final[Mapping[str, Key]] = {
    "Produce": Key.PRODUCE,
    "InitProducerId": Key.INIT_PRODUCER_ID,
    "AddPartitionsToTxn": Key.ADD_PARTITIONS_TO_TXN,
    "EndTxn": Key.END_TXN,
}
"""The requests that tables name, as Kafka's protocol does."""

TOLD_MAX: Final = 8
"""How many messages an explanation lists."""


class Wire:
    """Holds so many requests of each kind from each client; the name of a client is that of its process.

    What a client sends beyond that passes: the model does not have it.
    """

    def __init__(self, steering: Steering, counts: Mapping[tuple[str, str], int]) -> None:
        self._steering = steering
        self._taken: Counter[tuple[str, str]] = Counter()
        self._held: dict[int, tuple[str, Seen]] = {}
        for (client, kind), times in counts.items():
            for nth in range(1, times + 1):
                match = Match(key=KINDS[kind], client=client)
                steering.perform(Rule(_name(client, kind, nth), "hold", match, nth))

    def take(self, client: str, kind: str, seconds: float) -> Held | None:
        """Waits until the next request of a kind from a client is held; None if none comes."""
        nth = self._taken[client, kind] + 1
        name = _name(client, kind, nth)
        try:
            seen = self._steering.wait_held(name, seconds)
        except WaitedTooLong:
            return None
        self._taken[client, kind] = nth
        number = len(self._held)
        self._held[number] = name, seen
        return Held(number, kind, name)

    def deliver(self, held: Held, seconds: float) -> Answer | None:
        """Lets a request go on and waits for its answer; None if none comes."""
        name, seen = self._held[held.number]
        mark = self._steering.mark()
        self._steering.release(name)
        assert seen.header is not None, "a request has a header"
        asked = seen.header.request
        match = Match("to client", seen.node, seen.connection, key=asked.key)
        try:
            nth = 1
            while True:
                passed = self._steering.wait_passed(match, seconds, nth, mark)
                assert passed.header is not None, "an answer has the header of its request"
                if passed.header.request.correlation == asked.correlation:
                    return _answer(passed, seen)
                nth += 1
        except WaitedTooLong:
            return None

    def explain(self) -> str:
        """Says what passed last and what waits."""
        waiting = ", ".join(self._steering.held()) or "nothing"
        passed = [
            each.tell() for each in self._steering.passed if each.header is not None and _is_steered(each)
        ]
        told = "; ".join(passed[-TOLD_MAX:]) or "nothing"
        return f"{waiting} waits at the proxy; the last that passed: {told}"

    def release_all(self) -> None:
        """Lets everything pass from now on."""
        self._steering.end()


def _name(client: str, kind: str, nth: int) -> str:
    return f"{kind} {nth} of {client}"


def _is_steered(seen: Seen) -> bool:
    return seen.header is not None and seen.header.request.key in KINDS.values()


def _answer(passed: Seen, asked: Seen) -> Answer:
    seconds = (passed.at_ns - asked.at_ns) / 1e9
    errors = passed.header.errors if passed.header is not None else None
    if errors is None:
        return Answer(None, seconds)
    wrong = next((code for code in errors if code), 0)
    return Answer(KafkaError(wrong).name() if wrong else "", seconds)
