"""An epoch is pushed exactly once, wherever the driver dies and whatever it is handed the next time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.kabis.client.world import make_cluster, producing, wait_until
from tests.kabis.spark.test_fetch import read_all, watching
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client.consumed import Consumed
from veristream.kabis.client.errors import UnknownTopicError
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.protocol.records import Record, encode_leaf
from veristream.kabis.protocol.transactions import Submit, decode_transaction
from veristream.kabis.spark import deliver as delivery
from veristream.kabis.spark.deliver import Check, Staged, check_there, deliver
from veristream.kabis.spark.outbox import Epoch, Outbox, Posted
from veristream_testing.simulation.memory import MemoryCluster


class Died(BaseException):
    """Stands for `kill -9`: nothing catches it."""


def rows(first: int, count: int, topic: str = "orders") -> list[Staged]:
    return [
        Staged(topic, None, encode_leaf(b"key %d" % (number % 5), b"%d" % number))
        for number in range(first, first + count)
    ]


def numbers(events: list[Consumed]) -> list[int]:
    return [int(event.value or b"") for event in events]


@contextmanager
def running(
    cluster: MemoryCluster, folder: Path, name: str = "alice"
) -> Iterator[tuple[KabisProducer, Check]]:
    """One run of a driver: a producer with the journal in the folder, and a look at the ledger."""
    journal = folder / "journal"
    journal.mkdir(exist_ok=True)
    with (
        watching(cluster, "orders") as watch,
        producing(cluster, name, journal, batch_events=2) as producer,
    ):
        yield producer, partial(check_there, watch, name)


def run(cluster: MemoryCluster, folder: Path, number: int, given: list[Staged]) -> int:
    with running(cluster, folder) as (producer, check):
        return deliver(producer, Outbox(folder / "outbox"), number, given, check)


def test_epochs_follow_one_another(tmp_path: Path) -> None:
    cluster = make_cluster()
    assert [run(cluster, tmp_path, number, rows(10 * number, 10)) for number in (0, 1, 3)] == [10, 10, 10]
    events = read_all(cluster, "orders")
    assert sorted(numbers(events)) == [*range(20), *range(30, 40)]
    for partition in (0, 1):
        here = numbers([event for event in events if event.partition == partition])
        assert here == sorted(here)
        assert here
    assert Outbox(tmp_path / "outbox").load() == Epoch(3, finished=True)


def test_an_epoch_that_was_done_is_not_pushed_again(tmp_path: Path) -> None:
    cluster = make_cluster()
    assert [run(cluster, tmp_path, number, rows(0, 10)) for number in (4, 4, 3, 0)] == [10, 0, 0, 0]
    assert sorted(numbers(read_all(cluster, "orders"))) == list(range(10))


@pytest.mark.parametrize("survived", [0, 1, 7, 20])
@pytest.mark.parametrize("again", [(5, 20), (7, 3), (0, 0)])
def test_a_driver_that_dies_while_it_pushes_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survived: int, again: tuple[int, int]
) -> None:
    """What it is handed the second time does not count: the rows of the first time were promised."""
    cluster = make_cluster()
    true_push = delivery.push

    def die(producer: KabisProducer, events: tuple[Posted, ...]) -> None:
        true_push(producer, events[:survived])
        raise Died

    assert run(cluster, tmp_path, 0, rows(0, 5)) == 5
    with monkeypatch.context() as patched:
        patched.setattr(delivery, "push", die)
        with pytest.raises(Died):
            run(cluster, tmp_path, 1, rows(5, 20))
    assert len(read_all(cluster, "orders")) == 5 + survived
    assert run(cluster, tmp_path, 1, rows(*again)) == 20 - survived
    assert run(cluster, tmp_path, 2, rows(25, 5)) == 5
    events = read_all(cluster, "orders")
    assert sorted(numbers(events)) == list(range(30))
    for partition in (0, 1):
        here = numbers([event for event in events if event.partition == partition])
        assert here == sorted(here)


def two_digits() -> list[Staged]:
    return [Staged("orders", 0, encode_leaf(b"k", b"%d" % number)) for number in range(10, 30)]


def submitted(cluster: MemoryCluster) -> set[int]:
    """The first sequence numbers of the batches that wait for a block."""
    with cluster.lock:
        waiting = [decode_transaction(each) for each in cluster.mempool]
    return {each.signed.header.first_sequence for each in waiting if isinstance(each, Submit)}


def test_what_was_signed_and_not_yet_admitted_is_not_pushed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies when batches have left, and the validators order them only when the next one runs."""
    cluster = make_cluster(at_once=False)

    def die(producer: KabisProducer, events: tuple[Posted, ...]) -> None:
        for topic, partition, leaf in events[:6]:
            event = delivery.decode_leaf(leaf)
            producer.push(Record(topic, event.value, event.key, partition=partition))
        with pytest.raises(TimeoutError):
            producer.flush(timeout=0.0)
        wait_until(lambda: submitted(cluster) == {0, 2, 4})  # all are signed, and have left
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(delivery, "push", die)
        with pytest.raises(Died):
            run(cluster, tmp_path, 0, two_digits())
    assert cluster.ledger.partition("orders", 0).next_index == 0
    cluster.at_once = True
    assert run(cluster, tmp_path, 0, []) == 14
    assert numbers(read_all(cluster, "orders")) == list(range(10, 30))


