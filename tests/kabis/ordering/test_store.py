"""A validator's logs: blocks that follow each other, records that are kept as long as they matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kabis.chain import certificate_for, make_genesis
from tests.kabis.ordering.bench import A, vote
from tests.kabis.ordering.test_client import BLOCKS, HEIGHT
from veristream.errors import EnvironmentFailure
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.log.disk.log import Log, LogOptions
from veristream.kabis.log.disk.segment import HEADER_BYTES
from veristream.kabis.ordering.durable import Entered, Locked, SignedOnce, encode_record
from veristream.kabis.ordering.messages import Step
from veristream.kabis.ordering.store import BlockStore, RecordStore


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log", LogOptions(segment_bytes_max=HEADER_BYTES + 2_000)) as opened:
        yield opened


def test_blocks_come_back(log: Log) -> None:
    store = BlockStore(log)
    for certified in BLOCKS:
        store.append(certified)
    assert (store.height, store.sync(), log.durable) == (HEIGHT, HEIGHT, HEIGHT)
    again = BlockStore(log)
    for height, certified in enumerate(BLOCKS, start=1):
        assert store.encoded(height) == again.encoded(height) == certified.encode()
    commit = again.load(3)
    assert commit is not None and commit.value.content == BLOCKS[2].block.encode()
    assert commit.certificate.signatures == BLOCKS[2].certificate.signatures
    assert [again.load(0), again.load(HEIGHT + 1)] == [None, None]
    ledger, following = Ledger(make_genesis()), Ledger(make_genesis())
    again.restore(ledger)
    for certified in BLOCKS:
        following.apply(certified.block)
    assert (ledger.height, ledger.state_hash()) == (HEIGHT, following.state_hash())


def test_a_slice_has_at_least_its_first_block(log: Log) -> None:
    store = BlockStore(log)
    for certified in BLOCKS:
        store.append(certified)
    sizes = [len(certified.encode()) for certified in BLOCKS]
    assert len(list(store.slice(2, 5, 1 << 20))) == 4
    assert len(list(store.slice(2, 100, 1 << 20))) == HEIGHT - 1
    assert len(list(store.slice(1, 5, 0))) == 1
    assert len(list(store.slice(1, 5, sizes[0] + sizes[1]))) == 2
    assert list(store.slice(HEIGHT + 1, 100, 1 << 20)) == []


def test_blocks_are_written_in_order(log: Log) -> None:
    with pytest.raises(AssertionError):
        BlockStore(log).append(BLOCKS[1])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (b"no block", "stored block 3"),
        (BLOCKS[3].encode(), "stored block 3"),
        (replace(BLOCKS[2], certificate=certificate_for(BLOCKS[2].block, (0, 1))).encode(), "2 votes"),
        (replace(BLOCKS[2], certificate=BLOCKS[1].certificate).encode(), "another block"),
    ],
)
def test_what_is_not_the_chain_is_reported(log: Log, wrong: bytes, words: str) -> None:
    for certified in BLOCKS[:2]:
        log.append(certified.encode())
    log.append(wrong)
    with pytest.raises(EnvironmentFailure, match=words):
        BlockStore(log).restore(Ledger(make_genesis()))


def test_records_come_back_from_a_height_on(log: Log) -> None:
    store = RecordStore(log)
    votes = {height: vote(Step.PREVOTE, 0, 0, A, height) for height in (4, 5, 6)}
    for height, message in votes.items():
        store.append(height, encode_record(SignedOnce(message)))
    store.append(6, encode_record(Locked(6, A, 0, A, 0)))
    store.append(7, encode_record(Entered(7, 3)))
    assert (store.durable, store.sync(), store.end) == (0, 5, 5)
    memory = RecordStore(log).recover(5)
    assert sorted(memory.signed) == [5, 6]
    assert memory.signed_in(6) == [SignedOnce(votes[6])]
    assert memory.lock(6).locked_value == A and memory.entry(7).round == 3


def test_records_are_let_go_with_whole_segments_and_never_too_early(log: Log) -> None:
    store = RecordStore(log)
    for height in range(1, 101):
        store.append(height, encode_record(SignedOnce(vote(Step.PREVOTE, 0, 0, A, height))))
    store.sync()
    for height in range(101):
        store.forget(height)
        assert log.start <= height  # the record of height h is at h - 1
    assert log.start > 50
    again = RecordStore(log)
    assert sorted(again.recover(100).signed) == [100]
    before = log.start
    again.forget(99)  # the records found at opening go up to 100
    assert log.start == before


def test_damaged_records_are_reported(log: Log) -> None:
    log.append(b"no record")
    with pytest.raises(EnvironmentFailure, match="record 0"):
        RecordStore(log).recover(1)
