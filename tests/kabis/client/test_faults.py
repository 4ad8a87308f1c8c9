"""Storage parties and validators that are silent, late or lie."""

from __future__ import annotations

import pytest

from tests.kabis.client.world import (
    FOR_EVER_MS,
    Clock,
    consuming,
    make_cluster,
    producing,
    pull,
    values,
    wait_until,
)
from veristream.kabis.client.errors import BelowLowWaterError, DeliveryTimeoutError
from veristream.kabis.cluster.faults import StorageFault, ValidatorFault
from veristream.kabis.protocol.actions import Hole, LowWater, Retention, SetRetention
from veristream.kabis.protocol.genesis import StorageMode
from veristream.kabis.protocol.members import Memberships
from veristream.kabis.protocol.outcomes import Done
from veristream.kabis.protocol.records import Record
from veristream_testing.simulation.memory import STORAGE_FAULTS, MemoryCluster

WRONG = [StorageFault.SUBSTITUTE, StorageFault.ALTER, StorageFault.GARBAGE]


def push_some(cluster: MemoryCluster, count: int = 20) -> None:
    """So many events, in batches of two."""
    with producing(cluster, batch_events=2, linger_ms=FOR_EVER_MS) as producer:
        for number in range(count):
            producer.push(Record("orders", b"%d" % number, partition=0))
        producer.flush(30)


@pytest.mark.parametrize("fault", STORAGE_FAULTS)
def test_one_faulty_party_keeps_nobody_from_pushing_and_pulling(fault: StorageFault) -> None:
    cluster = make_cluster()
    cluster.parties["s1"].fault = fault
    push_some(cluster)
    with consuming(cluster) as consumer:
        assert values(pull(consumer, 20)) == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("fault", WRONG)
def test_a_party_that_lies_is_noted_and_the_producer_is_not_condemned(fault: StorageFault) -> None:
    cluster = make_cluster()
    push_some(cluster)
    for party in cluster.parties.values():
        party.fault = fault
    cluster.parties["s2"].fault = None
    # A lie is known by what it says: nobody is late here, also not on a busy machine.
    with consuming(cluster, fetch_timeout_ms=FOR_EVER_MS) as consumer:
        # Those that vouched are asked first, and s2 may not be among them.
        missing = {a.digest for a in cluster.ledger.admissions("orders", 0, 0) if "s2" not in a.parties}
        assert values(pull(consumer, 20)) == [b"%d" % number for number in range(20)]
        counts = consumer.metrics()
        assert counts.get("suspicions.s0", 0) + counts.get("suspicions.s1", 0) >= len(missing)
        assert "suspicions.s2" not in counts
    assert cluster.ledger.accusations() == {}
    key = cluster.ledger.key("alice", 0)
    assert key is not None and key.ending is None


@pytest.mark.parametrize("nearest", ["s0", "s1", "s2"])
def test_a_liar_close_by_is_always_met(nearest: str) -> None:
    """Whoever vouched: a lie is no matter of luck for a consumer that asks the liar first."""
    cluster = make_cluster()
    push_some(cluster)
    cluster.parties[nearest].fault = StorageFault.ALTER
    with consuming(cluster, nearest=nearest) as consumer:
        assert values(pull(consumer, 20)) == [b"%d" % number for number in range(20)]
        assert consumer.metrics()[f"suspicions.{nearest}"] >= 1


def test_a_forged_receipt_is_as_good_as_none() -> None:
    cluster = make_cluster()
    cluster.parties["s0"].fault = StorageFault.FORGE
    push_some(cluster)
    for admission in cluster.ledger.admissions("orders", 0, 0):
        assert admission.parties == ("s1", "s2")


def test_two_silent_parties_of_three_stop_the_producer_and_it_goes_on_when_one_comes_back() -> None:
    cluster = make_cluster()
    cluster.parties["s0"].fault = cluster.parties["s1"].fault = StorageFault.SILENT
    with producing(cluster) as producer:
        pushed = producer.push(Record("orders", b"x", partition=0))
        with pytest.raises(TimeoutError):
            pushed.result(0.2)
        cluster.parties["s0"].fault = None
        assert pushed.result(30).index == 0


def test_in_paper_mode_all_parties_must_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, cluster = Clock(monkeypatch), make_cluster(StorageMode.PAPER)
    with producing(cluster, delivery_timeout_ms=FOR_EVER_MS) as producer:
        assert producer.push(Record("orders", b"x", partition=0)).result(30).index == 0
        cluster.parties["s1"].fault = StorageFault.SILENT
        pushed = producer.push(Record("orders", b"y", partition=0))
        wait_until(lambda: producer.metrics()["stores"] > 4)  # s1 has not answered, and was asked again
        clock.jump(producer, FOR_EVER_MS)
        with pytest.raises(DeliveryTimeoutError, match="s1 does not answer"):
            pushed.result(30)
        cluster.parties["s1"].fault = None
        # What was signed is still sent: the next event comes after it.
        assert producer.push(Record("orders", b"z", partition=0)).result(30).index == 2


@pytest.mark.parametrize("fault", [ValidatorFault.SILENT, ValidatorFault.CENSOR, ValidatorFault.REFUSE])
def test_three_validators_of_four_cannot_censor_a_producer_or_a_consumer(fault: ValidatorFault) -> None:
    for honest in range(4):
        cluster = make_cluster()
        cluster.validator_faults = [fault] * 4
        cluster.validator_faults[honest] = None
        with (
            producing(cluster) as producer,
            consuming(cluster, group="g", submit_timeout_ms=20) as consumer,
        ):
            assert producer.push(Record("orders", b"x", partition=0)).result(30).index == 0
            assert values(pull(consumer, 1)) == [b"x"]