@pytest.mark.parametrize("moment", ["stage", "save", "finish"])
def test_it_may_die_between_the_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    cluster = make_cluster()
    saves = 0
    true_save = Outbox.save

    def save(outbox: Outbox, epoch: Epoch) -> None:
        nonlocal saves
        saves += 1
        if moment == "stage" or (moment == "finish" and saves == 2):
            raise Died
        true_save(outbox, epoch)
        if moment == "save":
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(Outbox, "save", save)
        with pytest.raises(Died):
            run(cluster, tmp_path, 0, rows(0, 10))
    pushed_again = {"stage": 10, "save": 10, "finish": 0}[moment]
    assert run(cluster, tmp_path, 0, rows(0, 10)) == pushed_again
    assert sorted(numbers(read_all(cluster, "orders"))) == list(range(10))


def test_a_stranger_under_our_name_is_an_error_and_not_a_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster()

    def die(producer: KabisProducer, events: tuple[Posted, ...]) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(delivery, "push", die)
        with pytest.raises(Died):
            run(cluster, tmp_path, 0, rows(0, 10))
    with producing(cluster) as producer:
        for partition in (0, 1):
            producer.push(Record("orders", b"hello", partition=partition))
    with pytest.raises(ModelError, match="another process has pushed to orders-0 as alice"):
        run(cluster, tmp_path, 0, rows(0, 10))


def test_events_of_topics_that_are_not_validated_come_at_least_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster()
    true_push = delivery.push

    def die(producer: KabisProducer, events: tuple[Posted, ...]) -> None:
        true_push(producer, events[:6])
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(delivery, "push", die)
        with pytest.raises(Died):
            run(cluster, tmp_path, 0, rows(0, 10, "logs"))
    assert run(cluster, tmp_path, 0, rows(0, 10, "logs")) == 10
    assert numbers(read_all(cluster, "logs", validate=False)) == [*range(6), *range(10)]


def test_rows_choose_their_partition(tmp_path: Path) -> None:
    cluster = make_cluster()
    given = [Staged("orders", number % 2, encode_leaf(None, b"%d" % number)) for number in range(4)]
    given += [Staged("orders", None, encode_leaf(None, b"%d" % number)) for number in range(4, 8)]
    run(cluster, tmp_path, 0, given)
    events = read_all(cluster, "orders")
    assert [(event.partition, event.index, event.value) for event in events] == [
        (partition, index, b"%d" % (2 * index + partition)) for partition in (0, 1) for index in range(4)
    ]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (Staged("orders", 2, encode_leaf(None, b"x")), "orders: there is no partition 2"),
        (Staged("nowhere", None, encode_leaf(None, b"x")), "nowhere: no such topic"),
    ],
)
def test_a_row_that_goes_nowhere_stops_the_epoch_before_it_begins(
    tmp_path: Path, wrong: Staged, told: str
) -> None:
    cluster = make_cluster()
    with pytest.raises(UnknownTopicError, match=told):
        run(cluster, tmp_path, 0, [*rows(0, 3), wrong])
    assert read_all(cluster, "orders") == []
    assert Outbox(tmp_path / "outbox").load() is None


def test_an_outbox_that_is_not_whole_is_told(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "box" / "one")
    assert outbox.load() is None
    epoch = Epoch(7, False, ((("orders", 1), 5),), (Posted("orders", 1, encode_leaf(b"k", b"v")),))
    outbox.save(epoch)
    assert outbox.load() == epoch
    assert epoch.lane(("orders", 1)) == [encode_leaf(b"k", b"v")]
    outbox.path.write_bytes(epoch.encode()[:-1])
    with pytest.raises(EnvironmentFailure, match="cannot be read: truncated"):
        outbox.load()
