"""One validator on a bench: messages in, and what it does in words.

Of four validators, the proposer of round r at height 1 is 1, 2, 3, 0, 1, ...
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b, sha256
from typing import TypeVar

from veristream.kabis.ordering.interface import (
    Broadcast,
    Conflict,
    Decide,
    Input,
    Output,
    Persist,
    Received,
    Resend,
    Schedule,
    Start,
    Timeout,
)
from veristream.kabis.ordering.messages import (
    NO_ROUND,
    Certificate,
    Commit,
    Committee,
    Message,
    Proposal,
    Step,
    Value,
    Verifier,
    Vote,
    sign_bytes,
)
from veristream.kabis.ordering.tendermint import Application, Durations, Identity, Tendermint
from veristream.kabis.protocol.keys import SignatureError
from veristream_testing.simulation.votes import recover

HEIGHT = 1
COMMITTEE = Committee("bench", 4)
PROPOSE, PREVOTE, PRECOMMIT = Step.PROPOSE, Step.PREVOTE, Step.PRECOMMIT

Signable = TypeVar("Signable", Proposal, Vote)


def value(text: str) -> Value:
    """A value; its name begins with `bad` when it is not valid, with `late` when it is not timely."""
    return Value(sha256(text.encode()).digest(), text.encode())


A, B, BAD, LATE = value("a"), value("b"), value("bad"), value("late")
NAMES = {known.identifier: known.content.decode() for known in (A, B, BAD, LATE)}


def sign_as(index: int, data: bytes) -> bytes:
    """A stand-in for the signature of a validator."""
    return blake2b(data, key=b"key %d" % index).digest()


def signed(message: Signable) -> Signable:
    """The message with its sender's signature."""
    return replace(message, signature=sign_as(message.sender, sign_bytes(COMMITTEE.chain, message)))


def check_signature(index: int, data: bytes, signature: bytes) -> None:
    """Raises SignatureError unless `sign_as` made the signature."""
    if sign_as(index, data) != signature:
        raise SignatureError("not this validator's")


VERIFIER = Verifier(COMMITTEE, check_signature, lambda content: sha256(content).digest())


def proposal(
    number: int,
    what: Value,
    valid_round: int = NO_ROUND,
    height: int = HEIGHT,
    proof: Certificate | None = None,
) -> Proposal:
    """The proposal of the round's proposer."""
    sender = COMMITTEE.proposer(height, number)
    return replace(signed(Proposal(height, number, what, valid_round, sender)), proof=proof)


def vote(step: Step, sender: int, number: int, what: Value | None, height: int = HEIGHT) -> Vote:
    """A vote; for nil without a value."""
    return signed(Vote(step, height, number, what.identifier if what else None, sender))


def votes(step: Step, senders: Iterable[int], number: int, what: Value | None) -> list[Message]:
    """One vote of each."""
    return [vote(step, sender, number, what) for sender in senders]


def certificate(
    step: Step, senders: Iterable[int], number: int, what: Value, height: int = HEIGHT
) -> Certificate:
    """The votes of these validators for a value."""
    pairs = tuple((sender, vote(step, sender, number, what, height).signature) for sender in senders)
    return Certificate(step, height, number, what.identifier, pairs)


class Bench:
    """A validator, started at height 1, with the records it has persisted."""

    def __init__(self, index: int = 0, records: Iterable[bytes] = (), proposes: Value = A) -> None:
        self.index = index
        self.records = list(records)
        application = Application(
            propose=lambda height, number: proposes,
            valid=lambda what: not what.content.startswith(b"bad"),
            timely=lambda what: not what.content.startswith(b"late"),
        )
        identity = Identity(index, COMMITTEE, lambda data: sign_as(index, data))
        self.machine = Tendermint(identity, application, Durations(30, 20, 10, 5), recover(self.records))

    def start(self, height: int = HEIGHT) -> list[str]:
        """Starts a height."""
        return self.give(Start(height))

    def hear(self, *messages: Message) -> list[str]:
        """Receives messages one after the other."""
        return self.give(*[Received(message) for message in messages])

    def time_out(self, step: Step, number: int, height: int = HEIGHT) -> list[str]:
        """Lets a timeout come."""
        return self.give(Timeout(step, height, number))

    def resend(self) -> list[Message]:
        """What it repeats."""
        outputs = self.machine.handle(Resend())
        return [output.message for output in outputs if isinstance(output, Broadcast)]

    def give(self, *inputs: Input) -> list[str]:
        """What follows from inputs, in words; records are kept, and not mentioned."""
        outputs = [output for given in inputs for output in self.machine.handle(given)]
        self.records += [output.record for output in outputs if isinstance(output, Persist)]
        return [_say(output) for output in outputs if not isinstance(output, Persist)]

    @property
    def locked(self) -> tuple[str | None, int, str | None, int]:
        """Locked value and round, valid value and round."""
        lock = self.machine.lock
        return (
            lock.locked_value and _name(lock.locked_value.identifier),
            lock.locked_round,
            lock.valid_value and _name(lock.valid_value.identifier),
            lock.valid_round,
        )


def _name(identifier: bytes | None) -> str:
    return "nil" if identifier is None else NAMES.get(identifier, "other")


def _say(output: Output) -> str:
    match output:
        case Broadcast(Proposal() as message):
            return f"propose {message.round} {_name(message.value.identifier)} {message.valid_round}"
        case Broadcast(Vote() as message):
            return f"{message.step.name.lower()} {message.round} {_name(message.identifier)}"
        case Schedule():
            return f"wait {output.step.name.lower()} {output.round} {output.duration_ms}"
        case Decide():
            voters = "".join(str(sender) for sender, _ in output.certificate.signatures)
            VERIFIER.verify(Commit(output.value, output.certificate))
            return f"decide {output.height} {_name(output.value.identifier)} by {voters}"
        case Conflict():
            return f"conflict of {output.first.sender}"
        case _:
            raise AssertionError(f"unexpected: {output}")
