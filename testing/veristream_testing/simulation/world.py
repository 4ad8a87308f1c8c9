"""Shared parts of the simulations: time, network, participants, and consistency of validators.

Events happen in order of time, and events of the same time in the order in which they were scheduled, so a
seed determines the run. Until the network heals, messages are lost, duplicated, delayed or blocked.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random

from veristream.kabis.cluster.faults import ValidatorFault
from veristream.kabis.ordering.durable import SignedOnce
from veristream.kabis.ordering.messages import Certificate, Commit, Proposal, Signed, Step, Vote
from veristream.kabis.ordering.peers import PeerMessage
from veristream_testing.simulation.scenario import HEAL_MS, Crash, Mute, Partition, Scenario

HEALED_DELAY_MS = 5

Happening = Callable[[], None]


class ViolationError(Exception):
    """A property does not hold in this run."""


class World:
    """A scenario's time and network; `now_ms` is the time of the current event."""

    def __init__(self, scenario: Scenario, random: Random) -> None:
        self.scenario = scenario
        self.random = random
        self.now_ms = 0
        self._agenda: list[tuple[int, int, Happening]] = []
        self._planned = 0
        self._said: dict[tuple[int, int, int, Step], object] = {}
        strategies = dict(scenario.byzantine)
        self.liars = frozenset(strategies)
        self.inventive = {
            index: strategy
            for index, strategy in strategies.items()
            if strategy is not ValidatorFault.TWINS
        }

    def list_hosts(self) -> dict[int, int]:
        """Maps each host that runs the real protocol to its validator; twins share one validator."""
        twins = [index for index in dict(self.scenario.byzantine) if index not in self.inventive]
        indices = [index for index in range(self.scenario.size) if index not in self.inventive] + twins
        numbers = [*dict.fromkeys(indices), *range(self.scenario.size, self.scenario.size + len(twins))]
        return dict(zip(numbers, indices, strict=True))

    # Time

    def at(self, time_ms: int, happening: Happening) -> None:
        """Schedules an event."""
        self._planned += 1
        heappush(self._agenda, (time_ms, self._planned, happening))

    def run_until(self, limit_ms: int, done: Callable[[], bool]) -> None:
        """Runs events up to a time, or until `done`."""
        while self._agenda and self._agenda[0][0] <= limit_ms and not done():
            self.now_ms, _, happening = heappop(self._agenda)
            happening()

    # The network

    def send(self, sender: int, receiver: int, message: PeerMessage, deliver: Happening) -> None:
        """Schedules the arrivals of a message between two hosts."""
        self.carry(deliver, is_cut_off=self._is_cut_off(sender, receiver, message))

    def carry(self, deliver: Happening, *, is_cut_off: bool) -> None:
        """Schedules the arrivals of a message: one, or none or two until the network heals."""
        healed = self.now_ms >= HEAL_MS
        copies = 1
        if not healed:
            if is_cut_off or self.random.random() < self.scenario.drop:
                return
            copies += self.random.random() < self.scenario.duplicate
        slowest_ms = HEALED_DELAY_MS if healed else self.scenario.delay_ms
        for _ in range(copies):
            self.at(self.now_ms + self.random.randint(1, slowest_ms), deliver)

    def send_to_liar(self, hear: Happening) -> None:
        """Schedules the arrival of a message at a liar, which receives everything."""
        self.at(self.now_ms + self.random.randint(1, HEALED_DELAY_MS), hear)

    def _is_cut_off(self, sender: int, receiver: int, message: PeerMessage) -> bool:
        for fault in self.scenario.faults:
            if isinstance(fault, Crash) or not fault.begin_ms <= self.now_ms < fault.end_ms:
                continue
            if isinstance(fault, Partition) and _group(fault, sender) != _group(fault, receiver):
                return True
            if isinstance(fault, Mute) and fault.sender == sender and fault.step is _step_of(message):
                return fault.receiver in (None, receiver)
        return False

    # Positions, by which messages name validators

    def position_of(self, index: int, height: int) -> int | None:
        """Returns the position of a validator among those of a height; None if it is not one of them."""
        return index

    def validator_at(self, position: int, height: int) -> int:
        """Returns the validator at a position among those of a height."""
        return position

    # Consistency

    def check_consistent(self, number: int, index: int, message: PeerMessage) -> None:
        """Checks that a correct validator never signs two statements for one step, even after restarts."""
        if not isinstance(message, Proposal | Vote) or index in self.liars:
            return
        if message.sender != self.position_of(index, message.height):
            return
        place = (index, message.height, message.round, SignedOnce(message).step)
        said = statement_of(message)
        if self._said.setdefault(place, said) != said:
            where = f"{place[3].name} {place[1:3]}"
            raise ViolationError(f"consistency: host {number} contradicts itself in {where}")


def statement_of(message: Signed) -> object:
    """Returns the content of a message without its signer."""
    return message.statement if isinstance(message, Proposal) else message.identifier


def _group(partition: Partition, host: int) -> int:
    """Returns the side of a host; those that come later are on the side of an earlier one."""
    return partition.groups[host % len(partition.groups)]


def _step_of(message: PeerMessage) -> Step | None:
    match message:
        case Proposal():
            return Step.PROPOSE
        case Vote() | Certificate():
            return message.step
        case Commit():
            return Step.PRECOMMIT
        case _:
            return None
