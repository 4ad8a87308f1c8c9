"""A validator that equivocates contradicts itself, and passes on what others say as it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.kabis.chain import CHAIN, VALIDATORS, key_of, make_genesis
from tests.kabis.ordering.cluster import run
from veristream.kabis.cluster.liars import EquivocatingNode
from veristream.kabis.log.disk.log import Log
from veristream.kabis.ordering.messages import Step, Vote, sign_bytes
from veristream.kabis.ordering.peers import decode_peer_message, encode_peer_message
from veristream.kabis.ordering.store import BlockStore, RecordStore
from veristream.kabis.ordering.validator import Settings
from veristream.kabis.protocol.keys import verify

LIAR = 1


class Recorder:
    """A link that keeps what goes out over it."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send_now(self, body: bytes) -> None:
        self.sent.append(body)


def make_vote(sender: int, identifier: bytes | None) -> Vote:
    vote = Vote(Step.PREVOTE, 1, 0, identifier, sender)
    return replace(vote, signature=key_of(VALIDATORS[sender]).sign(sign_bytes(CHAIN, vote)))


def send(folder: Path, vote: Vote) -> dict[int, list[bytes]]:
    """What the others get when the liar sends a vote to all."""
    links = {number: Recorder() for number in range(4) if number != LIAR}

    async def test() -> None:
        with Log(folder / "blocks") as blocks, Log(folder / "records") as records:
            stores = (BlockStore(blocks), RecordStore(records))
            node = EquivocatingNode(make_genesis(), LIAR, key_of(VALIDATORS[LIAR]), stores, Settings())
            node.links = links  # type: ignore[assignment]
            node._send(None, vote)

    run(test)
    return {number: link.sent for number, link in links.items()}


@pytest.mark.parametrize("identifier", [None, b"\1" * 32])
def test_it_contradicts_its_own_votes(tmp_path: Path, identifier: bytes | None) -> None:
    vote = make_vote(LIAR, identifier)
    for sent in send(tmp_path, vote).values():
        votes = [decode_peer_message(body) for body in sent]
        assert len(votes) == 2 and vote in votes
        assert {each.identifier is None for each in votes if isinstance(each, Vote)} == {True, False}
        for each in votes:
            assert isinstance(each, Vote)
            verify(key_of(VALIDATORS[LIAR]).public, sign_bytes(CHAIN, each), each.signature)


def test_it_passes_on_the_votes_of_others_as_they_are(tmp_path: Path) -> None:
    vote = make_vote(2, b"\1" * 32)
    assert send(tmp_path, vote) == {number: [encode_peer_message(vote)] for number in (0, 2, 3)}
