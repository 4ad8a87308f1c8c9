"""Consumer groups, positions and commits."""

from __future__ import annotations

import pytest

from tests.kabis.client.world import (
    FOR_EVER_MS,
    consuming,
    make_cluster,
    producing,
    pull,
    values,
    wait_until,
)
from veristream.kabis.client.errors import (
    CommitRefusedError,
    NoGroupError,
    NoRightError,
    NotAssignedError,
    UnknownTopicError,
)
from veristream.kabis.client.options import Start
from veristream.kabis.protocol.actions import Grant, Operation, Resource, Revoke, Rule, SetTopic
from veristream.kabis.protocol.outcomes import Done
from veristream.kabis.protocol.records import Record
from veristream.kabis.protocol.transactions import Evict
from veristream_testing.simulation.memory import MemoryCluster

EVERYTHING = {("orders", 0), ("orders", 1)}


def push_both(cluster: MemoryCluster, count: int, prefix: bytes = b"") -> None:
    """So many events to each partition of `orders`."""
    with producing(cluster, batch_events=3) as producer:
        for number in range(count):
            for partition in (0, 1):
                producer.push(Record("orders", b"%s%d" % (prefix, number), partition=partition))
        producer.flush(30)


def test_two_members_share_the_partitions_and_one_alone_gets_all_back() -> None:
    cluster = make_cluster()
    push_both(cluster, 4)
    with consuming(cluster, group="g", instance="1", auto_commit_ms=None) as first:
        wait_until(lambda: first.assignment() == EVERYTHING)
        with consuming(cluster, group="g", instance="2", auto_commit_ms=None) as second:
            wait_until(lambda: len(first.assignment()) == 1 == len(second.assignment()))
            assert first.assignment() | second.assignment() == EVERYTHING
            (mine,) = second.assignment()
            events = pull(second, 4)
            assert {(event.topic, event.partition) for event in events} == {mine}
            second.commit()
            assert second.committed(mine) == 4
            with pytest.raises(NotAssignedError):
                second.position(next(iter(first.assignment())))
        wait_until(lambda: first.assignment() == EVERYTHING)
        wait_until(lambda: first.position(mine) == 4)
        assert first.committed(mine) == 4


def test_commits_survive_a_restart() -> None:
    cluster = make_cluster()
    push_both(cluster, 5)
    with consuming(cluster, group="g", auto_commit_ms=None) as consumer:
        seen = pull(consumer, 6)
        consumer.commit()
        seen += pull(consumer, 2)  # pulled and not committed: delivered once more
    with consuming(cluster, group="g", auto_commit_ms=None) as consumer:
        again = pull(consumer, 4)
        assert consumer.pull(0.1) == []
    assert sorted((e[0], e.partition) for e in {*seen[:6], *again}) == [
        (index, partition) for index in range(5) for partition in (0, 1)
    ]
    with consuming(cluster, group="another") as consumer:
        assert len(pull(consumer, 10)) == 10


def test_automatic_commits_are_made_at_the_end() -> None:
    cluster = make_cluster()
    push_both(cluster, 5)
    with consuming(cluster, group="g") as consumer:
        assert len(pull(consumer, 10)) == 10
    assert [cluster.ledger.committed("g", "orders", partition) for partition in (0, 1)] == [5, 5]
    with consuming(cluster, group="g") as consumer:
        assert consumer.pull(0.1) == []


def test_automatic_commits_take_only_what_an_earlier_pull_gave() -> None:
    cluster = make_cluster()
    push_both(cluster, 5)
    with consuming(cluster, group="g", auto_commit_ms=20) as consumer:
        pull(consumer, 10)
        assert consumer.pull(0.1) == []
        wait_until(lambda: consumer.committed(("orders", 0)) == 5)


