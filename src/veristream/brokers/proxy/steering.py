"""Steers what passes proxies by a script, notes all that passed, and tells a recording what it did.

    with Recording(folder, "kafka") as recording, ProxyNetwork(targets, KafkaFrames) as network:
        network.decide = steering = Steering(recording)
        steering.perform(Rule("late write", "hold", Match(key=Key.PRODUCE, client="producer-0")))
        producer.produce("orders", b"x")
        steering.wait_held("late write")
        producer.abort_transaction()
        steering.wait_passed(Match("to client", key=Key.END_TXN, error=0))
        steering.release("late write")
        steering.wait_passed(Match("to client", key=Key.PRODUCE, client="producer-0"))
        steering.end()

All methods may be called from any thread. What waits too long raises `WaitedTooLong`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, Protocol, assert_never

from veristream.brokers.proxy.header import Header, read_answer, read_request
from veristream.brokers.proxy.pieces import PASS, Cut, Decision, Direction, Drop, Gate, Hold, Pass, Piece
from veristream.brokers.proxy.script import (
    PATIENCE_S,
    AwaitHeld,
    AwaitPassed,
    Match,
    Release,
    Rule,
    Script,
    Step,
    check_rule,
    fits,
    show_key,
)
from veristream.brokers.proxy.topics import read_topics
from veristream.errors import EnvironmentFailure, ModelError, suggest

UNANSWERED_MAX: Final = 10_000
"""Of so many requests it is remembered what they said; some are never answered (acks=0)."""

Did = Literal["passed", "held", "released", "dropped", "cut", "delayed"]
LISTED_MAX: Final = 12
"""How many messages an error lists."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A message, what was done to it, by which rule, and when on the system's monotonic clock.

    `passed` is noted when the last byte was handed to the system, also of what was held or delayed before.
    """

    did: Did
    at_ns: int
    node: str
    connection: int
    direction: Direction
    number: int
    size: int
    header: Header | None = None
    rule: str = ""

    def details(self) -> dict[str, str]:
        """Returns what is known of it, as words."""
        told = {
            "direction": self.direction,
            "connection": str(self.connection),
            "message": str(self.number),
        }
        if self.header is None:
            return told
        request = self.header.request
        told |= {"request": f"{show_key(request.key)} {request.version}", "client": request.client}
        for each in self.header.transactions[:1]:
            known = {
                "transactional id": each.transactional_id,
                "producer id": each.producer_id,
                "epoch": each.epoch,
                "committed": each.committed,
                "partitions": ", ".join(f"{topic}/{number}" for topic, number in each.partitions) or None,
            }
            told |= {name: str(value) for name, value in known.items() if value is not None}
        if self.header.errors is not None:
            told["errors"] = ", ".join(map(str, self.header.errors))
        if self.header.given is not None:
            told["given"] = "producer id {}, epoch {}".format(*self.header.given)
        return told

    def tell(self) -> str:
        """Says it in words."""
        rest = ", ".join(f"{name} {value}" for name, value in self.details().items() if name != "direction")
        return f"{self.did} {self.direction} at {self.node}: {rest}"


class WaitedTooLong(EnvironmentFailure):
    """What was waited for did not come; `meanwhile` are the messages that came instead."""

    def __init__(self, awaited: str, seconds: float, meanwhile: Sequence[Seen]) -> None:
        lines = [each.tell() for each in meanwhile[-LISTED_MAX:]]
        more = len(meanwhile) - len(lines)
        told = "; ".join([f"{more} earlier ones", *lines] if more else lines) or "nothing"
        super().__init__(
            f"waited {seconds:g} s in vain for {awaited}; meanwhile: {told}",
            "give it more time, or compare what was awaited with what came",
        )
        self.awaited = awaited
        self.seconds = seconds
        self.meanwhile = tuple(meanwhile)


class Witness(Protocol):
    """Takes notes of what a proxy did, as `recording.Recording` does."""

    def begin_incident(self, kind: str, target: str, details: Mapping[str, str] | None = None) -> int:
        """Notes something that begins now; returns the number by which it ends."""
        ...

    def end_incident(self, number: int, details: Mapping[str, str] | None = None) -> None:
        """Notes that it is over, and what else is known of it."""
        ...


@dataclass(slots=True, eq=False)
class _Armed:
    """A rule, how many messages matched it and were acted on, and what it holds."""

    rule: Rule
    matched: int = 0
    acted: int = 0
    is_over: bool = False
    has_held: bool = False
    gates: dict[Gate, tuple[Seen, int | None]] = field(default_factory=dict)

    def count(self) -> bool:
        """Counts a message that matches; returns whether the rule would act on it."""
        self.matched += 1
        spent = self.is_over or (self.rule.times is not None and self.acted >= self.rule.times)
        return self.matched >= self.rule.nth and not spent


class Steering:
    """Decides by rules; `network.decide` takes it. Keeps a note of each message until it is forgotten."""

    def __init__(self, witness: Witness | None = None) -> None:
        self._witness = witness
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._armed: dict[str, _Armed] = {}
        self._log: list[Seen] = []
        self._passed: list[Seen] = []
        self._asked: dict[tuple[int, int], Header] = {}
        self._topics: dict[str, str] = {}
        self._ended = False

    @property
    def log(self) -> tuple[Seen, ...]:
        """All that was done, in its order."""
        with self._lock:
            return tuple(self._log)

    @property
    def passed(self) -> tuple[Seen, ...]:
        """The messages that passed, in their order."""
        with self._lock:
            return tuple(self._passed)

    def mark(self) -> int:
        """Returns how many messages have passed, for `since` of `wait_passed`."""
        with self._lock:
            return len(self._passed)

    def run(self, script: Script) -> None:
        """Performs all steps of a script in their order; its rules are still in force afterwards."""
        for step in script.steps:
            self.perform(step)

    def perform(self, step: Step) -> None:
        """Performs a step, which may wait."""
        match step:
            case Rule():
                self._arm(step)
            case Release(name):
                self.release(name)
            case AwaitHeld(name, seconds):
                self.wait_held(name, seconds)
            case AwaitPassed(match, seconds, nth):
                self.wait_passed(match, seconds, nth)
            case _:
                assert_never(step)

    def held(self) -> tuple[str, ...]:
        """Returns the names of the rules that hold something now."""
        with self._lock:
            return tuple(name for name, each in self._armed.items() if each.gates)

    def acted(self, name: str) -> int:
        """Returns how many messages a rule has acted on."""
        with self._lock:
            return self._find(name).acted

    def wait_held(self, name: str, seconds: float = PATIENCE_S) -> Seen:
        """Waits until a rule holds a message or has held one; returns the first."""
        with self._lock:
            armed, begin = self._find(name), len(self._log)

            def first() -> Seen | None:
                if not armed.has_held:
                    return None
                return next(each for each in self._log if each.did == "held" and each.rule == name)

            awaited = f"a message that `{name}` holds ({armed.rule.match.tell()})"
            return self._wait(first, seconds, awaited, begin)

    def wait_passed(self, match: Match, seconds: float = PATIENCE_S, nth: int = 1, since: int = 0) -> Seen:
        """Waits until so many messages that match have passed since a `mark`; returns the last of them."""
        with self._lock:
            begin, looked_at, found = len(self._log), since, list[Seen]()

            def find() -> Seen | None:
                nonlocal looked_at
                found.extend(each for each in self._passed[looked_at:] if _fits(match, each))
                looked_at = len(self._passed)
                return found[nth - 1] if len(found) >= nth else None

            times = "" if nth == 1 else f"{nth} times "
            return self._wait(find, seconds, f"{times}{match.tell()}", begin)

    def release(self, name: str) -> None:
        """Lets go what a rule holds, and ends the rule; raises ModelError if there is none."""
        with self._lock:
            self._let_go(self._find(name), "when told")

    def end(self) -> None:
        """Ends all rules and lets go what they hold; notes of messages remain."""
        with self._lock:
            self._ended = True
            for each in self._armed.values():
                self._let_go(each, "at the end")

    def forget(self) -> None:
        """Ends all rules, and forgets them and all notes, so that the next script begins anew."""
        with self._lock:
            self.end()
            self._armed.clear()
            self._log.clear()
            self._passed.clear()
            self._ended = False

    def __call__(self, piece: Piece) -> Decision:
        """Decides about a message."""
        header = self._read(piece)
        place = piece.node, piece.connection, piece.direction, piece.number
        seen = Seen("passed", time.monotonic_ns(), *place, piece.size or len(piece.data), header)
        with self._lock:
            if self._ended:
                return PASS
            acting = [
                each
                for each in self._armed.values()
                if fits(each.rule.match, place, header) and each.count()
            ]
            if not acting:
                return Pass(then=partial(self._pass, seen))
            return self._act(acting[0], seen)

    def _act(self, armed: _Armed, seen: Seen) -> Decision:
        armed.acted += 1
        rule, go_on = armed.rule, partial(self._pass, seen)
        match rule.act:
            case "hold":
                gate = Gate(lambda: self._hold(armed, gate, seen))
                armed.gates[gate] = seen, None
                return Hold(gate, go_on)
            case "drop":
                self._note("dropped", rule, seen)
                return Drop()
            case "cut":
                self._note("cut", rule, seen)
                return Cut()
            case "cut after":
                self._note("cut", rule, seen)
                return Cut(after=True, then=go_on)
            case "delay":
                number = self._note("delayed", rule, seen)
                return Pass(rule.seconds, partial(self._pass, seen, number))
            case _:
                assert_never(rule.act)

    def _read(self, piece: Piece) -> Header | None:
        request = piece.request
        if request is None:
            return None
        place = piece.connection, request.correlation
        if piece.direction == "to broker":
            header = self._asked[place] = self._name(read_request(request, piece.data))
            if len(self._asked) > UNANSWERED_MAX:
                del self._asked[next(iter(self._asked))]
            return header
        self._topics |= read_topics(request, piece.data)
        return read_answer(self._asked.pop(place, Header(request)), piece.data)

    def _name(self, header: Header) -> Header:
        """Replaces ids of topics by the names that a broker told before."""
        if not self._topics or not any(
            topic in self._topics for each in header.transactions for topic, _ in each.partitions
        ):
            return header
        named = [
            replace(
                each,
                partitions=tuple(
                    (self._topics.get(topic, topic), number) for topic, number in each.partitions
                ),
            )
            for each in header.transactions
        ]
        return replace(header, transactions=tuple(named))

    def _arm(self, rule: Rule) -> None:
        check_rule(rule, f"the rule `{rule.name}`")
        with self._lock:
            if rule.name in self._armed:
                raise ModelError(f"there is a rule `{rule.name}` before", hint="give each its own name")
            self._armed[rule.name] = _Armed(rule)

    def _find(self, name: str) -> _Armed:
        armed = self._armed.get(name)
        if armed is None:
            raise ModelError(
                f"there is no rule `{name}`", hint=suggest(name, self._armed, "perform the rule before")
            )
        return armed

    def _wait(self, find: Callable[[], Seen | None], seconds: float, awaited: str, begin: int) -> Seen:
        deadline_s = time.monotonic() + seconds
        while (found := find()) is None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise WaitedTooLong(awaited, seconds, self._log[begin:])
            self._changed.wait(left_s)
        return found

    def _hold(self, armed: _Armed, gate: Gate, seen: Seen) -> None:
        with self._lock:
            if gate in armed.gates:
                armed.gates[gate] = seen, self._note("held", armed.rule, seen)
                armed.has_held = True

    def _let_go(self, armed: _Armed, why: str) -> None:
        armed.is_over = True
        gates, armed.gates = armed.gates, {}
        for gate, (seen, number) in gates.items():
            if number is not None:
                self._log.append(_again(seen, "released", armed.rule.name))
                if self._witness is not None:
                    self._witness.end_incident(number, {"released": why})
            gate.open()
        self._changed.notify_all()

    def _pass(self, seen: Seen, incident: int | None = None) -> None:
        with self._lock:
            now = _again(seen, "passed", seen.rule)
            self._log.append(now)
            self._passed.append(now)
            if incident is not None and self._witness is not None:
                self._witness.end_incident(incident)
            for each in self._armed.values():
                until = each.rule.until
                if each.has_held and each.gates and until is not None and _fits(until, now):
                    self._let_go(each, f"when {now.tell()}")
            self._changed.notify_all()

    def _note(self, did: Did, rule: Rule, seen: Seen) -> int | None:
        now = _again(seen, did, rule.name)
        self._log.append(now)
        self._changed.notify_all()
        if self._witness is None:
            return None
        told = {"rule": rule.name, "match": rule.match.tell(), **now.details()}
        what = f" {show_key(seen.header.request.key)}" if seen.header is not None else ""
        return self._witness.begin_incident(f"{rule.act}{what}", seen.node, told)


def _again(seen: Seen, did: Did, rule: str) -> Seen:
    place = seen.node, seen.connection, seen.direction, seen.number
    return Seen(did, time.monotonic_ns(), *place, seen.size, seen.header, rule)


def _fits(match: Match, seen: Seen) -> bool:
    return fits(match, (seen.node, seen.connection, seen.direction, seen.number), seen.header)
