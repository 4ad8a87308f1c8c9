"""The durable memory of a validator: the messages it has signed, its locked and valid value, its round.

A validator that forgets a vote may sign a conflicting one, and one that forgets its lock may help to
decide a second value: either makes it Byzantine. One that forgets why it entered its round may stay there
alone, if a Byzantine validator's votes brought it there and are never sent again. So a record is durable
before the message leaves, and `recover` rebuilds the memory from the surviving records; the message of a
lost record was never sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, assert_never

from veristream.kabis.ordering.messages import NO_ROUND, Certificate, Proposal, Round, Signed, Step, Value
from veristream.kabis.protocol.codec import Coded
from veristream.kabis.protocol.fields import U32, U64, at_most, tagged
from veristream.kabis.protocol.receipts import PARTIES_MAX


@dataclass(frozen=True, slots=True)
class SignedOnce:
    """A signed message: the validator signs nothing else in its height, round and step."""

    message: Signed

    @property
    def step(self) -> Step:
        """The step of the message."""
        return Step.PROPOSE if isinstance(self.message, Proposal) else self.message.step


@dataclass(frozen=True, slots=True)
class Locked:
    """The paper's locked and valid value of a height; `proof` is the valid value's proof-of-lock."""

    height: U64
    locked_value: Value | None = None
    locked_round: Round = NO_ROUND
    valid_value: Value | None = None
    valid_round: Round = NO_ROUND
    proof: Certificate | None = None


@dataclass(frozen=True, slots=True)
class Entered:
    """A round that was entered, and the messages of others that caused it."""

    height: U64
    round: U32 = 0
    because: Annotated[tuple[Signed, ...], at_most(PARTIES_MAX)] = ()


Record = Annotated[SignedOnce | Locked | Entered, tagged("record")]


@dataclass(frozen=True, slots=True)
class ConsensusRecord(Coded, kind="consensus-record", bytes_max=1 << 40):
    """A record as the log holds it."""

    record: Record


@dataclass(slots=True)
class Memory:
    """The durable part of a validator's state: for each height the round, signed messages and lock."""

    entries: dict[int, Entered] = field(default_factory=dict)
    signed: dict[int, dict[Step, SignedOnce]] = field(default_factory=dict)
    locks: dict[int, Locked] = field(default_factory=dict)

    def take(self, record: Record) -> None:
        """Adds a record."""
        match record:
            case Entered():
                self.entries[record.height] = record
                self.signed.pop(record.height, None)  # a validator never signs in a round that it has left
            case SignedOnce():
                self.signed.setdefault(record.message.height, {})[record.step] = record
            case Locked():
                self.locks[record.height] = record
            case _:
                assert_never(record)

    def entry(self, height: int) -> Entered:
        """Returns the round of a height, initially 0."""
        return self.entries.get(height) or Entered(height)

    def lock(self, height: int) -> Locked:
        """Returns the lock of a height, initially none."""
        return self.locks.get(height) or Locked(height)

    def signed_in(self, height: int) -> list[SignedOnce]:
        """Returns what was signed in the current round of a height, by step."""
        in_round = self.signed.get(height, {})
        return [in_round[step] for step in sorted(in_round)]

    def signed_in_place_of(self, message: Signed) -> SignedOnce | None:
        """Returns what was signed in the height, round and step of this message, or None."""
        assert message.round == self.entry(message.height).round, "a validator signs in its round only"
        return self.signed.get(message.height, {}).get(SignedOnce(message).step)

    def forget_before(self, height: int) -> None:
        """Drops the heights below this one, which are decided."""
        for known in (self.entries, self.signed, self.locks):
            for old in [old for old in known if old < height]:
                del known[old]


def encode_record(record: Record) -> bytes:
    """Returns the canonical encoding of a record."""
    return ConsensusRecord(record).encode()


def decode_record(data: bytes) -> Record:
    """Decodes a record; raises only DecodeError."""
    return ConsensusRecord.decode(data).record
