"""Reads a CometBFT header with its votes from the RPC's JSON, and computes its hash."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from veristream.kabis.channels.failures import LyingPartyError
from veristream.kabis.cometbft.rpc import field, read_bytes, read_hex, read_integer, read_text
from veristream.kabis.protocol.codec import DIGEST_BYTES, SIGNATURE_BYTES
from veristream.kabis.protocol.cometbft_certificate import (
    ANCHOR_BYTES,
    ANCHOR_FIELD,
    CometCertificate,
    CometVote,
    Votes,
    encode_time,
)
from veristream.kabis.protocol.merkle import compute_root, hash_leaves, prove_inclusion
from veristream.kabis.protocol.protobuf import encode_bytes, encode_integer, encode_message

_FOR_THE_BLOCK = 2
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")


def read_certificate(result: Any, numbers: Mapping[bytes, int]) -> CometCertificate:
    """Reads the certificate in an answer to `commit`; `numbers` maps addresses to our validator numbers.

    Raises LyingPartyError if the votes are for another header. Does not verify the votes.
    """
    header, commit = field(result, "signed_header", "header"), field(result, "signed_header", "commit")
    anchor = read_hex(header, "app_hash")
    if len(anchor) != ANCHOR_BYTES:
        raise LyingPartyError("the header does not refer to one of our blocks")
    hashes = hash_leaves(encode_fields(header))
    votes = Votes(
        height=read_integer(header, "height"),
        round_number=read_integer(commit, "round"),
        header_hash=compute_root(hashes),
        parts_total=read_integer(commit, "block_id", "parts", "total"),
        parts_hash=_read_digest(commit, "block_id", "parts", "hash"),
        signed=_read_votes(field(commit, "signatures"), numbers),
    )
    if read_hex(commit, "block_id", "hash") != votes.header_hash:
        raise LyingPartyError("the votes are for another header")
    return CometCertificate(anchor, prove_inclusion(hashes, ANCHOR_FIELD), votes)


def encode_fields(header: Any) -> list[bytes]:
    """Encodes the fourteen fields of a header as CometBFT hashes them."""
    version = encode_integer(1, read_integer(header, "version", "block")) + encode_integer(
        2, read_integer(header, "version", "app") if "app" in field(header, "version") else 0
    )
    last = field(header, "last_block_id")
    parts = encode_integer(1, read_integer(last, "parts", "total")) + encode_bytes(
        2, read_hex(last, "parts", "hash")
    )
    hashed = [
        *("last_commit_hash", "data_hash", "validators_hash", "next_validators_hash"),
        *("consensus_hash", "app_hash", "last_results_hash", "evidence_hash", "proposer_address"),
    ]
    return [
        version,
        encode_bytes(1, read_text(header, "chain_id").encode("utf-8")),
        encode_integer(1, read_integer(header, "height")),
        encode_time(read_time(read_text(header, "time"))),
        encode_bytes(1, read_hex(last, "hash")) + encode_message(2, parts),
        *(encode_bytes(1, read_hex(header, name)) for name in hashed),
    ]


def read_time(text: str) -> int:
    """Parses a CometBFT time, in nanoseconds."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise LyingPartyError(f"{text!r} is not a time")
    try:
        second = datetime.strptime(found[1], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    except ValueError as error:
        raise LyingPartyError(f"{text!r} is not a time") from error
    return int(second.timestamp()) * 1_000_000_000 + int((found[2] or "0").ljust(9, "0"))


def _read_votes(listed: Any, numbers: Mapping[bytes, int]) -> tuple[CometVote, ...]:
    """Reads the votes for the block; skips validators that voted for nil or too late."""
    votes = []
    for each in listed if isinstance(listed, list) else ():
        if read_integer(each, "block_id_flag") != _FOR_THE_BLOCK:
            continue
        number = numbers.get(read_hex(each, "validator_address"))
        signature = read_bytes(each, "signature")
        if number is None or len(signature) != SIGNATURE_BYTES:
            raise LyingPartyError("a voter is not a validator of our genesis")
        votes.append(CometVote(number, read_time(read_text(each, "timestamp")), signature))
    return tuple(sorted(votes, key=lambda vote: vote.validator))


def _read_digest(value: Any, *names: str) -> bytes:
    found = read_hex(value, *names)
    if len(found) != DIGEST_BYTES:
        raise LyingPartyError(f"{'.'.join(names)} is not a hash")
    return found
