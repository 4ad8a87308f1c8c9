"""The stage of NSQ: clients of an nsqd, and a proxy between it and nsqlookupd."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from veristream.brokers.nsq.interface import read_depths, read_registered
from veristream.brokers.nsq.lookup_frames import Command
from veristream.brokers.proxy.network import ProxyNetwork
from veristream.brokers.proxy.pieces import let_pass
from veristream.brokers.proxy.steering import Steering
from veristream.errors import EnvironmentFailure
from veristream.history.verdicts import Word
from veristream.recording.nsq.workload import read_channel
from veristream.recording.recording import Recording
from veristream.replay.course import Answer, Held
from veristream.replay.nsq.clients import VERBS, Client, Looked, Place
from veristream.replay.order import HANDLED
from veristream.replay.outcome import Evidence, Observed
from veristream.replay.wire import Kind, Wire
from veristream.replay.words import Words

NSQD: Final = "Nsqd(0)"
"""The process whose messages to nsqlookupd are steered."""

KINDS: Final[Mapping[str, Kind]] = {
    each.name: Kind(each) for each in (Command.REGISTER, Command.UNREGISTER)
}
"""The commands of an nsqd that tables name."""

STAYS_OUT: Final = "removed stays out"
COPIED, EXPIRED = "await copied", "await expiry"
WORDS: Final = Words("NSQ", VERBS, tuple(KINDS), (COPIED, EXPIRED), (HANDLED, STAYS_OUT))
"""What tables may say of NSQ."""

POLL_S: Final = 0.02
MARGIN_S: Final = 2.0
"""How much longer than what it waits for a call takes."""

READ_S: Final = 20.0


@dataclass(slots=True)
class NsqStage:
    """What `course.execute` steers; `observe` then reads what came of it."""

    place: Place
    wire: Wire
    clients: dict[str, Client] = field(default_factory=dict)
    _copies: dict[str, int] = field(default_factory=dict)

    def call(self, process: str, verb: str, arguments: Sequence[str]) -> None:
        """Begins a call of the process's client."""
        self.clients[process].call(verb, tuple(arguments))

    def take_held(self, process: str, kind: str) -> Held | None:
        """Waits until a command of nsqd to nsqlookupd is held that was not taken before."""
        return self.wire.take(process, kind, self.place.seconds)

    def deliver(self, held: Held) -> Answer | None:
        """Lets a command go on, and waits until nsqlookupd has executed it."""
        self.wire.release(held)
        is_there = held.kind == Command.REGISTER.name
        if not self._wait(lambda: (self.place.entry() is not None) == is_there):
            return None
        return Answer("", told=f"nsqlookupd {'has' if is_there else 'no longer has'} the topic")

    def wait_returned(self, process: str) -> Answer | None:
        """Waits until the call that the process began ends."""
        return self.clients[process].wait_returned(self.place.seconds + MARGIN_S)

    def do(self, what: str, process: str, arguments: Sequence[str]) -> str:
        """Waits until nsqd has copied another message to all channels, or until the tombstone is over."""
        match what:
            case "await copied":
                return self._await_copied()
            case "await expiry":
                hides = self._wait(lambda: self.place.entry() is False)
                return "" if hides else f"the tombstone still holds after {self.place.seconds:g} s"
            case _:
                raise AssertionError(what)

    def explain(self) -> str:
        """Says what passed between nsqd and nsqlookupd, and what waits."""
        return self.wire.explain()

    def observe(self) -> tuple[Observed, tuple[Evidence, ...]]:
        """Lets all go on, reads the channels to their end; returns what nsqlookupd and nsqd say."""
        counted = self._tell_counts()
        self.wire.release_all()
        for each in self.clients.values():
            each.close()
        place = self.place
        for each in self.clients.values():
            if each.is_subscribed and not read_channel(
                place.recorder, place.node, place.topic, each.channel, READ_S
            ):
                raise EnvironmentFailure(f"{each.channel} cannot be read to its end", "run it again")
        return judge_lookups(place.looked), (*counted, *map(tell_lookup, place.looked), *self._tell_entry())

    def _await_copied(self) -> str:
        for each in self._channels():
            self._copies[each] = self._copies.get(each, 0) + 1

        def is_so() -> bool:
            found = read_depths(self.place.node.http, self.place.topic)
            return found is not None and all(
                each in found.channels and found.channels[each].received >= copies
                for each, copies in self._copies.items()
            )

        if self._wait(is_so):
            return ""
        return f"{', '.join(self._copies)} did not get a copy within {self.place.seconds:g} s"

    def _channels(self) -> list[str]:
        return [each.channel for each in self.clients.values() if each.is_subscribed]

    def _tell_counts(self) -> tuple[Evidence, ...]:
        """Says how many messages each channel got, if there are channels."""
        found = read_depths(self.place.node.http, self.place.topic)
        if found is None or not self._channels():
            return ()
        counts = {each: found.channels[each].received for each in self._channels()}
        told = ", ".join(f"{each} got {count}" for each, count in counts.items())
        misses = any(count < found.received for count in counts.values())
        return (Evidence(f"the topic got {_count(found.received)}; {told}", shows=misses),)

    def _tell_entry(self) -> tuple[Evidence, ...]:
        """Says what nsqlookupd has of the topic in the end, if nobody consumes it."""
        if self._channels():
            return ()
        entry = {None: "no entry", True: "an entry with a tombstone", False: "an entry"}[self.place.entry()]
        return (Evidence(f"in the end, nsqlookupd has {entry} of the topic"),)

    def _wait(self, is_so: Callable[[], bool]) -> bool:
        deadline_s = time.monotonic() + self.place.seconds
        while not is_so():
            if time.monotonic() > deadline_s:
                return False
            time.sleep(POLL_S)
        return True


