"""Consensus messages as bytes, for the wire and for a validator's log."""

from __future__ import annotations

from typing import assert_never

from veristream.kabis.ordering.messages import (
    NO_ROUND,
    Certificate,
    Commit,
    Message,
    Proposal,
    Step,
    Value,
    Vote,
)
from veristream.kabis.protocol.blocks import BLOCK_BYTES_MAX
from veristream.kabis.protocol.codec import DecodeError, Reader, Writer
from veristream.kabis.protocol.receipts import PARTIES_MAX

CONTENT_BYTES_MAX = BLOCK_BYTES_MAX
MESSAGE_BYTES_MAX = CONTENT_BYTES_MAX + PARTIES_MAX * 128

_KIND = "consensus-message"


def encode_message(message: Message) -> bytes:
    """The only encoding of a message."""
    writer = Writer(_KIND)
    write_message(writer, message)
    return writer.to_bytes()


def decode_message(data: bytes) -> Message:
    """The message with this encoding; raises DecodeError and nothing else."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise DecodeError(f"{len(data)} bytes, at most {MESSAGE_BYTES_MAX} for a message of a validator")
    reader = Reader(data, _KIND)
    message = read_message(reader)
    reader.end()
    return message


def write_message(writer: Writer, message: Message) -> None:
    """Appends a message: which kind, then its fields."""
    match message:
        case Proposal():
            writer.u8(0)
            _write_proposal(writer, message)
        case Vote():
            writer.u8(1)
            _write_vote(writer, message)
        case Certificate():
            writer.u8(2)
            write_certificate(writer, message)
        case Commit():
            writer.u8(3)
            write_value(writer, message.value)
            write_certificate(writer, message.certificate)
        case _:
            assert_never(message)


def read_message(reader: Reader) -> Message:
    """Takes what `write_message` appended."""
    match reader.u8():
        case 0:
            return _read_proposal(reader)
        case 1:
            return _read_vote(reader)
        case 2:
            return read_certificate(reader)
        case 3:
            return Commit(read_value(reader), read_certificate(reader))
        case kind:
            raise DecodeError(f"a message of a validator of kind {kind}")


def write_value(writer: Writer, value: Value) -> None:
    """Appends a value."""
    writer.digest(value.identifier)
    writer.blob(value.content, CONTENT_BYTES_MAX)


def read_value(reader: Reader) -> Value:
    """Takes what `write_value` appended."""
    return Value(reader.digest(), reader.blob(CONTENT_BYTES_MAX))


def write_certificate(writer: Writer, certificate: Certificate) -> None:
    """Appends a certificate."""
    writer.u8(certificate.step)
    writer.u64(certificate.height)
    writer.u32(certificate.round)
    writer.digest(certificate.identifier)

    def write_signature(pair: tuple[int, bytes]) -> None:
        writer.u16(pair[0])
        writer.signature(pair[1])

    writer.items(certificate.signatures, PARTIES_MAX, write_signature)


def read_certificate(reader: Reader) -> Certificate:
    """Takes what `write_certificate` appended."""
    step, height, round_number = read_voting_step(reader), reader.u64(), reader.u32()
    identifier = reader.digest()
    signatures = reader.items(PARTIES_MAX, lambda: (reader.u16(), reader.signature()))
    return Certificate(step, height, round_number, identifier, signatures)


def write_round(writer: Writer, number: int) -> None:
    """Appends a round, or `NO_ROUND`."""
    writer.u32(number - NO_ROUND)


def read_round(reader: Reader) -> int:
    """Takes what `write_round` appended."""
    return reader.u32() + NO_ROUND


def read_voting_step(reader: Reader) -> Step:
    """Prevote or precommit."""
    number = reader.u8()
    if number not in (Step.PREVOTE, Step.PRECOMMIT):
        raise DecodeError(f"step {number} is not one of votes")
    return Step(number)


def _write_proposal(writer: Writer, proposal: Proposal) -> None:
    writer.u64(proposal.height)
    writer.u32(proposal.round)
    write_value(writer, proposal.value)
    write_round(writer, proposal.valid_round)
    writer.u16(proposal.sender)
    writer.signature(proposal.signature)
    writer.option(proposal.proof, lambda proof: write_certificate(writer, proof))


def _read_proposal(reader: Reader) -> Proposal:
    height, round_number = reader.u64(), reader.u32()
    value, valid_round = read_value(reader), read_round(reader)
    sender, signature = reader.u16(), reader.signature()
    proof = reader.option(lambda: read_certificate(reader))
    return Proposal(height, round_number, value, valid_round, sender, signature, proof)


def _write_vote(writer: Writer, vote: Vote) -> None:
    writer.u8(vote.step)
    writer.u64(vote.height)
    writer.u32(vote.round)
    writer.option(vote.identifier, writer.digest)
    writer.u16(vote.sender)
    writer.signature(vote.signature)


def _read_vote(reader: Reader) -> Vote:
    step, height, round_number = read_voting_step(reader), reader.u64(), reader.u32()
    identifier = reader.option(reader.digest)
    return Vote(step, height, round_number, identifier, reader.u16(), reader.signature())
