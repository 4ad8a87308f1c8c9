"""A recorded channel over a pika channel that answers as it is told: what becomes of each outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, NackError, StreamLostError, UnroutableError

from tests.unit.recording.histories import read_back
from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.events import NONE, Event
from veristream.history.manifest import Manifest, Stream
from veristream.recording.digest import digest
from veristream.recording.rabbitmq import channel as module
from veristream.recording.rabbitmq.channel import RecordedChannel, record
from veristream.recording.recording import Recording


class Pika:
    """A channel of pika: delivers what it is given, and raises what it is told, once."""

    def __init__(self) -> None:
        self.is_open = True
        self._delivery_confirmation = False
        self.raises: Exception | None = None
        self.published: list[tuple[str, str, bytes, pika.BasicProperties, bool]] = []
        self.said: list[str] = []
        self.waiting: list[tuple[Any, Any, bytes]] = []
        self.others = 0
        self.callback: Callable[..., None] | None = None

    def _do(self, what: str) -> None:
        self.said.append(what)
        if self.raises is not None:
            error, self.raises = self.raises, None
            if not isinstance(error, NackError | UnroutableError):
                self.is_open = False
            raise error

    def confirm_delivery(self) -> None:
        self._do("confirm")

    def basic_publish(self, exchange: str, key: str, body: bytes, properties: Any, mandatory: bool) -> None:
        self.published.append((exchange, key, body, properties, mandatory))
        self._do("publish")

    def basic_qos(self, size: int, number: int, whole: bool) -> None:
        self._do(f"qos {number} {whole}")

    def basic_consume(self, queue: str, callback: Callable[..., None], auto_ack: bool) -> str:
        self._do(f"consume {queue}")
        self.callback = callback
        return f"tag-{len(self.said)}"

    def consume(self, queue: str, auto_ack: bool, **_: Any) -> Iterator[Any]:
        yield from self.waiting
        yield (None, None, None)

    def cancel(self) -> int:
        return 0

    def basic_cancel(self, tag: str) -> None:
        self._do(f"cancel {tag}")

    def basic_get(self, queue: str, auto_ack: bool) -> tuple[Any, Any, bytes | None]:
        self._do("get")
        return self.waiting.pop(0) if self.waiting else (None, None, None)

    def basic_ack(self, tag: int, multiple: bool) -> None:
        self._do(f"ack {tag} {multiple}")

    def basic_nack(self, tag: int, multiple: bool, requeue: bool) -> None:
        self._do(f"nack {tag} {multiple} {requeue}")

    def basic_reject(self, tag: int, requeue: bool) -> None:
        self._do(f"reject {tag} {requeue}")

    def basic_recover(self, requeue: bool) -> None:
        self._do("recover")

    def queue_declare(self, queue: str, passive: bool, **_: Any) -> Any:
        self._do(f"declare {queue}")
        return SimpleNamespace(
            method=SimpleNamespace(message_count=len(self.waiting), consumer_count=self.others)
        )

    def queue_bind(self, queue: str, exchange: str, key: str | None) -> None:
        self._do("bind")

    def start_consuming(self) -> None:
        self._do("start")

    def exchange_declare(self, exchange: str) -> str:
        return exchange

    def close(self) -> None:
        self._do("close")
        self.is_open = False


def delivery(
    tag: int,
    number: int = NONE,
    *,
    redelivered: bool = False,
    headers: dict[str, Any] | None = None,
    place: tuple[str, str] = ("", "orders"),
) -> tuple[Any, Any, bytes]:
    named = {"veristream-id": f"vs:7:{number}"} if number != NONE else {}
    method = SimpleNamespace(
        delivery_tag=tag, redelivered=redelivered, exchange=place[0], routing_key=place[1]
    )
    return method, pika.BasicProperties(headers={**named, **(headers or {})} or None), b"body"


class Bench:
    """A recorded channel, pika's below it, and the history that it wrote."""

    def __init__(self, folder: Path, *, trusting: bool = False) -> None:
        self.folder = folder / "history"
        self.recording = Recording(self.folder, "rabbitmq")
        self.pika = Pika()
        self.channel: RecordedChannel = record(
            self.pika, self.recording, "client", node="rabbit-1", trusting=trusting
        )

    def read(self) -> tuple[Manifest, list[Event]]:
        self.recording.close(complete=True)
        return read_back(self.folder)

    def said(self) -> list[str]:
        """Returns each event but its INVOKE, with the number of its message."""
        _, events = self.read()
        return [
            f"{each.operation.name} {each.outcome.name} {each.number} {each.error}".strip()
            for each in events
            if each.outcome.name != "INVOKE"
        ]

    def deliver(self, *found: tuple[Any, Any, bytes]) -> None:
        """Delivers to the consumer."""
        assert self.pika.callback is not None
        for method, properties, body in found:
            self.pika.callback(self.pika, method, properties, body)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.recording.close(complete=True)


