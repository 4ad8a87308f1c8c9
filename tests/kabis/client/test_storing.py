"""A producer and storage parties that are late, or answer with a receipt that is not theirs."""

from __future__ import annotations

import pytest

from tests.kabis.chain import CHAIN, key_of
from tests.kabis.client.world import author_of, make_cluster, producing
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.producer import producer as producers
from veristream.kabis.client.producer.core import ProducerCore
from veristream.kabis.client.producer.outputs import Store, Submit
from veristream.kabis.cluster.faults import StorageFault
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import SESSION_BYTES
from veristream.kabis.protocol.receipts import sign_storage_receipt
from veristream.kabis.protocol.records import Record
from veristream.kabis.wire.connection import ConnectionLostError
from veristream_testing.simulation.memory import MemoryStorage

STREAM = StreamName("orders", 0, "alice", 0)
PLACE = PartitionName("orders", 0)


def test_a_closing_producer_waits_a_moment_for_the_party_that_is_late() -> None:
    cluster = make_cluster(delay_s=0.2)
    cluster.parties["s2"].fault = StorageFault.LATE
    with producing(cluster) as producer:
        assert producer.push(Record("orders", b"x", partition=0)).result(30).index == 0
    kept = [party.core.fetch_range(STREAM, 0, 1 << 20) for party in cluster.parties.values()]
    assert kept[0] == kept[1] == kept[2] and len(kept[0]) == 1  # type: ignore[arg-type]


def test_a_closing_producer_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "LATE_STORES_S", 0.01)
    cluster = make_cluster(delay_s=3600.0)
    cluster.parties["s2"].fault = StorageFault.LATE
    with producing(cluster) as producer:
        assert producer.push(Record("orders", b"x", partition=0)).result(30).index == 0
    assert cluster.parties["s2"].core.fetch_range(STREAM, 0, 1 << 20) == ()


def test_a_closing_producer_does_not_wait_for_a_party_that_cannot_be_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If it did, the party would have the event in the end."""
    monkeypatch.setattr(producers, "LATE_STORES_S", 25.0)
    away = ConnectionLostError("nobody answers")
    monkeypatch.setattr(
        MemoryStorage, "problem", property(lambda party: away if party.name == "s2" else None)
    )
    cluster = make_cluster(delay_s=20.0)
    cluster.parties["s2"].fault = StorageFault.LATE
    with producing(cluster) as producer:
        assert producer.push(Record("orders", b"x", partition=0)).result(30).index == 0
    assert cluster.parties["s2"].core.fetch_range(STREAM, 0, 1 << 20) == ()


def make_producer() -> tuple[ProducerCore, Store]:
    """A producer that has sent a batch to all three parties, and what it sent to the first."""
    cluster = make_cluster()
    options = ProducerOptions(linger_ms=0, retry_ms=100)
    core = ProducerCore(
        Follower(cluster.genesis), author_of("alice"), options, bytes(SESSION_BYTES), journal=()
    )
    for block in cluster.blocks:
        core.block(block, 0)
    core.start(0)
    core.push(Record("orders", b"x", partition=0), 0)
    (written,) = core.tick(0)
    sent = core.journaled([written.digest], 0)  # type: ignore[union-attr]
    assert [each.party for each in sent if isinstance(each, Store)] == ["s0", "s1", "s2"]
    assert isinstance(sent[0], Store)
    return core, sent[0]


@pytest.mark.parametrize("signer", ["s0", "s1"])
def test_who_answers_with_the_receipt_of_another_is_asked_again_and_nobody_else(signer: str) -> None:
    """Whether it passes on what another signed or signs in another's name itself."""
    core, sent = make_producer()
    receipt = sign_storage_receipt(CHAIN, "s1", sent.digest, key_of(signer))
    assert core.stored(PLACE, "s0", receipt, 10) == []
    assert core.next_ms == 110
    assert core.tick(110) == [sent]
    true = [sign_storage_receipt(CHAIN, name, sent.digest, key_of(name)) for name in ("s1", "s2")]
    assert core.stored(PLACE, "s1", true[0], 120) == [], "what s0 gave does not count for s1"
    assert [type(each) for each in core.stored(PLACE, "s2", true[1], 130)] == [Submit, Submit]
