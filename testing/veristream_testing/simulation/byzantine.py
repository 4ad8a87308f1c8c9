"""Byzantine validators: each receives all messages, holds one key, and may send anything.

A strategy maps received messages to messages and receivers. No strategy can sign as a correct validator;
the forger tries to, and verification must refuse its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from random import Random
from typing import TypeVar

from veristream.kabis.cluster.faults import ValidatorFault
from veristream.kabis.ordering.messages import (
    NO_ROUND,
    Certificate,
    Commit,
    Committee,
    Message,
    Proposal,
    Signed,
    Step,
    Value,
    Vote,
    sign_bytes,
)
from veristream_testing.simulation.scenario import HEAL_MS

SignedMessage = TypeVar("SignedMessage", Proposal, Vote)

VOTING = (Step.PREVOTE, Step.PRECOMMIT)
FORGED = b"\x5a" * 64


def make_value(text: str) -> Value:
    """Returns a value with this content."""
    content = text.encode("ascii")
    return Value(sha256(content).digest(), content)


@dataclass(frozen=True, slots=True)
class Saying:
    """A message to some validators, sent after a delay."""

    message: Message
    receivers: frozenset[int]
    after_ms: int = 0


@dataclass(slots=True)
class Byzantine:
    """A Byzantine validator and the messages it has received."""

    index: int
    committee: Committee
    sign: Callable[[bytes], bytes]
    strategy: ValidatorFault
    random: Random
    values: dict[int, dict[bytes, Value]] = field(default_factory=dict)
    prevotes: dict[tuple[int, int, bytes], dict[int, bytes]] = field(default_factory=dict)
    reached: set[tuple[int, int]] = field(default_factory=set)
    said: set[Message] = field(default_factory=set)
    made: int = 0

    def hear(self, message: Message, now_ms: int) -> list[Saying]:
        """Returns its reaction to a message."""
        if isinstance(message, Certificate | Commit) or self.strategy is ValidatorFault.SILENT:
            return []
        self._note(message)
        sayings = list(self._answer(message))
        if self.strategy is ValidatorFault.FLOOD:
            hold_ms = max(0, HEAL_MS - now_ms)
            sayings = [replace(saying, after_ms=hold_ms) for saying in sayings]
        return sayings

    def begin(self, height: int) -> list[Saying]:
        """Returns its proposals for a height that begins, if it is the first proposer there."""
        is_first = self._proposes(height, 0) and (height, 0) not in self.reached
        if not is_first or self.strategy is ValidatorFault.SILENT:
            return []
        self.reached.add((height, 0))
        return list(self._propose(height, 0))

    def _note(self, message: Signed) -> None:
        known = self.values.setdefault(message.height, {})
        if isinstance(message, Proposal):
            known[message.value.identifier] = message.value
        elif message.step is Step.PREVOTE and message.identifier is not None:
            place = (message.height, message.round, message.identifier)
            self.prevotes.setdefault(place, {})[message.sender] = message.signature

    def _answer(self, message: Signed) -> Iterator[Saying]:
        for number in (message.round, message.round + 1):
            place = (message.height, number)
            if place not in self.reached:
                self.reached.add(place)
                if self._proposes(*place):
                    yield from self._propose(*place)
        yield from self._vote_on(message)

    def _propose(self, height: int, number: int) -> Iterator[Saying]:
        stale = self._stale_proposal(height, number)
        if stale is not None:
            yield Saying(stale, self._all())
            yield from self._vote_for(height, number, stale.value.identifier, self._all())
            return
        some = self._some()
        for receivers in (some, self._all() - some):
            value = self._make_value(height, number)
            proposal = self._signed(Proposal(height, number, value, NO_ROUND, self._position(height)))
            self.values.setdefault(height, {})[value.identifier] = value
            yield Saying(proposal, receivers)
            yield from self._vote_for(height, number, value.identifier, receivers)

    def _stale_proposal(self, height: int, number: int) -> Proposal | None:
        """Returns a proposal of the oldest value for which it can complete a proof-of-lock."""
        if self.strategy is not ValidatorFault.OBSTRUCT:
            return None
        for place in sorted(place for place in self.prevotes if place[0] == height and place[1] < number):
            value = self.values[height].get(place[2])
            own = self._signed(Vote(Step.PREVOTE, height, place[1], place[2], self._position(height)))
            signatures = self.prevotes[place] | {own.sender: own.signature}
            if value is not None and len(signatures) >= self._committee(height).quorum:
                proof = Certificate(
                    Step.PREVOTE, height, place[1], place[2], tuple(sorted(signatures.items()))
                )
                proposal = self._signed(Proposal(height, number, value, place[1], own.sender))
                return replace(proposal, proof=proof)
        return None

    def _vote_on(self, message: Signed) -> Iterator[Saying]:
        height, number = message.height, message.round
        identifier = message.value.identifier if isinstance(message, Proposal) else message.identifier
        match self.strategy:
            case ValidatorFault.AGREE | ValidatorFault.FLOOD:
                yield from self._vote_for(height, number, identifier, self._all())
            case ValidatorFault.EQUIVOCATE:
                some = self._some()
                yield from self._vote_for(height, number, identifier, some)
                yield from self._vote_for(height, number, None, self._all() - some)
            case ValidatorFault.RANDOM if self.random.random() < 0.5:
                choices = [None, sha256(b"unknown").digest(), *self.values[height]]
                number = max(0, number + self.random.randint(-1, 1))
                yield from self._vote_for(height, number, self.random.choice(choices), self._some())
            case ValidatorFault.OBSTRUCT:
                for earlier in range(max(0, number - 2), number + 1):
                    if not self._proposes(height, earlier):
                        yield from self._vote_for(height, earlier, None, self._all())
            case ValidatorFault.FORGE if isinstance(message, Vote):
                yield from self._forge(message)
        if self.strategy is ValidatorFault.FLOOD:
            for ahead in (1, 7, 1_000, 1_000_000):
                yield from self._vote_for(height, number + ahead, identifier, self._all())

    def _vote_for(
        self, height: int, number: int, identifier: bytes | None, receivers: frozenset[int]
    ) -> Iterator[Saying]:
        for step in VOTING:
            vote = self._signed(Vote(step, height, number, identifier, self._position(height)))
            if vote not in self.said:
                self.said.add(vote)
                yield Saying(vote, receivers)

    def _forge(self, vote: Vote) -> Iterator[Saying]:
        committee = self._committee(vote.height)
        other = self.random.randrange(committee.size)
        yield Saying(replace(vote, sender=other, signature=FORGED), self._all())
        yield Saying(replace(vote, identifier=None), self._all())
        if vote.identifier is not None:
            padded = tuple((index, vote.signature) for index in range(committee.quorum))
            certificate = Certificate(Step.PRECOMMIT, vote.height, vote.round, vote.identifier, padded)
            yield Saying(certificate, self._all())
            value = self.values[vote.height].get(vote.identifier)
            if value is not None:
                yield Saying(Commit(value, certificate), self._all())

    def _make_value(self, height: int, number: int) -> Value:
        self.made += 1
        word = "bad" if self.random.random() < 0.2 else "ok"
        return make_value(f"{word}/{height}/{number}/byzantine {self.index}/{self.made}")

    def _signed(self, message: SignedMessage) -> SignedMessage:
        return replace(message, signature=self.sign(sign_bytes(self.committee.chain, message)))

    def _committee(self, height: int) -> Committee:
        """Returns the committee of a height."""
        return self.committee

    def _position(self, height: int) -> int:
        """Returns the position that it claims in the committee of a height."""
        return self.index

    def _proposes(self, height: int, number: int) -> bool:
        return self._committee(height).proposer(height, number) == self._position(height)

    def _all(self) -> frozenset[int]:
        return frozenset(range(self.committee.size)) - {self.index}

    def _some(self) -> frozenset[int]:
        return frozenset(index for index in self._all() if self.random.random() < 0.5)