def ignore(*_: object) -> None:
    pass


def test_a_confirmed_message_is_acknowledged_and_says_which_it_is(bench: Bench) -> None:
    given = pika.BasicProperties(delivery_mode=2, headers={"k": 1})
    bench.channel.confirm_delivery()
    bench.channel.basic_publish("", "orders", b"one", given, True)
    bench.channel.basic_publish("", "orders", b"two")
    assert given.headers == {"k": 1}
    (one, two) = bench.pika.published
    assert (one[0], one[1], one[2], one[4]) == ("", "orders", b"one", True)
    assert one[3].headers == {"k": 1, "veristream-id": "vs:0:0"}
    assert (one[3].delivery_mode, two[3].headers) == (2, {"veristream-id": "vs:0:1"})
    manifest, events = bench.read()
    assert manifest.streams == (Stream("orders", offsets=False),)
    assert manifest.nodes == ("rabbit-1",)
    assert [(each.operation.name, each.outcome.name, each.number) for each in events] == [
        ("SEND", "INVOKE", 0), ("SEND", "OK", 0), ("SEND", "INVOKE", 1), ("SEND", "OK", 1),
    ]  # fmt: skip
    assert {(each.stream, each.partition, each.producer, each.node, each.group) for each in events} == {
        (0, 0, 0, 0, NONE)
    }
    assert events[0].digest == digest(b"one")


def test_a_message_that_is_sent_again_is_the_same_message(bench: Bench) -> None:
    """Its name is for one publish; those that come later have names of their own."""
    bench.channel.basic_publish("", "orders", b"one")
    bench.channel.send_again(7, 3)
    assert bench.channel.published == 1
    bench.channel.basic_publish("", "orders", b"again")
    bench.channel.basic_publish("", "orders", b"two")
    assert bench.channel.published == 2
    names = [each[3].headers["veristream-id"] for each in bench.pika.published]
    assert names == ["vs:0:0", "vs:7:3", "vs:0:1"]
    _, events = bench.read()
    sent = [(each.process, each.producer, each.number) for each in events if each.outcome.name == "INVOKE"]
    assert sent == [(0, 0, 0), (0, 7, 3), (0, 0, 1)]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (UnroutableError([]), "SEND FAIL 0 unroutable"),
        (NackError([]), "SEND INDEFINITE 0 nack"),
        (StreamLostError("gone"), "SEND INDEFINITE 0 StreamLostError"),
        (ChannelClosedByBroker(404, "no queue"), "SEND INDEFINITE 0 ChannelClosedByBroker"),
    ],
)
def test_what_a_publish_that_is_not_confirmed_says(bench: Bench, error: Exception, outcome: str) -> None:
    """Only a returned message is certainly nowhere. pika's error reaches its user."""
    bench.channel.confirm_delivery()
    bench.pika.raises = error
    with pytest.raises(type(error)):
        bench.channel.basic_publish("", "orders", b"x", mandatory=True)
    closed = [] if bench.pika.is_open else ["CLOSE OK -1"]
    assert sorted(bench.said()) == sorted([outcome, *closed])


@pytest.mark.parametrize(
    ("trusting", "said"), [(False, "SEND INDEFINITE 0 not confirmed"), (True, "SEND OK 0")]
)
def test_without_confirms_only_a_trusting_client_takes_it_for_sent(
    tmp_path: Path, trusting: bool, said: str
) -> None:
    bench = Bench(tmp_path, trusting=trusting)
    bench.channel.basic_publish("", "orders", b"x")
    assert bench.said() == [said]