def test_a_member_that_lost_a_partition_cannot_commit_it() -> None:
    cluster = make_cluster()
    push_both(cluster, 2)
    with consuming(cluster, group="g", instance="1", auto_commit_ms=None) as first:
        assert len(pull(first, 4)) == 4
        with consuming(cluster, group="g", instance="2", auto_commit_ms=None) as second:
            wait_until(lambda: len(first.assignment()) == 1 == len(second.assignment()))
            (lost,) = second.assignment()
            with pytest.raises(CommitRefusedError, match="assigned to another member"):
                first.commit({lost: 2})
            (kept,) = first.assignment()
            first.commit({kept: 1})
            assert cluster.ledger.committed("g", *kept) == 1
            with pytest.raises(CommitRefusedError, match="out of range"):
                first.commit({kept: 3})


def test_a_member_that_has_gone_silent_is_taken_out_by_the_others() -> None:
    cluster = make_cluster()
    push_both(cluster, 2)
    gone = consuming(cluster, group="g", instance="1", session_ms=60_000)
    with gone as silent, consuming(cluster, group="g", instance="2", session_ms=2_000_000) as other:
        wait_until(lambda: len(silent.assignment()) == 1 == len(other.assignment()))
        with silent._inner._driver.lock:
            silent._inner._core._topics = ()  # it neither speaks nor leaves
        cluster.clock_ms += 70_000
        assert cluster.act("admin", SetTopic("tick", 1, validated=True)) == Done()
        wait_until(lambda: other.assignment() == EVERYTHING)
        assert [member.instance for member in cluster.ledger.group("g").members] == ["2"]


def test_a_member_that_lost_its_right_is_taken_out_at_once_and_told() -> None:
    cluster = make_cluster()
    rules = [Rule(Resource.GROUP, "g", Operation.READ, name) for name in ("alice", "bob")]
    for rule in rules:
        assert cluster.act("admin", Grant(rule)) == Done()
    with (
        consuming(cluster, name="alice", group="g", session_ms=2_000_000) as loser,
        consuming(cluster, name="bob", group="g", session_ms=2_000_000) as other,
    ):
        wait_until(lambda: len(loser.assignment()) == 1 == len(other.assignment()))
        assert cluster.act("admin", Revoke(rules[0])) == Done()
        wait_until(lambda: other.assignment() == EVERYTHING)
        assert [member.name for member in cluster.ledger.group("g").members] == ["bob"]
        with pytest.raises(NoRightError, match="alice needs read on the group g"):
            wait_until(lambda: bool(loser.pull(0.01)))


def test_a_member_that_was_taken_out_by_mistake_joins_again() -> None:
    cluster = make_cluster()
    with consuming(cluster, group="g", session_ms=1_000_000) as consumer:
        wait_until(lambda: consumer.assignment() == EVERYTHING)
        generation = cluster.ledger.group("g").generation
        cluster.clock_ms += 3_000_000
        cluster.submit(Evict("g", "bob", "0").encode())
        wait_until(lambda: cluster.ledger.group("g").generation >= generation + 2)
        wait_until(lambda: consumer.assignment() == EVERYTHING)


def test_members_say_that_they_are_alive() -> None:
    cluster = make_cluster()
    with consuming(cluster, group="g", session_ms=60_000) as consumer:
        wait_until(lambda: consumer.assignment() == EVERYTHING)
        joined_ms = cluster.ledger.group("g").members[0].seen_ms
        cluster.clock_ms += 30_000
        assert cluster.act("admin", SetTopic("tick", 1, validated=True)) == Done()
        wait_until(lambda: cluster.ledger.group("g").members[0].seen_ms > joined_ms)


def test_instances_of_one_client_do_not_lose_actions_to_each_other() -> None:
    cluster = make_cluster(at_once=False)
    first = consuming(cluster, group="g", instance="1", submit_timeout_ms=20, auto_commit_ms=None)
    second = consuming(cluster, group="g", instance="2", submit_timeout_ms=20, auto_commit_ms=None)
    with first, second:
        wait_until(lambda: len(cluster.mempool) == 2)  # two actions with one number

        def joined() -> bool:
            cluster.make_block()
            return len(cluster.ledger.group("g").members) == 2

        wait_until(joined)
        cluster.at_once = True


