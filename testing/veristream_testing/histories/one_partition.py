"""Histories of one partition in one bucket, with millions of events, made with NumPy.

A producer sends messages, and a consumer receives each of them and reads to the end. Message `a` has offset
`2 * a`, so that a message that comes twice has an offset of its own. What is planted is known exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from veristream.history.events import Operation, Outcome
from veristream.history.manifest import Manifest, Process, Stream
from veristream.history.store.writer import HistoryWriter
from veristream.history.verdicts import Anomaly

Longs = NDArray[np.int64]

MESSAGES_AT_ONCE: Final = 200_000
PRODUCER: Final = 0
CONSUMER: Final = 1
_PLACE: Final = {"stream": 0, "partition": 0}


@dataclass(frozen=True, slots=True)
class OnePartition:
    """How many messages there are; if it is not `clean`, one is lost, a later one altered, the last but one
    comes twice."""

    messages: int
    clean: bool = False

    @property
    def lost(self) -> int:
        """The message that is never received."""
        return self.messages // 3

    @property
    def altered(self) -> int:
        """The message that is received with other bytes."""
        return self.messages // 2

    @property
    def doubled(self) -> int:
        """The message that is received at two offsets."""
        return self.messages - 2

    @property
    def events(self) -> int:
        """The number of events: what is received twice makes up for what is lost."""
        return 3 * self.messages + 2

    def index_of(self, message: Longs) -> Longs:
        """Returns the index of the receipts of messages."""
        if self.clean:
            return message
        shifted: Longs = message - (message > self.lost) + (message > self.doubled)
        return shifted

    def anomalies(self) -> frozenset[Anomaly]:
        """Returns what an audit must find, and nothing else."""
        if self.clean:
            return frozenset()
        after, changed = self.index_of(np.array([self.lost + 1, self.altered])).tolist()
        receipt: dict[str, int] = {**_PLACE, "process": CONSUMER}
        message: dict[str, int] = {**_PLACE, "producer": PRODUCER}
        return frozenset(
            {
                Anomaly("lost write", **message, number=self.lost),
                Anomaly("skipped poll", **receipt, index=after),
                Anomaly("altered", **receipt, index=changed),
                Anomaly("duplicate", **message, number=self.doubled),
            }
        )


def write(folder: Path, of: OnePartition) -> None:
    """Writes the history in one bucket, in the order of time."""
    writer = HistoryWriter(folder, 1)
    for begin in range(0, of.messages, MESSAGES_AT_ONCE):
        message = np.arange(begin, min(begin + MESSAGES_AT_ONCE, of.messages))
        writer.append_columns(_messages(of, message))
    writer.append_columns(_rest(of))
    processes = (Process("producer", "host"), Process("consumer", "host"))
    writer.close(Manifest("bench", processes, (Stream("events"),), workload="one partition"))


def _messages(of: OnePartition, message: Longs) -> dict[str, NDArray[Any]]:
    """Returns both events of sending and the one of receiving each message."""
    count = message.size
    received = of.index_of(message)
    digest = message * 2_654_435_761 | 1
    other = digest if of.clean else np.where(message == of.altered, digest + 2, digest)
    rows = {
        "process": (PRODUCER, PRODUCER, CONSUMER),
        "index": (2 * message, 2 * message + 1, received),
        "call": (message, message, received),
        "operation": (Operation.SEND, Operation.SEND, Operation.RECEIVE),
        "outcome": (Outcome.INVOKE, Outcome.OK, Outcome.OK),
        "time_ns": (message * 1000, message * 1000 + 300, message * 1000 + 600),
        "offset": (-1, 2 * message, 2 * message),
        "producer": (PRODUCER, PRODUCER, PRODUCER),
        "number": (message, message, message),
        "digest": (digest, digest, other),
    }
    columns = {name: np.empty((count, 3), _TYPES.get(name, np.int64)) for name in rows}
    for name, values in rows.items():
        for place, value in enumerate(values):
            columns[name][:, place] = value
    kept = np.ones((count, 3), np.bool_)
    if not of.clean:
        kept[message == of.lost, 2] = False
    return _placed({name: values[kept] for name, values in columns.items()})


def _rest(of: OnePartition) -> dict[str, NDArray[Any]]:
    """Returns the receipt of what comes twice, if something does, and the reading to the end."""
    end = of.messages if of.clean else int(of.index_of(np.array([of.messages - 1]))[0]) + 1
    read = {"process": CONSUMER, "call": end, "operation": Operation.READ_TO_END}
    late = of.messages * 1000
    rows: list[dict[str, int]] = [
        {**read, "index": end, "outcome": Outcome.INVOKE, "time_ns": late},
        {
            **read,
            "index": end + 1,
            "outcome": Outcome.OK,
            "time_ns": late,
            "number": 0,
            "offset": 2 * of.messages,
        },
    ]
    if not of.clean:
        again = int(of.index_of(np.array([of.doubled]))[0]) + 1
        named = {"producer": PRODUCER, "number": of.doubled, "digest": of.doubled * 2_654_435_761 | 1}
        received = {"process": CONSUMER, "operation": Operation.RECEIVE, "outcome": Outcome.OK}
        at = {"index": again, "call": again, "offset": 2 * of.doubled + 1}
        rows.append({**received, **at, **named, "time_ns": of.doubled * 1000 + 600})
    names = ("process", "index", "call", "operation", "outcome", "time_ns", "offset", "producer", "number")
    columns = {
        name: np.array([row.get(name, -1) for row in rows], _TYPES.get(name, np.int64)) for name in names
    }
    return _placed(columns | {"digest": np.array([row.get("digest", 0) for row in rows])})


_TYPES: Final = {"process": np.int32, "operation": np.int8, "outcome": np.int8, "producer": np.int32}


def _placed(columns: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Returns the columns with those of the one partition."""
    nowhere = np.zeros(columns["process"].size, np.int32)
    return {**columns, "stream": nowhere, "partition": nowhere}
