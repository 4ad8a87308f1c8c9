"""The manifest of a history: the names behind its numbers, and what its recording promises.

    HISTORY/history.json                   the manifest
    HISTORY/events/bucket=0007/*.parquet   events, in buckets by (stream, partition)
    HISTORY/events/*.parquet               events, if `buckets` is 0: in any order

What a recording does not promise, it cannot decide: without `producers_complete`, for example, a message
that nobody is known to have sent may have come from a producer that was not recorded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

VERSION = 1

Isolation = Literal["", "read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class Process:
    """A client: a producer, a consumer, or both.

    Clocks of processes on one `host` can be compared; an empty one is not known.
    """

    name: str
    host: str = ""
    isolation: Isolation = ""
    member_of: int | None = None  # the number of its group


@dataclass(frozen=True, slots=True)
class Stream:
    """A topic or a queue.

    With `offsets`, it is a log whose messages have lasting places (Kafka, Kabis); without, a queue from
    which messages are taken. `readers` are the processes that may read it, if the recording says so.
    """

    name: str
    offsets: bool = True
    readers: tuple[int, ...] | None = None
    attempts_max: int | None = None
    redelivery_ns: int | None = None  # a delivery that is not acknowledged for so long counts no more


@dataclass(frozen=True, slots=True)
class Incident:
    """A fault that was injected, for charts: when it began and ended, and what it was.

    `details` say more in words, such as which message a proxy held and why it was released.
    """

    kind: str
    target: str
    begin_ns: int
    end_ns: int | None = None
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Manifest:
    """All that is known of a history besides its events."""

    source: str  # "kafka", "rabbitmq", "nsq", "kabis", "jepsen", ...
    processes: tuple[Process, ...]
    streams: tuple[Stream, ...]
    groups: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    buckets: int = 1
    complete: bool = True  # the recording came to its end
    producers_complete: bool = True  # every producer was recorded
    transactions_recorded: bool = True
    workload: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    incidents: tuple[Incident, ...] = ()
    recorded_at: str = ""  # ISO 8601
    events: int | None = None  # how many there are in all files; older histories do not say it
    version: int = VERSION