def test_partitions_that_are_added_are_read_too() -> None:
    cluster = make_cluster()
    with (
        consuming(cluster) as alone,
        consuming(cluster, group="g") as grouped,
        producing(cluster) as producer,
    ):
        wait_until(lambda: alone.assignment() == EVERYTHING == grouped.assignment())
        assert producer.partitions_for("orders") == 2
        assert cluster.act("admin", SetTopic("orders", 3, validated=True)) == Done()
        wait_until(lambda: producer.partitions_for("orders") == 3)
        assert producer.push(Record("orders", b"new", partition=2)).result(30).index == 0
        assert values(pull(alone, 1)) == [b"new"] == values(pull(grouped, 1))


@pytest.mark.parametrize("validate", [True, False])
def test_positions_can_be_moved(validate: bool) -> None:
    cluster = make_cluster()
    push_both(cluster, 10)
    here, there = ("orders", 0), ("orders", 1)
    with consuming(cluster, validate=validate) as consumer:
        consumer.pause([there])
        assert consumer.paused() == {there}
        assert [event.index for event in pull(consumer, 10)] == list(range(10))
        assert consumer.pull(0.05) == []
        assert consumer.position(here) == 10
        consumer.seek(here, 4)
        assert [event.index for event in pull(consumer, 6)] == list(range(4, 10))
        consumer.seek_to_beginning([here])
        assert pull(consumer, 1)[0].index == 0
        consumer.seek_to_end()
        consumer.resume([there])
        wait_until(lambda: consumer.position(here) == 10 == consumer.position(there))
        assert consumer.pull(0.1) == []
        push_both(cluster, 1, b"late")
        assert sorted((event.index, event.value) for event in pull(consumer, 2)) == [(10, b"late0")] * 2
        assert consumer.beginning_offsets([here]) == {here: 0}
        assert consumer.end_offsets([here, there]) == {here: 11, there: 11}


def test_a_consumer_may_begin_at_the_end() -> None:
    cluster = make_cluster()
    push_both(cluster, 3)
    for validate in (True, False):
        with consuming(cluster, start=Start.END, validate=validate) as consumer:
            wait_until(lambda consumer=consumer: consumer.assignment() == EVERYTHING)  # type: ignore[misc]
            wait_until(lambda consumer=consumer: consumer.position(("orders", 0)) is not None)  # type: ignore[misc]
            wait_until(lambda consumer=consumer: consumer.position(("orders", 1)) is not None)  # type: ignore[misc]
            push_both(cluster, 1, b"new")
            assert values(pull(consumer, 2)) == [b"new0", b"new0"]


def test_offsets_for_times_go_by_the_time_of_the_block() -> None:
    cluster = make_cluster()
    place = ("orders", 0)
    with (
        producing(cluster, batch_events=2, linger_ms=FOR_EVER_MS) as producer,
        consuming(cluster) as consumer,
    ):
        times = []
        for number in range(3):
            cluster.clock_ms += 1000
            pushed = [
                producer.push(Record("orders", b"%d" % number, partition=0, timestamp_ms=5)) for _ in "ab"
            ]
            times.append(pushed[1].result(30).time_ms)
        events = pull(consumer, 6)
        assert [event.time_ms for event in events] == [time for time in times for _ in "ab"]
        assert {event.timestamp_ms for event in events} == {5}
        for number, time_ms in enumerate(times):
            assert time_ms is not None
            assert consumer.offsets_for_times({place: time_ms}) == {place: 2 * number}
        assert times[2] is not None
        assert consumer.offsets_for_times({place: times[2] + 1}) == {place: None}


def test_what_makes_no_sense_is_a_clear_error() -> None:
    cluster = make_cluster()
    with consuming(cluster) as consumer, producing(cluster) as producer:
        with pytest.raises(NoGroupError):
            consumer.commit()
        with pytest.raises(NotAssignedError):
            consumer.seek(("elsewhere", 0), 0)
        with pytest.raises(UnknownTopicError):
            consumer.end_offsets([("elsewhere", 0)])
        with pytest.raises(UnknownTopicError, match="elsewhere"):
            producer.push(Record("elsewhere", b"x"))
        with pytest.raises(UnknownTopicError, match="no partition 2"):
            producer.push(Record("orders", b"x", partition=2))
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        consumer.assign([("orders", 1)])
        assert consumer.assignment() == {("orders", 1)}