def judge_lookups(looked: Sequence[Looked]) -> Observed:
    """Says whether a lookup after the removal of an nsqd, by a tombstone, named one."""
    after = [each for each in looked if each.after_s is not None]
    named = [each for each in after if each.found]
    if named:
        first = named[0]
        return Observed(
            STAYS_OUT,
            Word.VIOLATED,
            f"nsqlookupd named {', '.join(first.found)} {first.after_s:.1f} s after its removal",
        )
    if not after:
        return Observed(STAYS_OUT, Word.NOT_OBSERVABLE, "nobody asked after a removal")
    return Observed(STAYS_OUT, Word.HELD, f"{len(after)} lookup{'s' * (len(after) > 1)} named nobody")


def tell_lookup(looked: Looked) -> Evidence:
    """Says what a lookup was answered."""
    when = "" if looked.after_s is None else f" {looked.after_s:.1f} s after the removal"
    told = f"/lookup, asked by {looked.process}{when}, named {', '.join(looked.found) or 'nobody'}"
    return Evidence(told, shows=bool(looked.found) and looked.after_s is not None)


def _count(number: int) -> str:
    return f"{number} message{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a run needs: clients, by their processes; how many commands of nsqd it holds, if any."""

    processes: tuple[str, ...]
    held: Mapping[tuple[str, str], int]


@contextmanager
def on_stage(place: Place, network: ProxyNetwork, recording: Recording, shape: Shape) -> Iterator[NsqStage]:
    """Holds what the run decides about, as soon as nsqlookupd knows the nsqd."""
    wire = Wire(Steering(recording), KINDS, shape.held)
    stage = NsqStage(place, wire, {each: Client(each, place) for each in shape.processes})
    deadline_s = time.monotonic() + READ_S
    while read_registered(place.lookup, place.node.http) is None:
        if time.monotonic() > deadline_s:
            raise EnvironmentFailure("nsqlookupd does not know the nsqd", "see log.txt of both")
        time.sleep(POLL_S)
    network.decide = wire.steering
    try:
        yield stage
    finally:
        wire.release_all()
        network.decide = let_pass