def test_deliveries_and_their_attempts(bench: Bench) -> None:
    seen: list[tuple[object, int]] = []
    bench.channel.basic_consume(
        "orders", lambda found, method, _, __: seen.append((found, method.delivery_tag))
    )
    bench.deliver(
        delivery(1, 5),
        delivery(2, 6, redelivered=True),
        delivery(3, 7, redelivered=True, headers={"x-delivery-count": 3}),
        delivery(4, 8, headers={"x-delivery-count": 0}),
        delivery(5),
        delivery(6, headers={"veristream-id": b"vs:1:2"}),
        delivery(7, headers={"veristream-id": "vs:1"}),
        delivery(8, 9, headers={"x-death": [{"queue": "others"}]}),
    )
    assert seen == [(bench.channel, tag) for tag in range(1, 9)]
    _, events = bench.read()
    assert [(each.producer, each.number, each.attempt) for each in events] == [
        (7, 5, 1), (7, 6, 2), (7, 7, 4), (7, 8, 1), (NONE, NONE, 1), (1, 2, 1), (NONE, NONE, 1),
    ]  # fmt: skip
    assert {(each.operation.name, each.outcome.name, each.digest) for each in events} == {
        ("RECEIVE", "OK", digest(b"body"))
    }


def consumed(bench: Bench, *tags: int) -> None:
    """Delivers messages 1, 2, ... with these tags."""
    bench.channel.basic_consume("orders", ignore)
    bench.deliver(*(delivery(tag, number) for number, tag in enumerate(tags, 1)))


def answers(bench: Bench) -> list[str]:
    return [each for each in bench.said() if each.startswith(("ACK", "REJ"))]


def test_an_acknowledgement_is_certain_once_its_queue_has_answered(bench: Bench) -> None:
    consumed(bench, 1, 2, 3)
    bench.channel.basic_ack(2)
    bench.channel.queue_declare("other")
    bench.channel.settle()
    bench.channel.basic_ack(1)
    bench.channel.abandon()
    assert bench.pika.said == [
        "consume orders",
        "ack 2 False",
        "declare other",
        "declare orders",
        "ack 1 False",
    ]
    assert answers(bench) == ["ACKNOWLEDGE OK 2", "ACKNOWLEDGE INDEFINITE 1 abandoned"]


def test_several_are_acknowledged_at_once(bench: Bench) -> None:
    """Up to and with the tag, but not what was answered before; tag 0 means all."""
    consumed(bench, 1, 2, 3, 4, 5)
    bench.channel.basic_ack(2)
    bench.channel.basic_ack(3, multiple=True)
    bench.channel.settle()
    bench.channel.basic_nack(0, multiple=True)
    bench.channel.basic_ack(9, multiple=True)
    bench.channel.close()
    assert answers(bench) == [
        "ACKNOWLEDGE OK 2", "ACKNOWLEDGE OK 1", "ACKNOWLEDGE OK 3", "REJECT OK 4", "REJECT OK 5",
    ]  # fmt: skip


def test_what_is_not_given_back_is_acknowledged(bench: Bench) -> None:
    """It will not come again from this queue; what is given back will."""
    consumed(bench, 1, 2, 3, 4, 5)
    bench.channel.basic_nack(1, requeue=False)
    bench.channel.basic_reject(2, requeue=False)
    bench.channel.basic_reject(3)
    bench.channel.basic_nack(4)
    bench.channel.basic_recover(True)
    bench.channel.settle()
    assert answers(bench) == [
        "ACKNOWLEDGE OK 1", "ACKNOWLEDGE OK 2", "REJECT OK 3", "REJECT OK 4", "REJECT OK 5",
    ]  # fmt: skip


def test_a_connection_that_ends_leaves_acknowledgements_indefinite(bench: Bench) -> None:
    consumed(bench, 1, 2)
    bench.channel.basic_ack(1)
    bench.pika.raises = StreamLostError("gone")
    with pytest.raises(StreamLostError):
        bench.channel.settle()
    bench.channel.abandon()
    assert bench.said() == [
        "RECEIVE OK 1", "RECEIVE OK 2", "ACKNOWLEDGE INDEFINITE 1 StreamLostError", "CLOSE OK -1"
    ]  # fmt: skip


def test_an_unknown_delivery_is_not_recorded(bench: Bench) -> None:
    consumed(bench, 1)
    bench.channel.basic_ack(1)
    bench.channel.basic_ack(1)
    bench.channel.settle()
    assert answers(bench) == ["ACKNOWLEDGE OK 1"]


def test_what_needs_no_acknowledgement_has_none(bench: Bench) -> None:
    bench.channel.basic_qos(prefetch_count=1)
    bench.channel.basic_consume("orders", ignore, auto_ack=True)
    bench.deliver(delivery(1, 1), delivery(2, 2))
    bench.channel.close()
    assert bench.said() == ["RECEIVE OK 1", "RECEIVE OK 2", "CLOSE OK -1"]


