"""Exactly once: duplicated submits, restarts of the producer, with a journal and without."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kabis.chain import batch_of, submitted
from tests.kabis.client.world import author_of, consuming, make_cluster, producing, pull, values, wait_until
from veristream.kabis.client.errors import ClosedError, KeyEndedError, KeyInUseError
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.producer.core import ProducerCore
from veristream.kabis.client.producer.journal import Journal
from veristream.kabis.client.producer.outputs import Output, Store, Write
from veristream.kabis.cluster.faults import StorageFault, ValidatorFault
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.protocol.actions import RevokeKey
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.outcomes import Done
from veristream.kabis.protocol.partitions import StreamName
from veristream.kabis.protocol.records import Record
from veristream.kabis.protocol.transactions import BatchConflict
from veristream_testing.simulation.memory import MemoryCluster


def push_unseen(cluster: MemoryCluster, journal: Path | None, *numbers: int) -> None:
    """A run of a producer whose batches are stored, and submitted unless all validators drop what they
    get, but decided only after it."""
    submitted_count = 0 if ValidatorFault.CENSOR in cluster.validator_faults else len(numbers)
    with producing(cluster, journal=journal, batch_events=1) as producer:
        pushed = [producer.push(Record("orders", b"%d" % number, partition=0)) for number in numbers]
        wait_until(lambda: all(party.stores >= len(numbers) for party in cluster.parties.values()))
        wait_until(lambda: len(cluster.mempool) == submitted_count)
        producer.close(timeout=0.05)
        with pytest.raises(ClosedError):
            pushed[-1].result(0)


def test_a_submit_that_comes_twice_is_admitted_once() -> None:
    cluster = make_cluster(at_once=False)
    with producing(cluster, submit_timeout_ms=1) as producer, consuming(cluster) as consumer:
        pushed = producer.push(Record("orders", b"once", partition=0))
        wait_until(lambda: cluster.submits >= 9)
        assert cluster.make_block() == 1
        assert pushed.result(30).index == 0
        cluster.make_block()
        assert values(pull(consumer, 1)) == [b"once"]
        assert consumer.pull(0.1) == []
    assert cluster.ledger.partition("orders", 0).next_index == 1


@pytest.mark.parametrize("with_journal", [True, False])
def test_after_a_restart_the_same_bytes_go_out_again(with_journal: bool, tmp_path: Path) -> None:
    cluster = make_cluster(at_once=False)
    cluster.validator_faults = [ValidatorFault.CENSOR] * 4
    journal = tmp_path / "journal" if with_journal else None
    push_unseen(cluster, journal, 0, 1, 2)
    cluster.validator_faults = [None] * 4
    cluster.at_once = True
    with producing(cluster, journal=journal) as producer, consuming(cluster) as consumer:
        assert producer.push(Record("orders", b"new", partition=0)).result(30).index == 3
        assert values(pull(consumer, 4)) == [b"0", b"1", b"2", b"new"]
        assert producer.metrics()["recovered"] == 3
    for party in cluster.parties.values():
        assert party.core.evidence("orders") == [], "nobody can accuse us of having signed twice"


def test_what_was_admitted_meanwhile_is_not_sent_again(tmp_path: Path) -> None:
    cluster = make_cluster(at_once=False)
    push_unseen(cluster, tmp_path, 0, 1)
    while cluster.make_block():
        continue
    cluster.at_once = True
    assert cluster.ledger.partition("orders", 0).next_index == 2
    with producing(cluster, journal=tmp_path) as producer:
        assert producer.metrics()["recovered"] == 0
        assert producer.push(Record("orders", b"new", partition=0)).result(30).index == 2


def test_a_journal_forgets_what_was_admitted(tmp_path: Path) -> None:
    journal = Journal(tmp_path, segment_bytes=2000)
    batches = [batch_of(b"x" * 1000, sequence=number) for number in range(5)]
    journal.write([(batch.digest(), batch.encode()) for batch in batches])
    for batch in batches[:4]:
        journal.forget(batch.digest())
    journal.close()
    again = Journal(tmp_path, segment_bytes=2000)
    assert batches[4].encode() in again.batches
    assert batches[0].encode() not in again.batches
    again.close()


def written_core(cluster: MemoryCluster) -> tuple[ProducerCore, list[Output]]:
    follower = Follower(cluster.genesis)
    core = ProducerCore(follower, author_of("alice"), ProducerOptions(linger_ms=0), bytes(16), journal=())
    for block in cluster.blocks:
        core.block(block, 0)
    core.start(0)
    core.push(Record("orders", b"x", partition=0), 0)
    return core, core.tick(0)


def test_nothing_leaves_before_it_is_in_the_journal() -> None:
    core, outputs = written_core(make_cluster())
    assert [type(output) for output in outputs] == [Write]
    assert isinstance(outputs[0], Write)
    assert [type(output) for output in core.tick(1)] == []
    sent = core.journaled([outputs[0].digest], 2)
    assert [type(output) for output in sent] == [Store, Store, Store]
    assert {output.data for output in sent if isinstance(output, Store)} == {outputs[0].data}


def test_a_batch_waits_for_its_predecessor_to_be_in_the_journal() -> None:
    core, first = written_core(make_cluster())
    core.push(Record("orders", b"y", partition=0), 1)
    second = core.tick(1)
    assert isinstance(first[0], Write)
    assert isinstance(second[0], Write)
    assert core.journaled([second[0].digest], 2) == []
    sent = [output for output in core.journaled([first[0].digest], 3) if isinstance(output, Store)]
    assert [output.digest for output in sent] == [first[0].digest] * 3 + [second[0].digest] * 3


def test_a_party_that_makes_batches_up_gets_nothing_adopted() -> None:
    cluster = make_cluster()
    forged = batch_of(b"forged", signer=author_of("bob").signer)  # type: ignore[arg-type]
    elsewhere = batch_of(b"elsewhere", partition=1)
    later = batch_of(b"later", sequence=5)
    other_previous = batch_of(b"spliced", previous=b"\1" * 32)
    for party in cluster.parties.values():
        answer = tuple(batch.encode() for batch in (forged, elsewhere, later, other_previous))
        party.core.fetch_range = lambda *_, answer=answer: (*answer, b"junk")  # type: ignore[method-assign]
    with producing(cluster) as producer:
        assert producer.push(Record("orders", b"mine", partition=0)).result(30).index == 0
        assert producer.metrics()["recovered"] == 0


def test_a_silent_party_does_not_keep_a_restarted_producer_waiting() -> None:
    cluster = make_cluster()
    cluster.parties["s1"].fault = StorageFault.SILENT
    with producing(cluster) as producer:
        assert producer.push(Record("orders", b"x", partition=0)).result(30).index == 0


def test_two_producers_with_one_key_are_told() -> None:
    cluster = make_cluster()
    with producing(cluster) as first:
        first.push(Record("orders", b"first", partition=0)).result(30)
        stolen = batch_of(b"stolen", sequence=1, previous=cluster.ledger.cursor("alice", "orders", 0).last)
        cluster.submit(submitted(stolen).encode())
        wait_until(lambda: first.metrics()["height"] == len(cluster.blocks))
        with pytest.raises(KeyInUseError, match="orders-0 has a batch that this producer did not make"):
            first.push(Record("orders", b"second", partition=0))


def test_a_fenced_key_fails_every_pending_push_and_all_to_come() -> None:
    cluster = make_cluster(at_once=False)
    with producing(cluster) as producer:
        pushed = [producer.push(Record("orders", b"%d" % n, partition=n % 2)) for n in range(10)]
        one, other = batch_of(b"one", sequence=7), batch_of(b"other", sequence=7)
        with cluster.lock:  # against a submit of the producer that is under way
            cluster.validator_faults = [ValidatorFault.CENSOR] * 4
            cluster.mempool.clear()
            cluster.submit(BatchConflict(one.signed, other.signed).encode())
            assert cluster.make_block() == 1
        for each in pushed:
            with pytest.raises(KeyEndedError, match="fenced"):
                each.result(30)
        with pytest.raises(KeyEndedError, match="fenced"):
            producer.push(Record("orders", b"too late"))
        assert producer.metrics()["buffered_bytes"] == 0


def test_a_revoked_key_is_a_clear_error_at_once() -> None:
    cluster = make_cluster()
    assert cluster.act("admin", RevokeKey("alice", 0)) == Done()
    with producing(cluster) as producer, pytest.raises(KeyEndedError, match=r"alice, epoch 0, is revoked"):
        producer.push(Record("orders", b"x"))


def test_the_chain_of_batches_is_unbroken_with_several_in_flight() -> None:
    cluster = make_cluster(at_once=False)
    with producing(cluster, batch_events=1, in_flight=4) as producer:
        pushed = [producer.push(Record("orders", b"%d" % n, partition=0)) for n in range(9)]
        wait_until(lambda: len(cluster.mempool) >= 4)
        assert len(cluster.mempool) == 4

        def decide() -> bool:
            if cluster.mempool:
                cluster.make_block()
            return pushed[-1].done()

        wait_until(decide)
        assert [each.result(30).index for each in pushed] == list(range(9))
    stream = StreamName("orders", 0, "alice", 0)
    previous = ZERO_DIGEST
    for admission in cluster.ledger.admissions("orders", 0, 0):
        assert admission.signed.header.previous == previous
        previous = admission.digest
    assert len(cluster.parties["s0"].core.fetch_range(stream, 0, 1 << 20)) == 9  # type: ignore[arg-type]
