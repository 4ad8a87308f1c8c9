"""The requests of Kafka's clients that a run may decide about, what becomes of them, and markers."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError

from veristream.brokers.proxy.header import Header
from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.script import Match, Rule
from veristream.brokers.proxy.steering import Seen, Steering, WaitedTooLong
from veristream.replay.course import Answer, Held
from veristream.replay.wire import Kind, Taken, Wire

KINDS: Final[Mapping[str, Kind]] = {
    "Produce": Kind(Key.PRODUCE),
    "InitProducerId": Kind(Key.INIT_PRODUCER_ID),
    "AddPartitionsToTxn": Kind(Key.ADD_PARTITIONS_TO_TXN),
    "EndTxn": Kind(Key.END_TXN),
}
"""The requests that tables name, as Kafka's protocol does."""

MARKERS_MAX: Final = 8
"""How many markers to each partition are held; a coordinator sends one again that is not answered."""

POLL_S: Final = 0.02
_WILL_PASS: Final = frozenset(
    (
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.CONCURRENT_TRANSACTIONS,
    )
)
"""Errors after which a client asks for its producer id again by itself."""

TAKEN_S: Final = 0.3
"""How long a broker may take to read what has reached it; nobody can see when it has."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is held: so many requests of each kind from each client; which answers wait at the proxy, too.

    `later` are the requests whose answers come in later steps, and `unheard` those whose answers no client
    gets to hear, by their titles. With `spare`, so many more requests of each kind are held.
    """

    counts: Mapping[tuple[str, str], int]
    later: Collection[str] = ()
    unheard: Collection[str] = ()
    spare: int = 0


