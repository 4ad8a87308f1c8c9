"""Retention: the oldest batches beyond the limits go with the admission of a new one."""

from __future__ import annotations

import pytest

from tests.kabis.chain import Chain, batch_of, certificate_for, chain_with_topic, submitted
from tests.kabis.ledger.test_submit import refused
from veristream.kabis.ledger import retention as retention_module
from veristream.kabis.protocol.actions import LowWater, Retention, SetRetention
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.outcomes import Already, Reason
from veristream.kabis.protocol.partitions import StreamName
from veristream.kabis.storage.chain import ChainView


class Filling:
    """A chain that gets batches of two events, one in a block."""

    def __init__(self, retention: Retention | None = None) -> None:
        self.chain = chain_with_topic()
        self.sequence, self.previous = 0, ZERO_DIGEST
        if retention is not None:
            self.set(retention)

    def set(self, retention: Retention) -> None:
        self.chain.block(self.chain.act("admin", SetRetention("orders", retention)))

    def fill(self, batches: int) -> None:
        for _ in range(batches):
            batch = batch_of(b"a", b"b", sequence=self.sequence, previous=self.previous)
            self.chain.block(submitted(batch))
            self.sequence, self.previous = self.sequence + 2, batch.digest()

    def kept(self) -> list[int]:
        partition = self.chain.ledger.partition("orders", 0)
        admissions = self.chain.ledger.admissions("orders", 0, partition.low_water)
        return [admission.first_index for admission in admissions]


def test_without_retention_everything_is_kept() -> None:
    filling = Filling()
    filling.fill(10)
    assert filling.kept() == list(range(0, 20, 2))


def test_the_newest_batches_are_kept_and_the_state_stays_bounded() -> None:
    filling = Filling(Retention(3, 0))
    filling.fill(20)
    ledger = filling.chain.ledger
    assert filling.kept() == [34, 36, 38]
    assert (ledger.partition("orders", 0).low_water, ledger.partition("orders", 0).next_index) == (34, 40)
    assert len(list(ledger._state.admissions.items())) == 3
    assert len(list(ledger._state.sequences.items())) == 3
    assert len(ledger._starts["orders", 0]) <= 2 * 3 + 1
    with pytest.raises(IndexError, match="below the low-water mark"):
        next(ledger.admissions("orders", 0, 33))


def test_old_batches_go_with_the_next_admission() -> None:
    filling = Filling(Retention(0, 25))
    filling.fill(3)
    assert filling.kept() == [0, 2, 4]
    filling.fill(1)
    assert filling.kept() == [2, 4, 6]
    chain = filling.chain
    chain.block(clock_ms=chain.clock_ms + 1000)
    assert filling.kept() == [2, 4, 6]
    filling.fill(1)
    assert filling.kept() == [8]


def test_the_last_batch_stays() -> None:
    filling = Filling(Retention(1, 1))
    filling.fill(3)
    assert filling.kept() == [4]


def test_lower_limits_are_reached_in_bounded_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention_module, "RELEASED_MAX", 4)
    filling = Filling()
    filling.fill(12)
    filling.set(Retention(2, 0))
    filling.fill(1)
    assert len(filling.kept()) == 9
    filling.fill(3)
    assert filling.kept() == [28, 30]


def test_an_admins_mark_stands_beside_it() -> None:
    filling = Filling(Retention(3, 0))
    filling.fill(3)
    chain = filling.chain
    chain.block(chain.act("admin", LowWater("orders", 0, 5)))
    partition = chain.ledger.partition("orders", 0)
    assert (partition.low_water, partition.oldest) == (5, 4)
    filling.fill(2)
    assert filling.chain.ledger.partition("orders", 0).low_water == 5
    filling.fill(1)
    assert filling.kept() == [6, 8, 10]


def test_the_setting_is_ordered_and_may_be_taken_back() -> None:
    filling = Filling(Retention(3, 0))
    chain: Chain = filling.chain
    assert chain.ledger.retention("orders") == Retention(3, 0)
    assert chain.ledger.retention("logs") == Retention(0, 0)
    again = chain.act("admin", SetRetention("orders", Retention(3, 0)))
    assert chain.preview(again) == Already()
    unknown = chain.act("admin", SetRetention("nowhere", Retention(3, 0)))
    assert refused(chain.preview(unknown)) is Reason.UNKNOWN_TOPIC
    theirs = chain.act("alice", SetRetention("orders", Retention(3, 0)))
    assert refused(chain.preview(theirs)) is Reason.NOT_ADMIN
    filling.set(Retention(0, 0))
    filling.fill(5)
    assert len(filling.kept()) == 5


def test_storage_parties_release_what_the_ledger_releases() -> None:
    filling = Filling(Retention(2, 0))
    filling.fill(5)
    view = ChainView(filling.chain.ledger.genesis)
    for block in filling.chain.blocks:
        view.take(CertifiedBlock(block, certificate_for(block)))
    stream = StreamName("orders", 0, "alice", 0)
    assert view.marks == {stream: filling.kept()[0]} == {stream: 6}
    assert view.digest_of(stream, 4) is None
    assert view.digest_of(stream, 8) == filling.previous
