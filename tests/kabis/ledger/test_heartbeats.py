"""A heartbeat costs the same in a large group as in a small one; what counts is bytes, not time."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from tests.kabis.chain import START_MS, make_genesis
from tests.kabis.ledger.test_random import accept
from veristream.kabis.ledger import trie
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.tables import Table
from veristream.kabis.protocol.actions import (
    Action,
    CommitOffsets,
    Grant,
    JoinGroup,
    Operation,
    Resource,
    Rule,
    SetTopic,
)
from veristream.kabis.protocol.codec import Writer
from veristream.kabis.protocol.outcomes import Done
from veristream.kabis.protocol.transactions import Signed

MEMBERS, HEARTBEATS = 150, 544
TOPICS = tuple(sorted(f"topic-{number}" for number in range(1000)))
HEARTBEAT_BYTES_MAX = 16_384


class Counted:
    """Counts the bytes that are encoded, and those that are hashed in the trie."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        to_bytes = Writer.to_bytes

        def encode(writer: Writer) -> bytes:
            return self.add(to_bytes(writer))

        monkeypatch.setattr(Writer, "to_bytes", encode)
        monkeypatch.setattr(trie, "sha256", lambda data: sha256(self.add(data)))

    def add(self, data: bytes) -> bytes:
        self.bytes += len(data)
        return data


class Acting:
    """A ledger that takes one action of a client in each block."""

    def __init__(self) -> None:
        self.ledger = Ledger(make_genesis(), accept)
        self.number = 0

    def take(self, author: str, action: Action) -> None:
        self.number += 1
        signed = Signed(author, 0, self.number, action, bytes(64))
        block = self.ledger.propose([signed.encode()], 0, "v0")
        assert len(block.transactions) == 1
        self.ledger.apply(block)


def test_heartbeats_in_a_group_of_many_members_and_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    acting = Acting()
    acting.take("admin", SetTopic(TOPICS[0], 1, validated=False))
    for number in range(MEMBERS):
        acting.take("alice", JoinGroup("readers", f"i{number}", TOPICS, 30_000))
    counted = Counted(monkeypatch)
    for number in range(HEARTBEATS):
        before = counted.bytes
        acting.take("alice", CommitOffsets("readers", f"i{number % MEMBERS}", MEMBERS, ()))
        assert counted.bytes - before < HEARTBEAT_BYTES_MAX
    owner = acting.ledger.assignment("readers")[TOPICS[0], 0]
    before = counted.bytes
    acting.take("alice", CommitOffsets("readers", owner[1], MEMBERS, ((TOPICS[0], 0, 7),)))
    assert counted.bytes - before < HEARTBEAT_BYTES_MAX
    assert acting.ledger.committed("readers", TOPICS[0], 0) == 7


def test_rights_are_looked_up_once_for_each_block(monkeypatch: pytest.MonkeyPatch) -> None:
    names = tuple(f"{topic}-{'x' * 100}" for topic in TOPICS)
    acting = Acting()
    for rule in ("topic-1*", "secret*"):
        acting.take("admin", Grant(Rule(Resource.TOPIC, rule, Operation.READ, "*")))
    acting.take("alice", JoinGroup("readers", "i", names, 30_000))
    count = 0
    get = Table.get

    def counted(table: Table[Any, Any], key: Any) -> Any:
        nonlocal count
        count += 1
        return get(table, key)

    monkeypatch.setattr(Table, "get", counted)
    for _ in range(3):
        for number, most in ((1, 8 * len(names)), (2, 50)):
            before = count
            beat = Signed(
                "alice", 0, acting.number + number, CommitOffsets("readers", "i", 1, ()), bytes(64)
            )
            assert acting.ledger.preview(beat.encode(), START_MS + 1000) == Done()
            assert count - before < most
        acting.take("alice", CommitOffsets("readers", "i", 1, ()))
