"""A second implementation of Tendermint, on sets of messages, to confirm the counts of the Kabis model.

Written from arXiv 1807.04938, independently of `models/kabis/tendermint.py`: a state consists of the
messages that correct validators have sent and their local states; the Byzantine validator's messages are a
set too. Decisions are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import veristream as vs
from veristream.verdict import word

MODEL = Path(__file__).resolve().parents[2] / "models" / "kabis" / "tendermint.py"
VALUES = ("a", "b")
NIL = "nil"
BYZANTINE = -1
QUORUM = 3
Vote = tuple[str, int, str]
"""Kind, round and value."""


@dataclass(frozen=True, slots=True, order=True)
class Validator:
    """The local state of a correct validator, and all messages it has sent."""

    round: int = 0
    step: str = "propose"
    locked: tuple[int, str] = (-1, NIL)
    sent: tuple[Vote, ...] = ()

    def send(self, kind: str, value: str, locks: bool = False) -> Validator:
        """Returns the validator after its vote in the round."""
        return Validator(
            self.round,
            kind,
            (self.round, value) if locks else self.locked,
            tuple(sorted((*self.sent, (kind, self.round, value)))),
        )

    def enter(self, later: int) -> Validator:
        """Returns the validator at the start of another round."""
        return Validator(later, "propose", self.locked, self.sent)


State = tuple[Validator, ...]
"""Sorted, because correct validators are interchangeable."""


@cache
def lies(rounds: int) -> frozenset[tuple[int, Vote]]:
    """Returns all messages that the Byzantine validator can have sent."""
    return frozenset(
        (BYZANTINE, (kind, number, value))
        for kind in ("prevote", "precommit")
        for number in range(rounds)
        for value in (*VALUES, NIL)
    )


class Network:
    """The messages that can have been received in a state."""

    def __init__(self, state: State, rounds: int) -> None:
        self.state = state
        self.messages = lies(rounds) | {
            (sender, vote) for sender, validator in enumerate(state) for vote in validator.sent
        }

    def senders(self, kind: str, number: int, value: str | None = None) -> int:
        """Returns the number of validators that have sent such a vote."""
        return len(
            {
                sender
                for sender, (its_kind, its_round, its_value) in self.messages
                if its_kind == kind and its_round == number and value in (None, its_value)
            }
        )

    def present(self, number: int) -> int:
        """Returns the number of validators with messages in a round."""
        return 1 + sum(
            one.round == number or any(vote[1] == number for vote in one.sent) for one in self.state
        )


def next_of(validator: Validator, network: Network, rounds: int, locking: bool) -> Iterator[Validator]:
    """Yields the results of each applicable rule; the Byzantine validator proposes in every round."""
    number, (locked_round, locked_value) = validator.round, validator.locked
    if validator.step == "propose":
        yield validator.send("prevote", NIL)  # 57, and proposals that are not valid
        for value in VALUES:
            free = not locking or locked_round == -1 or locked_value == value
            yield validator.send("prevote", value if free else NIL)  # 22
            for proven in range(number):  # 28
                if network.senders("prevote", proven, value) >= QUORUM:
                    free = not locking or locked_round <= proven or locked_value == value
                    yield validator.send("prevote", value if free else NIL)
    if validator.step == "prevote":
        if network.senders("prevote", number) >= QUORUM:  # 34 and 61; 44 needs no less
            yield validator.send("precommit", NIL)
        for value in VALUES:
            if network.senders("prevote", number, value) >= QUORUM:  # 36
                yield validator.send("precommit", value, locks=True)
    if number + 1 < rounds and network.senders("precommit", number) >= QUORUM:  # 47 and 65
        yield validator.enter(number + 1)
    for later in range(number + 1, rounds):  # 55
        if network.present(later) >= 2:
            yield validator.enter(later)


def explore(rounds: int, locking: bool = True) -> dict[State, set[str]]:
    """Returns all states, each with the values that a correct validator can decide there."""
    initial: State = (Validator(),) * 3
    found: dict[State, set[str]] = {}
    waiting = [initial]
    while waiting:
        state = waiting.pop()
        if state in found:
            continue
        network = Network(state, rounds)
        found[state] = {
            value
            for value in VALUES
            for number in range(rounds)
            if network.senders("precommit", number, value) >= QUORUM  # 49
        }
        for position, validator in enumerate(state):
            others = state[:position] + state[position + 1 :]
            waiting.extend(
                tuple(sorted((*others, one))) for one in next_of(validator, network, rounds, locking)
            )
    return found


@pytest.mark.parametrize(("rounds", "locking"), [(1, True), (1, False)])
def test_one_round_is_counted_twice(rounds: int, locking: bool) -> None:
    """With and without locks, which a single round does not need."""
    found = explore(rounds, locking)
    assert max(map(len, found.values())) == 1
    assert len(found) == counted(rounds, locking, "holds")


@pytest.mark.models
def test_two_rounds_are_counted_twice() -> None:
    """Agreement holds in both, with the same number of states."""
    found = explore(2)
    assert max(map(len, found.values())) == 1
    assert len(found) == counted(2, True, "holds")


@pytest.mark.models
def test_without_locks_two_rounds_decide_differently() -> None:
    """Some state violates agreement here, and the model says the same."""
    assert max(map(len, explore(2, locking=False).values())) == 2
    counted(2, False, "violated")


def counted(rounds: int, locking: bool, verdict: str) -> int:
    """Returns the number of states that the model's search counts."""
    constants = {"ROUNDS": rounds, "LOCKING": int(locking)}
    (result,) = vs.check(MODEL, ["agreement"], constants=constants)
    assert word(result.verdict) == verdict
    return result.effort.states