def test_a_correct_producer_asks_f_plus_one_validators_and_no_more() -> None:
    cluster = make_cluster()
    with producing(cluster, submit_timeout_ms=60_000) as producer:
        producer.push(Record("orders", b"x", partition=0)).result(30)
        assert producer.metrics()["submits"] == 2
    assert cluster.submits == 2


def test_a_hole_is_confessed_skipped_and_delivered_as_nothing() -> None:
    cluster = make_cluster()
    # More than F parties lie: both that vouch for the second batch keep nothing.
    with producing(cluster) as producer:
        producer.push(Record("orders", b"before", partition=0)).result(30)
        cluster.parties["s2"].fault = StorageFault.SILENT
        cluster.parties["s0"].fault = cluster.parties["s1"].fault = StorageFault.FORGET
        assert producer.push(Record("orders", b"lost", partition=0)).result(30).index == 1
        # s2 stays silent: it may be about to be asked once more to keep what is to be lost.
        cluster.parties["s0"].fault = cluster.parties["s1"].fault = None
        assert producer.push(Record("orders", b"after", partition=0)).result(30).index == 2
        with consuming(cluster) as consumer:
            events = pull(consumer, 2)
            assert [(event.index, event.value) for event in events] == [(0, b"before"), (2, b"after")]
            assert consumer.position(("orders", 0)) == 3
    assert set(cluster.ledger.accusations()) == {("storage", "s0"), ("storage", "s1")}
    with consuming(cluster) as late:
        assert values(pull(late, 2)) == [b"before", b"after"]


def test_a_hole_that_an_admin_orders_is_skipped_by_a_consumer_that_waits_for_it() -> None:
    cluster = make_cluster()
    push_some(cluster, 4)
    admissions = list(cluster.ledger.admissions("orders", 0, 0))
    for party in cluster.parties.values():
        party.fault = StorageFault.GARBAGE
    with consuming(cluster) as consumer:
        assert consumer.pull(0.1) == []
        hole = Hole("orders", 0, 0, admissions[0].digest)
        assert cluster.act("admin", hole) == Done()
        wait_until(lambda: consumer.metrics()["height"] == len(cluster.blocks))
        for party in cluster.parties.values():
            party.fault = None
        assert [event.index for event in pull(consumer, 2)] == [2, 3]


def test_more_holes_than_are_fetched_at_once_are_passed_over() -> None:
    cluster = make_cluster()
    push_some(cluster, 24)
    for admission in list(cluster.ledger.admissions("orders", 0, 0))[:-1]:
        assert cluster.act("admin", Hole("orders", 0, admission.first_index, admission.digest)) == Done()
    with consuming(cluster, prefetch_batches=4) as consumer:
        assert [event.index for event in pull(consumer, 2)] == [22, 23]


def test_reading_below_the_low_water_mark_is_a_clear_error() -> None:
    cluster = make_cluster()
    push_some(cluster)
    place = ("orders", 0)
    with consuming(cluster) as consumer:
        assert len(pull(consumer, 4)) == 4
        assert cluster.act("admin", LowWater("orders", 0, 10)) == Done()
        wait_until(lambda: consumer.metrics()["height"] == len(cluster.blocks))
        consumer.pause([place])
        consumer.resume([place])
        with pytest.raises(BelowLowWaterError, match="index 4 is below the low-water mark 10"):
            consumer.pull(0)
        with pytest.raises(BelowLowWaterError):
            consumer.seek(place, 9)
        assert consumer.beginning_offsets([place]) == {place: 10}
        consumer.seek_to_beginning()
        assert [event.index for event in pull(consumer, 10)] == list(range(10, 20))
    with consuming(cluster) as fresh:
        assert pull(fresh, 1)[0].index == 10


def test_reading_what_retention_released_is_a_clear_error() -> None:
    cluster = make_cluster()
    assert cluster.act("admin", SetRetention("orders", Retention(1, 0))) == Done()
    push_some(cluster, count=1)
    with consuming(cluster) as consumer:
        assert len(pull(consumer, 1)) == 1
        consumer.pause([("orders", 0)])
        push_some(cluster)
        wait_until(lambda: consumer.metrics()["height"] == len(cluster.blocks))
        consumer.resume([("orders", 0)])
        with pytest.raises(BelowLowWaterError, match="below the low-water mark"):
            consumer.pull(0)


def test_an_unvalidated_topic_waits_for_its_party() -> None:
    cluster = make_cluster()
    party = cluster.parties[Memberships(cluster.genesis.members).party_of("logs")]
    party.fault = StorageFault.SILENT
    with producing(cluster) as producer, consuming(cluster, ["logs"], validate=False) as consumer:
        pushed = [producer.push(Record("logs", b"%d" % number)) for number in range(3)]
        with pytest.raises(TimeoutError):
            pushed[0].result(0.1)
        party.fault = None
        assert [each.result(30).index for each in pushed] == [0, 1, 2]
        assert values(pull(consumer, 3)) == [b"0", b"1", b"2"]


def test_an_unvalidated_event_that_was_given_up_does_not_block_those_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, cluster = Clock(monkeypatch), make_cluster()
    party = cluster.parties[Memberships(cluster.genesis.members).party_of("logs")]
    with producing(cluster, delivery_timeout_ms=FOR_EVER_MS) as producer:
        party.fault = StorageFault.SILENT
        pushed = producer.push(Record("logs", b"lost"))
        wait_until(lambda: producer.metrics()["pushed"] == 1)  # it is on its way
        clock.jump(producer, FOR_EVER_MS)
        with pytest.raises(DeliveryTimeoutError):
            pushed.result(30)
        party.fault = None
        assert producer.push(Record("logs", b"kept")).result(30).index == 0
