"""The requests to Kafka, against a server that answers with prepared bytes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from struct import pack

import pytest

from veristream.brokers.replicated.requests import (
    Described,
    Metadata,
    Partition,
    ask_metadata,
    ask_new_topic,
    ask_producer_id,
    ask_transaction,
)
from veristream.errors import EnvironmentFailure, ModelError

Serve = Callable[[bytes], str]
Asked = list[bytes]


@pytest.fixture
def asked() -> Asked:
    """The requests that the server got, without their length."""
    return []


@pytest.fixture
def serve(asked: Asked) -> Iterator[Serve]:
    """Starts a server of one connection that answers one request with the given bytes, and hangs up."""
    listeners, threads = [], []

    def start(reply: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def work() -> None:
            connection, _ = listener.accept()
            with connection:
                size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
                asked.append(connection.recv(size, socket.MSG_WAITALL))
                connection.sendall(reply)

        threads.append(threading.Thread(target=work))
        threads[-1].start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for each in threads:
        each.join()
    for each in listeners:
        each.close()


def text(value: str) -> bytes:
    return pack(">h", len(value)) + value.encode()


def framed(body: bytes, correlation: int = 7) -> bytes:
    return pack(">ii", 4 + len(body), correlation) + body


def metadata(*topics: bytes) -> bytes:
    brokers = pack(">i", 2) + b"".join(
        pack(">i", n) + text("127.0.0.1") + pack(">i", 9000 + n) for n in (1, 3)
    )
    return brokers + pack(">i", len(topics)) + b"".join(topics)


ORDERS = (
    pack(">h", 0)
    + text("orders")
    + pack(">i", 2)
    + pack(">hii", 0, 0, 3)
    + pack(">iii", 2, 1, 3)
    + pack(">ii", 1, 3)
    + pack(">hii", 5, 1, -1)
    + pack(">iii", 2, 1, 3)
    + pack(">i", 0)
)
UNKNOWN = pack(">h", 3) + text("nothing") + pack(">i", 0)


def test_leaders_and_replicas_are_read(serve: Serve, asked: Asked) -> None:
    found = ask_metadata(serve(framed(metadata(ORDERS, UNKNOWN))), "orders")
    whole = {0: Partition(3, (1, 3), (3,)), 1: Partition(None, (1, 3), ())}
    assert found == Metadata(frozenset({1, 3}), {"orders": whole})
    assert asked == [pack(">hhi", 3, 0, 7) + text("veristream") + pack(">i", 1) + text("orders")]


def test_all_topics_are_asked_for_by_none(serve: Serve, asked: Asked) -> None:
    assert ask_metadata(serve(framed(metadata()))).topics == {}
    assert asked[0][-4:] == pack(">i", 0)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (b"", "closed the connection"),
        (framed(metadata())[:9], "closed the connection"),
        (framed(metadata(), correlation=8), "does not speak Kafka's protocol"),
    ],
)
def test_what_is_not_an_answer_is_an_error(serve: Serve, reply: bytes, problem: str) -> None:
    with pytest.raises(OSError, match=problem):
        ask_metadata(serve(reply))


def created(error: int, reason: bytes) -> bytes:
    return framed(pack(">ii", 0, 1) + text("orders") + pack(">h", error) + reason)


def test_a_topic_is_asked_for_with_its_settings(serve: Serve, asked: Asked) -> None:
    ask_new_topic(serve(created(0, pack(">h", -1))), "orders", 2, 3, {"min.insync.replicas": "2"})
    assert asked[0].endswith(
        pack(">i", 1)
        + text("orders")
        + pack(">ihii", 2, 3, 0, 1)
        + text("min.insync.replicas")
        + text("2")
        + pack(">i?", 30_000, False)
    )


def test_kafkas_reason_is_passed_on(serve: Serve) -> None:
    with pytest.raises(ModelError, match="does not create the topic 'orders': no room"):
        ask_new_topic(serve(created(44, text("no room"))), "orders", 1, 1, {})
    with pytest.raises(ModelError, match="error 36"):
        ask_new_topic(serve(created(36, pack(">h", -1))), "orders", 1, 1, {})


def test_a_broker_that_hangs_up_is_a_failure_of_the_machine(serve: Serve) -> None:
    with pytest.raises(EnvironmentFailure, match="does not answer"):
        ask_new_topic(serve(b""), "orders", 1, 1, {})


def compact(value: str) -> bytes:
    return bytes((len(value) + 1,)) + value.encode()


def described(error: int, state: str, epoch: int) -> bytes:
    """A DescribeTransactions answer, version 0: no tags, throttling, one state, and no topics in it."""
    told = pack(">h", error) + compact("t-1") + compact(state) + pack(">iqqh", 60_000, 5, 4000, epoch)
    return b"\0" + pack(">i", 0) + b"\2" + told + b"\1\0" + b"\0"


def test_a_coordinator_tells_the_state_of_a_transactional_id(serve: Serve, asked: Asked) -> None:
    found = ask_transaction(serve(framed(described(0, "PrepareAbort", 3))), "t-1")
    assert found == Described(0, "PrepareAbort", 3)
    assert found.is_coordinated
    assert asked == [pack(">hhi", 65, 0, 7) + text("veristream") + b"\0\2" + compact("t-1") + b"\0"]


@pytest.mark.parametrize(("error", "is_coordinated"), [(105, True), (16, False), (14, False)])
def test_only_the_coordinator_knows_or_does_not_know_an_id(
    serve: Serve, error: int, is_coordinated: bool
) -> None:
    found = ask_transaction(serve(framed(described(error, "", -1))), "t-1")
    assert (found.error, found.is_coordinated) == (error, is_coordinated)


def test_a_broker_says_whether_it_has_producer_ids(serve: Serve, asked: Asked) -> None:
    assert ask_producer_id(serve(framed(pack(">ihqh", 0, 14, -1, -1)))) == 14
    assert ask_producer_id(serve(framed(pack(">ihqh", 0, 0, 4000, 0)))) == 0
    assert asked[0] == pack(">hhi", 22, 0, 7) + text("veristream") + pack(">hi", -1, 30_000)
