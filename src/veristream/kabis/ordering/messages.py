"""Consensus messages, the bytes that validators sign, and the checks before a message reaches the core.

A proposer signs the value's identifier, not its content; the receiver checks that the identifier matches
the content (`verify`). The signature does not cover the proof-of-lock, whose votes have their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Annotated, assert_never

from veristream.kabis.protocol.blocks import BLOCK_BYTES_MAX
from veristream.kabis.protocol.codec import DecodeError, Reader, Writer
from veristream.kabis.protocol.fields import U16, U32, U64, Digest, Signature, at_most, blob, by, tagged
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.receipts import PARTIES_MAX, VoteKind, vote_bytes

NO_ROUND = -1
CONTENT_BYTES_MAX = BLOCK_BYTES_MAX


class Step(IntEnum):
    """The steps of a round, in order (algorithm 1, line 4); votes have the numbers of `VoteKind`."""

    PROPOSE = 0
    PREVOTE = 1
    PRECOMMIT = 2


def _write_step(writer: Writer, step: Step) -> None:
    writer.u8(step)


def _read_step(reader: Reader) -> Step:
    number = reader.u8()
    if number not in (Step.PREVOTE, Step.PRECOMMIT):
        raise DecodeError(f"step {number} is neither prevote nor precommit")
    return Step(number)


def _write_round(writer: Writer, number: int) -> None:
    writer.u32(number - NO_ROUND)


def _read_round(reader: Reader) -> int:
    return reader.u32() + NO_ROUND


VotingStep = Annotated[Step, by(_write_step, _read_step)]
"""Prevote or precommit."""
Round = Annotated[int, by(_write_round, _read_round)]
"""The number of a round, or `NO_ROUND`."""


@dataclass(frozen=True, slots=True)
class Committee:
    """The validators 0 ... size - 1 of a chain, with one vote each; size = 3 F + 1."""

    chain: str
    size: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.size % 3 != 1:
            raise ValueError(f"the number of validators must be 3 F + 1, not {self.size}")

    @property
    def faults(self) -> int:
        """F, the number of validators that may be Byzantine."""
        return (self.size - 1) // 3

    @property
    def quorum(self) -> int:
        """2 F + 1: any two quorums have a correct validator in common."""
        return 2 * self.faults + 1

    def proposer(self, height: int, round_number: int) -> int:
        """Returns the proposer of a round."""
        return (height + round_number) % self.size


@dataclass(frozen=True, slots=True)
class Value:
    """A value to decide: an identifier, and the content that it identifies."""

    identifier: Digest
    content: Annotated[bytes, blob(CONTENT_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class Vote:
    """A prevote or a precommit of one validator; without an identifier it is a vote for nil."""

    step: VotingStep
    height: U64
    round: U32
    identifier: Digest | None
    sender: U16
    signature: Signature = b""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The votes of a quorum for one value in one step, as pairs (validator, signature) in validator order.

    Of prevotes it is a proof-of-lock; of precommits it shows that the value is decided.
    """

    step: VotingStep
    height: U64
    round: U32
    identifier: Digest
    signatures: Annotated[tuple[tuple[U16, Signature], ...], at_most(PARTIES_MAX)]

    def votes(self) -> tuple[Vote, ...]:
        """Returns the votes in the certificate."""
        place = (self.step, self.height, self.round, self.identifier)
        return tuple(Vote(*place, sender, signature) for sender, signature in self.signatures)

    def is_quorum(self, committee: Committee) -> bool:
        """Returns whether a quorum of the committee voted, each validator once and in order."""
        senders = [sender for sender, _ in self.signatures]
        in_order = all(one < other for one, other in pairwise(senders))
        known = not senders or (senders[0] >= 0 and senders[-1] < committee.size)
        return len(senders) >= committee.quorum and in_order and known


@dataclass(frozen=True, slots=True)
class Proposal:
    """A proposer's value; `valid_round` is the round of its proof-of-lock, or `NO_ROUND`."""

    height: U64
    round: U32
    value: Value
    valid_round: Round
    sender: U16
    signature: Signature = b""
    proof: Certificate | None = None

    @property
    def statement(self) -> tuple[bytes, int]:
        """The content of the proposal; two different ones in a round are evidence against the proposer."""
        return (self.value.identifier, self.valid_round)


