"""Spark's messages about a stage show whether sockets are unavailable or something else is wrong."""

from __future__ import annotations

import pytest

from veristream.search.limits import SparkOptions
from veristream.search.spark.exchange import Means, SocketsRefusedError, absence, failed_job, parted

CONNECTING = """org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 247, in serve
    driver = channel.connect((meeting.host, meeting.port), meeting.secret)
ConnectionRefusedError: [Errno 111] Connection refused

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException
"""
MEETING = CONNECTING.replace("in serve", "in meet")


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("", "they do not reach the driver in time"),
        (
            "BarrierJobRunWithDynamicAllocationException: [SPARK-24942]: Barrier execution mode does not",
            "Spark refuses barrier stages with dynamic allocation",
        ),
        ("[SPARK-24819]: Barrier", "Spark has fewer slots than the barrier stage needs"),
        (
            CONNECTING,
            "they do not reach the driver (ConnectionRefusedError: [Errno 111] Connection refused)",
        ),
        ("TimeoutError: timed out\n", "they do not reach the driver (TimeoutError: timed out)"),
        (
            "socket.gaierror: [Errno -2] Name or service not known\n",
            "they do not reach the driver (socket.gaierror: [Errno -2] Name or service not known)",
        ),
    ],
)
def test_sockets_are_not_to_be_had(told: str, reason: str) -> None:
    found = absence(told)
    assert isinstance(found, SocketsRefusedError)
    assert found.reason == reason


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (
            "FileNotFoundError: [Errno 2] No such file or directory: '/gone'\n",
            "the workers did not come: FileNotFoundError: [Errno 2] No such file or directory: '/gone'",
        ),
        (
            "ModuleNotFoundError: No module named 'veristream.search'\n",
            "the Python of the cluster's workers has no veristream",
        ),
    ],
)
def test_something_else_is_wrong(told: str, message: str) -> None:
    found = absence(told)
    assert not isinstance(found, SocketsRefusedError)
    assert found.message == message


def test_a_lost_worker_is_no_reason_to_give_sockets_up() -> None:
    # Spark restarts a stage when its worker was killed, and the driver no longer waits for it.
    assert parted(CONNECTING) is None
    assert parted("ConnectionError: part 1 is gone: the connection ended\n") is None
    reason = "workers do not reach each other (ConnectionRefusedError: [Errno 111] Connection refused)"
    assert parted(MEETING) == reason


def test_a_job_that_fails_says_why() -> None:
    assert (
        failed_job("java.lang.Exception: no\nValueError: 3\n\tat x").message
        == "a job failed: ValueError: 3"
    )


def test_only_who_leaves_it_open_goes_over_to_shuffles() -> None:
    said: list[tuple[str, str]] = []
    options = SparkOptions(tell=lambda *words: said.append(words))
    assert not Means("sockets").give_up_sockets("x", options)
    assert Means("shuffle").give_up_sockets("x", options)
    assert said == []
    means = Means("auto")
    assert not means.shuffles
    assert means.give_up_sockets("x", options) and means.shuffles
    assert said == [("explored by shuffles, which takes longer, since", "x")]
