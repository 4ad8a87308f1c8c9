"""Spark's error tells whether sockets are unavailable, or whether something else is wrong."""

from __future__ import annotations

import errno
import socket
import traceback
from typing import NoReturn

import pytest

from veristream.search.limits import SparkOptions
from veristream.search.shared import channel
from veristream.search.shared.messages import Address
from veristream.search.shared.worker import Peers, PeerUnreachableError
from veristream.search.spark.exchange import (
    ExchangeChoice,
    SocketsRefusedError,
    explain_absence,
    explain_failed_job,
    explain_unreachable_peers,
)

CONNECTING = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 247, in serve
    driver = channel.connect((meeting.host, meeting.port), meeting.secret)
ConnectionRefusedError: [Errno 111] Connection refused

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException
"""


def _spark_error(error: Exception) -> str:
    """The text that Spark returns for a task that raised the error."""
    lines = "".join(traceback.format_exception(error))
    return f"org.apache.spark.api.python.PythonException: {lines}\n\tat org.apache.spark.api.python\n"


def _failed_connection() -> PeerUnreachableError:
    """The error of a worker that tries to connect to a port where nobody listens."""
    peers = Peers(1, 2, b"secret", "127.0.0.1")
    try:
        peers.connect((Address("127.0.0.1", 1),))
    except PeerUnreachableError as error:
        return error
    finally:
        peers.close()
    raise AssertionError("somebody listens at port 1")


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("", "they did not reach the driver in time"),
        (
            "BarrierJobRunWithDynamicAllocationException: [SPARK-24942]: Barrier execution mode does not",
            "Spark refuses barrier stages with dynamic allocation",
        ),
        ("[SPARK-24819]: Barrier", "Spark has fewer slots than the barrier stage needs"),
        (
            CONNECTING,
            "they cannot reach the driver (ConnectionRefusedError: [Errno 111] Connection refused)",
        ),
        ("TimeoutError: timed out\n", "they cannot reach the driver (TimeoutError: timed out)"),
        (
            "socket.gaierror: [Errno -2] Name or service not known\n",
            "they cannot reach the driver (socket.gaierror: [Errno -2] Name or service not known)",
        ),
    ],
)
def test_sockets_are_unavailable(told: str, reason: str) -> None:
    found = explain_absence(told)
    assert isinstance(found, SocketsRefusedError)
    assert found.reason == reason


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/gone'\n",
            "the workers did not connect: FileNotFoundError: [Errno 2] No such file or directory: '/gone'",
        ),
        (
            "ModuleNotFoundError: No module named 'veristream.search'\n",
            "the Python of the cluster's workers has no veristream",
        ),
    ],
)
def test_something_else_is_wrong(told: str, message: str) -> None:
    found = explain_absence(told)
    assert not isinstance(found, SocketsRefusedError)
    assert found.message == message


def test_a_lost_worker_is_no_reason_to_give_sockets_up() -> None:
    # Spark restarts a stage when its worker was killed, and the driver no longer waits for it.
    assert explain_unreachable_peers(CONNECTING) is None
    assert explain_unreachable_peers("ConnectionError: part 1 is gone: the connection ended\n") is None
    reason = "workers cannot reach each other (ConnectionRefusedError: [Errno 111] Connection refused)"
    assert explain_unreachable_peers(_spark_error(_failed_connection())) == reason


@pytest.mark.parametrize(
    ("cause", "is_unreachable"),
    [
        (TimeoutError("timed out"), True),
        (socket.gaierror(-2, "Name or service not known"), True),
        (OSError(errno.EHOSTUNREACH, "No route to host"), True),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), False),
    ],
)
def test_only_the_network_makes_a_peer_unreachable(
    cause: OSError, is_unreachable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(address: tuple[str, int], secret: bytes) -> NoReturn:
        raise cause

    monkeypatch.setattr(channel, "connect", fail)
    peers = Peers(1, 2, b"secret", "127.0.0.1")
    with pytest.raises(OSError, match=str(cause.args[-1])) as raised:
        peers.connect((Address("127.0.0.1", 1),))
    peers.close()
    assert (explain_unreachable_peers(_spark_error(raised.value)) is not None) == is_unreachable


def test_a_job_that_fails_says_why() -> None:
    assert (
        explain_failed_job("java.lang.Exception: no\nValueError: 3\n\tat x").message
        == "a job failed: ValueError: 3"
    )


def test_only_an_open_choice_falls_back_to_shuffles() -> None:
    said: list[tuple[str, str]] = []
    options = SparkOptions(tell=lambda *words: said.append(words))
    assert not ExchangeChoice("sockets").give_up_sockets("x", options)
    assert ExchangeChoice("shuffle").give_up_sockets("x", options)
    assert said == []
    means = ExchangeChoice("auto")
    assert not means.shuffles
    assert means.give_up_sockets("x", options) and means.shuffles
    assert said == [("explored by shuffles, which takes longer, because", "x")]