@dataclass(frozen=True, slots=True)
class Commit:
    """A decided value with the precommits that decided it, for validators that are behind."""

    value: Value
    certificate: Certificate


Signed = Annotated[Proposal | Vote, tagged("signed message of a validator")]
Message = Annotated[Proposal | Vote | Certificate | Commit, tagged("message of a validator")]

VerifySignature = Callable[[int, bytes, bytes], None]
"""Takes a validator's index, a message and a signature; raises SignatureError."""


class MessageError(Exception):
    """No correct validator sends this message; it is dropped before it reaches the core."""


def height_of(message: Message) -> int:
    """Returns the height of a message."""
    return message.certificate.height if isinstance(message, Commit) else message.height


def sign_bytes(chain: str, message: Signed) -> bytes:
    """Returns the bytes that a validator signs, unique to this message and chain."""
    match message:
        case Vote():
            kind = VoteKind(message.step)
            return vote_bytes(chain, kind, message.height, message.round, message.identifier)
        case Proposal():
            writer = Writer("proposal")
            writer.text(chain)
            writer.u64(message.height)
            writer.u32(message.round)
            writer.digest(message.value.identifier)
            _write_round(writer, message.valid_round)
            return writer.to_bytes()
        case _:
            assert_never(message)


@dataclass(frozen=True, slots=True)
class Verifier:
    """Checks messages before they reach the core."""

    committee: Committee
    signature: VerifySignature
    identify: Callable[[bytes], bytes]  # raises DecodeError if the content is invalid

    def verify(self, message: Message) -> None:
        """Raises `MessageError` unless every signature is valid and identifiers match contents."""
        match message:
            case Proposal():
                self._place(message)
                self._signed(message)
                if message.proof is not None:
                    self._certificate(message.proof)
                self._value(message.value)  # last, because it costs most
            case Vote():
                if message.step is Step.PROPOSE:
                    raise MessageError("a vote must be a prevote or a precommit")
                self._signed(message)
            case Certificate():
                self._certificate(message)
            case Commit():
                self._commit(message)
            case _:
                assert_never(message)

    def _commit(self, commit: Commit) -> None:
        certificate = commit.certificate
        if certificate.step is not Step.PRECOMMIT or certificate.identifier != commit.value.identifier:
            raise MessageError("the certificate does not contain precommits for the value")
        self._certificate(certificate)
        self._value(commit.value)

    def _place(self, proposal: Proposal) -> None:
        if proposal.sender != self.committee.proposer(proposal.height, proposal.round):
            raise MessageError(f"validator {proposal.sender} is not the proposer of round {proposal.round}")
        if not proof_fits(proposal):
            raise MessageError("the proof-of-lock does not match the proposal's value and valid round")

    def _value(self, value: Value) -> None:
        try:
            identifier = self.identify(value.content)
        except DecodeError as error:
            raise MessageError(f"malformed content: {error}") from error
        if identifier != value.identifier:
            raise MessageError("the identifier does not match the content")

    def _signed(self, message: Signed) -> None:
        if not 0 <= message.sender < self.committee.size:
            raise MessageError(f"{message.sender} is not a validator")
        try:
            self.signature(message.sender, sign_bytes(self.committee.chain, message), message.signature)
        except SignatureError as error:
            raise MessageError(f"not signed by validator {message.sender}") from error

    def _certificate(self, certificate: Certificate) -> None:
        if certificate.step is Step.PROPOSE or not certificate.is_quorum(self.committee):
            raise MessageError("a certificate needs votes of 2 F + 1 validators, one of each, in order")
        for vote in certificate.votes():
            self._signed(vote)


def proof_fits(proposal: Proposal) -> bool:
    """Returns whether the proof-of-lock, if there is one, matches the proposal's value and valid round."""
    if not NO_ROUND <= proposal.valid_round < proposal.round:
        return False
    proof = proposal.proof
    if proof is None:  # the prevotes may be known already, as in the paper
        return True
    claimed = (Step.PREVOTE, proposal.height, proposal.valid_round, proposal.value.identifier)
    return (proof.step, proof.height, proof.round, proof.identifier) == claimed
