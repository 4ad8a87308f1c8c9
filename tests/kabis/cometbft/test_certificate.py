"""Certificates of CometBFT: those that a real node gave are good, and nothing in them can be changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from veristream.kabis.channels.failures import LyingPartyError
from veristream.kabis.cometbft import headers
from veristream.kabis.cometbft.application import address_of
from veristream.kabis.protocol.blocks import Certificate, read_certificate, write_certificate
from veristream.kabis.protocol.codec import DecodeError, Reader, Writer
from veristream.kabis.protocol.cometbft_certificate import CometCertificate, CometVote
from veristream.kabis.protocol.receipts import (
    CertificateError,
    NotEnoughVotesError,
    UnknownValidatorError,
    VoteSignatureError,
)

RECORDED = json.loads((Path(__file__).parent / "recorded.json").read_text(encoding="utf-8"))
"""What a node of CometBFT 0.38.26 answered to `commit`, and its chain's keys."""
KEYS = [bytes.fromhex(key) for key in RECORDED["keys"]]
NUMBERS = {address_of(key): number for number, key in enumerate(KEYS)}
CHAIN = RECORDED["commit"]["signed_header"]["header"]["chain_id"]
GOOD = headers.read_certificate(RECORDED["commit"], NUMBERS)


def encode(certificate: Certificate) -> bytes:
    writer = Writer("test")
    write_certificate(writer, certificate)
    return writer.to_bytes()


def decode(data: bytes) -> Certificate:
    reader = Reader(data, "test")
    certificate = read_certificate(reader)
    reader.end()
    return certificate


def test_a_real_nodes_votes_are_good() -> None:
    GOOD.verify(CHAIN, KEYS)
    anchor = bytes.fromhex(RECORDED["commit"]["signed_header"]["header"]["app_hash"])
    assert (GOOD.height, GOOD.block_id) == (int.from_bytes(anchor[:8], "big"), anchor[8:])
    assert GOOD.voters == (0, 1, 2, 3)
    assert (
        GOOD.votes.header_hash.hex().upper()
        == RECORDED["commit"]["signed_header"]["commit"]["block_id"]["hash"]
    )


def test_it_is_read_back_as_it_was() -> None:
    assert decode(encode(GOOD)) == GOOD


def test_no_byte_of_it_can_be_changed() -> None:
    data = encode(GOOD)
    begins = len(Writer("test").to_bytes())
    refused = 0
    for at in range(begins, len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises((DecodeError, CertificateError)):
            decode(bytes(changed)).verify(CHAIN, KEYS)
        refused += 1
    assert refused == len(data) - begins == 560


def test_it_is_of_one_chain_and_of_these_keys() -> None:
    with pytest.raises(VoteSignatureError):
        GOOD.verify(CHAIN + "x", KEYS)
    with pytest.raises(VoteSignatureError):
        GOOD.verify(CHAIN, [KEYS[1], KEYS[0], *KEYS[2:]])
    with pytest.raises(UnknownValidatorError):
        GOOD.verify(CHAIN, KEYS[: GOOD.voters[-1]])


def with_votes(*votes: CometVote) -> CometCertificate:
    return replace(GOOD, votes=replace(GOOD.votes, signed=votes))


def test_two_of_four_votes_are_too_few_and_none_counts_twice() -> None:
    first, second, *_ = GOOD.votes.signed
    with pytest.raises(NotEnoughVotesError):
        with_votes(first, second).verify(CHAIN, KEYS)
    with pytest.raises(CertificateError, match="ascending order of validators"):
        with_votes(first, first, second).verify(CHAIN, KEYS)
    with pytest.raises(DecodeError):
        decode(encode(with_votes(first, first, second)))


HEADER_FIELDS: dict[str, Callable[[dict[str, Any]], object]] = {
    "version": lambda header: header.update(version={"block": "12"}),
    "application's version": lambda header: header["version"].update(app="1"),
    "chain": lambda header: header.update(chain_id="another"),
    "height": lambda header: header.update(height=str(int(header["height"]) + 1)),
    "time": lambda header: header.update(time=header["time"].replace("Z", "1Z")[:-11] + "111111111Z"),
    "last block": lambda header: header["last_block_id"].update(hash="00" * 32),
    "last block's parts": lambda header: header["last_block_id"]["parts"].update(total=2),
    **{
        name: lambda header, name=name: header.update({name: "00" * (len(header[name]) // 2)})  # type: ignore[misc]
        for name in (
            *("last_commit_hash", "data_hash", "validators_hash", "next_validators_hash", "consensus_hash"),
            *("app_hash", "last_results_hash", "evidence_hash", "proposer_address"),
        )
    },
}


@pytest.mark.parametrize("name", HEADER_FIELDS)
def test_the_hash_covers_every_field_of_the_header(name: str) -> None:
    changed = deepcopy(RECORDED["commit"])
    HEADER_FIELDS[name](changed["signed_header"]["header"])
    with pytest.raises(LyingPartyError, match="another header"):
        headers.read_certificate(changed, NUMBERS)


def test_a_header_without_a_block_of_ours_certifies_nothing() -> None:
    changed = deepcopy(RECORDED["commit"])
    changed["signed_header"]["header"]["app_hash"] = "AB" * 32
    with pytest.raises(LyingPartyError, match="does not refer to one of our blocks"):
        headers.read_certificate(changed, NUMBERS)


def test_a_vote_of_a_stranger_is_refused() -> None:
    with pytest.raises(LyingPartyError, match="not a validator"):
        headers.read_certificate(RECORDED["commit"], {})


@pytest.mark.parametrize("junk", [None, 7, [], {}, {"signed_header": 1}, {"signed_header": {"header": {}}}])
def test_junk_in_place_of_an_answer_is_a_lie(junk: object) -> None:
    with pytest.raises(LyingPartyError):
        headers.read_certificate(junk, NUMBERS)


@pytest.mark.parametrize(
    ("text", "time_ns"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("2026-11-15T22:28:22.27759662Z", 1_794_781_702_277_596_620),
    ],
)
def test_times_are_exact_to_the_nanosecond(text: str, time_ns: int) -> None:
    assert headers.read_time(text) == time_ns


@pytest.mark.parametrize(
    "text", ["", "now", "1970-01-01", "1970-13-01T00:00:00Z", "1970-01-01T00:00:00+01:00"]
)
def test_what_is_no_time_is_a_lie(text: str) -> None:
    with pytest.raises(LyingPartyError):
        headers.read_time(text)
