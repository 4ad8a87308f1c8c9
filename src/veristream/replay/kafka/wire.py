"""The messages between clients and brokers: those that the run decides about wait at the proxy."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
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

MARKERS_MAX: Final = 8
"""How many markers to each partition are held; a coordinator sends one again that is not answered."""

POLL_S: Final = 0.02
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


@dataclass(slots=True)
class _Waiting:
    """A request that was taken: its title in the run, and the rule that holds it."""

    client: str
    kind: str
    title: str
    rule: str
    seen: Seen
    is_delivered: bool = False


class Wire:
    """Holds so many requests of each kind from each client; the name of a client is that of its process.

    What a client sends beyond that passes: the model does not have it.
    """

    def __init__(self, steering: Steering, asked: Asked) -> None:
        self._steering = steering
        self._asked = asked
        self._rules: Counter[tuple[str, str]] = Counter()
        self._taken: Counter[tuple[str, str]] = Counter()
        self._titles: Counter[tuple[str, str]] = Counter()
        self._held: list[_Waiting] = []
        self._answers: defaultdict[str, list[str]] = defaultdict(list)
        self._awaited: list[str] = []
        self._markers: Counter[int] = Counter()
        self._marked: list[str] = []
        for (client, kind), times in asked.counts.items():
            for _ in range(times + asked.spare):
                self._hold(client, kind)

    def take(self, client: str, kind: str, seconds: float) -> Held | None:
        """Waits until the next request of a kind from a client is held; None if none comes."""
        found = self._next(client, kind, seconds)
        if found is None:
            return None
        self._titles[client, kind] += 1
        title = name_of(kind, self._titles[client, kind], client)
        self._held.append(_Waiting(client, kind, title, *found))
        return Held(len(self._held) - 1, kind, title)

    def deliver(self, held: Held, seconds: float) -> Answer | None:
        """Lets a request go on and waits for its answer; None if none comes.

        An answer that comes in a later step, or that nobody gets to hear, waits at the proxy.
        """
        one = self._held[held.number]
        one.is_delivered = True
        mark = self._steering.mark()
        if one.title in self._asked.later:
            answer = self._hold_answer(one)
            self._answers[one.client].append(answer)
            self._awaited.append(answer)
            self._steering.release(one.rule)
            self._wait_gone(one.seen, seconds, mark)
            return Answer(None)
        if one.title in self._asked.unheard:
            answer = self._hold_answer(one)
            self._steering.release(one.rule)
            return self._wait_unheard(answer, one.seen, seconds)
        self._steering.release(one.rule)
        return self._wait_answer(one.seen, seconds, mark)

    def wait_later(self, seconds: float) -> Answer | None:
        """Waits until one more answer that comes later is at the proxy; None if none comes."""
        deadline_s = time.monotonic() + seconds
        while True:
            found = next((each for each in self._awaited if self._steering.acted(each)), None)
            if found is not None:
                self._awaited.remove(found)
                seen = self._steering.wait_held(found)
                return _answer(seen, seen)
            if time.monotonic() > deadline_s:
                return None
            time.sleep(POLL_S)

    def let_hear(self, client: str) -> None:
        """Lets the client have the first of the answers that come later to it, if any does."""
        if self._answers[client]:
            self._steering.release(self._answers[client].pop(0))

    def forget_answers(self, node: str) -> None:
        """Awaits no answers from a broker which is gone."""
        gone = {_answer_to(one.title) for one in self._held if one.seen.node == node}
        self._awaited = [each for each in self._awaited if each not in gone]
        for client, answers in self._answers.items():
            self._answers[client] = [each for each in answers if each not in gone]

    def epoch(self, client: str) -> int | None:
        """Returns the newest epoch that the client was given, by what passed."""
        for each in reversed(self._steering.passed):
            header = each.header
            if header is not None and header.given is not None and header.request.client == client:
                return header.given[1]
        return None

    def lose(self, node: str) -> list[int]:
        """Forgets the requests that wait in front of a broker which is gone; clients will ask again."""
        lost = [
            number
            for number, one in enumerate(self._held)
            if one.seen.node == node and one.kind != "Produce" and not one.is_delivered
        ]
        for number in lost:
            self._hold(self._held[number].client, self._held[number].kind)
        return lost

    def find_again(self, lost: list[int], seconds: float) -> str:
        """Waits until clients have asked again for what was lost; returns what nobody asked for."""
        for number in lost:
            one = self._held[number]
            found = self._next(one.client, one.kind, seconds)
            if found is None:
                return f"{one.client} did not ask again: {one.title}"
            one.rule, one.seen = found
        return ""

    def hold_markers(self, topic: str, partitions: int) -> None:
        """Holds the markers on their way from the coordinator to the partitions from now on."""
        for partition in range(partitions):
            for number in range(1, MARKERS_MAX + 1):
                match = Match(key=Key.WRITE_TXN_MARKERS, topic=topic, partition=partition)
                self._steering.perform(Rule(_marker(partition, number), "hold", match, number))

    def forget_markers(self, partitions: int) -> None:
        """Takes none of the markers that are held now: another coordinator sends its own."""
        for partition in range(partitions):
            while self._steering.acted(_marker(partition, self._markers[partition] + 1)):
                self._markers[partition] += 1

    def deliver_marker(self, partition: int, seconds: float) -> bool:
        """Lets the next marker to a partition go on, and keeps the answer; returns whether one has come."""
        self._markers[partition] += 1
        name = _marker(partition, self._markers[partition])
        try:
            seen = self._steering.wait_held(name, seconds)
        except WaitedTooLong:
            self._markers[partition] -= 1
            return False
        self._marked.append(_answer_to(name))
        match = Match("to client", seen.node, seen.connection, key=Key.WRITE_TXN_MARKERS)
        self._steering.perform(Rule(self._marked[-1], "hold", match))
        self._steering.release(name)
        return True

    def let_complete(self) -> None:
        """Lets the coordinator know which markers are written."""
        for name in self._marked:
            self._steering.release(name)
        self._marked.clear()

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

    def _hold(self, client: str, kind: str) -> None:
        """Holds one request more than before; rules act in the order in which they were made."""
        self._rules[client, kind] += 1
        name = name_of(kind, self._rules[client, kind], client)
        self._steering.perform(Rule(name, "hold", Match(key=KINDS[kind], client=client)))

    def _next(self, client: str, kind: str, seconds: float) -> tuple[str, Seen] | None:
        name = name_of(kind, self._taken[client, kind] + 1, client)
        try:
            seen = self._steering.wait_held(name, seconds)
        except WaitedTooLong:
            return None
        self._taken[client, kind] += 1
        return name, seen

    def _hold_answer(self, one: _Waiting) -> str:
        name = _answer_to(one.title)
        assert one.seen.header is not None, "a request has a header"
        match = Match("to client", one.seen.node, one.seen.connection, key=one.seen.header.request.key)
        self._steering.perform(Rule(name, "hold", match))
        return name

    def _wait_gone(self, seen: Seen, seconds: float, mark: int) -> None:
        """Waits until a request has reached its broker, so that it is there before what comes next."""
        match = Match("to broker", seen.node, seen.connection, seen.number)
        with suppress(WaitedTooLong):  # its broker may be gone
            self._steering.wait_passed(match, seconds, since=mark)
            time.sleep(TAKEN_S)

    def _wait_unheard(self, name: str, asked: Seen, seconds: float) -> Answer | None:
        try:
            return _answer(self._steering.wait_held(name, seconds), asked)
        except WaitedTooLong:
            return None

    def _wait_answer(self, seen: Seen, seconds: float, mark: int) -> Answer | None:
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


def name_of(kind: str, nth: int, client: str) -> str:
    """Returns how reports name a request of a client."""
    return f"{kind} {nth} of {client}"


def _answer_to(title: str) -> str:
    return f"the answer to {title}"


def _marker(partition: int, number: int) -> str:
    return f"marker {number} to partition {partition}"


def _is_steered(seen: Seen) -> bool:
    return seen.header is not None and seen.header.request.key in KINDS.values()


def _answer(passed: Seen, asked: Seen) -> Answer:
    seconds = (passed.at_ns - asked.at_ns) / 1e9
    errors = passed.header.errors if passed.header is not None else None
    if errors is None:
        return Answer(None, seconds)
    wrong = next((code for code in errors if code), 0)
    return Answer(KafkaError(wrong).name() if wrong else "", seconds)
