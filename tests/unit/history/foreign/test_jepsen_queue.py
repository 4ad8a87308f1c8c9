"""Jepsen's workload for queues: enqueues, dequeues and drains become exactly these events.

Operations are completed as rabbitmq/src/jepsen/rabbitmq.clj of jepsen-io/jepsen completes them, and mean
what `total-queue` of its jepsen/checker.clj takes them to mean.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.history.foreign.test_jepsen_log import ops
from tests.unit.history.foreign.told import imported, tell
from veristream.errors import ModelError
from veristream.history.manifest import Stream

WORK = (
    "0 invoke enqueue 0",
    "0 ok enqueue 0",
    "1 invoke enqueue 1",
    "2 invoke dequeue nil",
    "2 ok dequeue 0",
    "1 fail enqueue 1",
    "2 invoke dequeue nil",
    "2 fail dequeue nil, :error :empty",
    "0 invoke drain nil",
)


def test_what_goes_in_must_come_out(tmp_path: Path) -> None:
    manifest, events = imported(tmp_path, {"history.edn": ops(*WORK, "0 ok drain [1 5]")})
    assert tell(manifest, events) == [
        "0 process 0: SEND ? queue/0 0:0",
        "10 process 0: SEND ok queue/0 0:0",
        "80 process 0: READ_TO_END ? queue/0",
        "90 process 0: RECEIVE ok queue/0 1:0",
        "90 process 0: RECEIVE ok queue/0",  # nobody has sent 5
        "90 process 0: READ_TO_END ok queue/0",
        "20 process 1: SEND ? queue/0 1:0",
        "50 process 1: SEND info queue/0 1:0",  # refused, perhaps after the queue had taken it
        "40 process 2: RECEIVE ok queue/0 0:0",
    ]
    assert manifest.streams == (Stream("queue", offsets=False),)
    assert (manifest.workload, manifest.producers_complete) == ("queue", True)
    assert events[2].call == events[5].call


@pytest.mark.parametrize("last", ["1 info dequeue nil, :error :timeout", "1 info drain nil"])
def test_a_message_may_have_been_taken_unseen(tmp_path: Path, last: str) -> None:
    f = last.split()[2]
    text = ops(*WORK, "0 ok drain []", f"1 invoke {f} nil", last)
    told = tell(*imported(tmp_path, {"history.edn": text}))
    assert "90 process 0: READ_TO_END fail queue/0" in told
    assert not [line for line in told if "READ_TO_END ok" in line]
    assert "110 process 1: CLOSE ok" in told


@pytest.mark.parametrize(
    ("lines", "line", "message"),
    [
        (("0 invoke enqueue 1", "0 ok enqueue 2"), 2, "2 completes 1"),
        (("0 invoke dequeue nil", "0 ok dequeue nil"), 2, ":dequeue succeeded without a value"),
        (("0 invoke drain nil", "0 ok drain 5"), 2, ":drain returned 5, not a list of values"),
        (("0 invoke drain nil", "0 ok drain [nil]"), 2, ":drain succeeded without a value"),
        (("0 invoke enqueue 1", "1 invoke enqueue 1"), 2, "value 1 is enqueued a second time"),
        (("0 invoke enqueue 1", "0 ok enqueue 1", "0 invoke read nil"), 3, "unknown :f :read"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, lines: tuple[str, ...], line: int, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        imported(tmp_path, {"history.edn": ops(*lines)})
    assert caught.value.message == f"{tmp_path}/history.edn:{line}: {message}"