class KafkaWire(Wire):
    """Holds requests, each of which has an answer; the `client.id` is the name of the process.

    Markers wait if `hold_markers` says so, and answers as `Asked` has them.
    """

    def __init__(self, steering: Steering, asked: Asked) -> None:
        counts = {each: times + asked.spare for each, times in asked.counts.items()}
        super().__init__(steering, KINDS, counts)
        self._asked = asked
        self._answers: defaultdict[str, list[str]] = defaultdict(list)
        self._awaited: list[str] = []
        self._markers: Counter[int] = Counter()
        self._marked: list[str] = []

    def deliver(self, held: Held, seconds: float) -> Answer | None:
        """Lets a request go on and waits for its answer; None if none comes.

        An answer that comes in a later step, or that nobody gets to hear, waits at the proxy.
        """
        one = self.taken[held.number]
        if one.title in self._asked.later:
            answer = self._hold_answer(one)
            self._answers[one.client].append(answer)
            self._awaited.append(answer)
            if self.wait_gone(held, seconds) is not None:  # its broker may be gone
                time.sleep(TAKEN_S)  # so that it is there before what comes next
            return Answer(None)
        if one.title in self._asked.unheard:
            answer = self._hold_answer(one)
            self.release(held)
            return self._wait_unheard(answer, one.seen, seconds)
        seen, mark = self.release(held)
        return self._wait_answer(seen, seconds, mark)

    def wait_later(self, seconds: float) -> Answer | None:
        """Waits until one more answer that comes later is at the proxy; None if none comes."""
        deadline_s = time.monotonic() + seconds
        while True:
            found = next((each for each in self._awaited if self.steering.acted(each)), None)
            if found is not None:
                self._awaited.remove(found)
                seen = self.steering.wait_held(found)
                return _answer(seen, seen)
            if time.monotonic() > deadline_s:
                return None
            time.sleep(POLL_S)

    def let_hear(self, client: str) -> None:
        """Lets the client have the first of the answers that come later to it, if any does."""
        if self._answers[client]:
            self.steering.release(self._answers[client].pop(0))

    def forget_answers(self, node: str) -> None:
        """Awaits no answers from a broker which is gone."""
        gone = {_answer_to(one.title) for one in self.taken if one.seen.node == node}
        self._awaited = [each for each in self._awaited if each not in gone]
        for client, answers in self._answers.items():
            self._answers[client] = [each for each in answers if each not in gone]

    def epoch(self, client: str, seconds: float = 0.0) -> int | None:
        """Returns the newest epoch that the client was given, by what passed.

        Waits for so long while the client asks again for another one, after an error that passes.
        """
        deadline_s = time.monotonic() + seconds
        while True:
            headers = (each.header for each in self.steering.passed if each.direction == "to client")
            mine = [each for each in headers if each is not None and _is_about_epoch(each, client)]
            if not mine or _WILL_PASS.isdisjoint(mine[-1].errors or ()) or time.monotonic() > deadline_s:
                given = (each.given for each in reversed(mine) if not any(each.errors or ()))
                return next((each[1] for each in given if each is not None), None)
            time.sleep(POLL_S)

    def lose(self, node: str) -> list[int]:
        """Forgets the requests that wait in front of a broker which is gone; clients will ask again."""
        lost = [
            number
            for number, one in enumerate(self.taken)
            if one.seen.node == node and one.kind != "Produce" and not one.is_released
        ]
        for number in lost:
            self.hold(self.taken[number].client, self.taken[number].kind)
        return lost

    def find_again(self, lost: list[int], seconds: float) -> str:
        """Waits until clients have asked again for what was lost; returns what nobody asked for."""
        for number in lost:
            one = self.taken[number]
            found = self.find_next(one.client, one.kind, seconds)
            if found is None:
                return f"{one.client} did not ask again: {one.title}"
            one.rule, one.seen = found
        return ""

    def hold_markers(self, topic: str, partitions: int) -> None:
        """Holds the markers on their way from the coordinator to the partitions from now on."""
        for partition in range(partitions):
            for number in range(1, MARKERS_MAX + 1):
                match = Match(key=Key.WRITE_TXN_MARKERS, topic=topic, partition=partition)
                self.steering.perform(Rule(_marker(partition, number), "hold", match, number))

    def forget_markers(self, partitions: int) -> None:
        """Takes none of the markers that are held now: another coordinator sends its own."""
        for partition in range(partitions):
            while self.steering.acted(_marker(partition, self._markers[partition] + 1)):
                self._markers[partition] += 1

    def deliver_marker(self, partition: int, seconds: float) -> bool:
        """Lets the next marker to a partition go on, and keeps the answer; returns whether one has come."""
        self._markers[partition] += 1
        name = _marker(partition, self._markers[partition])
        try:
            seen = self.steering.wait_held(name, seconds)
        except WaitedTooLong:
            self._markers[partition] -= 1
            return False
        self._marked.append(_answer_to(name))
        match = Match("to client", seen.node, seen.connection, key=Key.WRITE_TXN_MARKERS)
        self.steering.perform(Rule(self._marked[-1], "hold", match))
        self.steering.release(name)
        return True

    def let_complete(self) -> None:
        """Lets the coordinator know which markers are written."""
        for name in self._marked:
            self.steering.release(name)
        self._marked.clear()

    def _hold_answer(self, one: Taken) -> str:
        name = _answer_to(one.title)
        assert one.seen.header is not None, "a request has a header"
        match = Match("to client", one.seen.node, one.seen.connection, key=one.seen.header.request.key)
        self.steering.perform(Rule(name, "hold", match))
        return name

    def _wait_unheard(self, name: str, asked: Seen, seconds: float) -> Answer | None:
        try:
            return _answer(self.steering.wait_held(name, seconds), asked)
        except WaitedTooLong:
            return None

    def _wait_answer(self, seen: Seen, seconds: float, mark: int) -> Answer | None:
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


def _is_about_epoch(answer: Header, client: str) -> bool:
    """Whether an answer gives the client an epoch, or refuses one."""
    is_asked_for = answer.request.key == Key.INIT_PRODUCER_ID
    return answer.request.client == client and (is_asked_for or answer.given is not None)


def _answer_to(title: str) -> str:
    return f"the answer to {title}"


def _marker(partition: int, number: int) -> str:
    return f"marker {number} to partition {partition}"


def _answer(passed: Seen, asked: Seen) -> Answer:
    seconds = (passed.at_ns - asked.at_ns) / 1e9
    errors = passed.header.errors if passed.header is not None else None
    if errors is None:
        return Answer(None, seconds)
    wrong = next((code for code in errors if code), 0)
    return Answer(KafkaError(wrong).name() if wrong else "", seconds)