def test_the_prefetch_is_told_before_what_it_limits(bench: Bench) -> None:
    bench.channel.basic_qos(prefetch_count=3)
    consumed(bench, 1)
    bench.channel.basic_qos(prefetch_count=2)
    bench.channel.basic_consume("orders", ignore)  # a second consumer, with 2 of its own
    assert bench.said() == ["READY OK 3", "RECEIVE OK 1", "READY OK 5"]


def test_a_generator_yields_what_pika_yields(bench: Bench) -> None:
    bench.channel.basic_qos(prefetch_count=3)
    bench.pika.waiting = [delivery(1, 1), delivery(2, 2)]
    found = [method and method.delivery_tag for method, _, _ in bench.channel.consume("orders")]
    assert found == [1, 2, None]
    assert bench.channel.cancel() == 0
    assert bench.said() == ["READY OK 3", "RECEIVE OK 1", "RECEIVE OK 2"]


def test_a_queue_is_read_to_its_end(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.pika.waiting = [delivery(1, 1), delivery(2, 2)]
    assert bench.channel.drain("orders", quiet_s=0.0) == 2
    _, events = bench.read()
    assert [(each.operation.name, each.outcome.name, each.number) for each in events] == [
        ("READ_TO_END", "INVOKE", NONE),
        ("RECEIVE", "OK", 1), ("ACKNOWLEDGE", "INVOKE", 1),
        ("RECEIVE", "OK", 2), ("ACKNOWLEDGE", "INVOKE", 2),
        ("ACKNOWLEDGE", "OK", 1), ("ACKNOWLEDGE", "OK", 2),
        ("READ_TO_END", "OK", NONE),
    ]  # fmt: skip
    assert {each.partition for each in events} == {0}


def test_a_queue_that_somebody_consumes_is_not_read_to_its_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRAIN_PATIENCE_S", 0.0)
    bench.pika.others = 1
    with pytest.raises(EnvironmentFailure, match="it still has 1 consumers"):
        bench.channel.drain("orders", quiet_s=0.0)
    assert bench.said() == ["READ_TO_END FAIL -1 EnvironmentFailure"]


def test_reading_fails_with_its_connection(bench: Bench) -> None:
    bench.pika.raises = StreamLostError("gone")
    with pytest.raises(StreamLostError):
        bench.channel.drain("orders")
    assert sorted(bench.said()) == ["CLOSE OK -1", "READ_TO_END FAIL -1 StreamLostError"]


def test_every_queue_of_an_exchange_is_a_group_of_its_stream(bench: Bench) -> None:
    bench.channel.queue_bind("audit", "sales", "eu")
    bench.channel.basic_publish("sales", "eu", b"x")
    bench.channel.basic_consume("orders", ignore)
    bench.deliver(delivery(1, 1, place=("sales", "eu")), delivery(2, 2))
    bench.channel.drain("audit", quiet_s=0.0)
    manifest, events = bench.read()
    streams, groups = [each.name for each in manifest.streams], manifest.groups
    found = {
        (each.operation.name, streams[each.stream], groups[each.group] if each.group != NONE else "")
        for each in events
    }
    assert found == {
        ("SEND", "sales/eu", ""),
        ("RECEIVE", "sales/eu", "orders"),
        ("RECEIVE", "orders", ""),
        ("READ_TO_END", "audit", ""),
        ("READ_TO_END", "sales/eu", "audit"),
    }


def test_confirms_may_have_been_asked_for_before(tmp_path: Path) -> None:
    channel = Pika()
    channel._delivery_confirmation = True  # as pika calls it
    with Recording(tmp_path / "history", "rabbitmq") as recording:
        record(channel, recording).basic_publish("", "orders", b"x")
    _, events = read_back(tmp_path / "history")
    assert [each.outcome.name for each in events] == ["INVOKE", "OK"]


def test_a_block_closes_it(bench: Bench) -> None:
    with bench.channel as channel:
        channel.confirm_delivery()
    assert bench.pika.said == ["confirm", "close"]
    assert bench.said() == ["CLOSE OK -1"]


def test_a_connection_that_ends_while_consuming_is_noticed(bench: Bench) -> None:
    bench.pika.raises = StreamLostError("gone")
    with pytest.raises(StreamLostError):
        bench.channel.start_consuming()
    assert bench.said() == ["CLOSE OK -1"]


def test_the_rest_is_pikas(bench: Bench) -> None:
    assert bench.channel.exchange_declare("sales") == "sales"
    with pytest.raises(ModelError, match="transactions of AMQP cannot be recorded"):
        bench.channel.tx_select()
    with pytest.raises(AttributeError):
        bench.channel.queue_rename("orders")
