"""The options of producers and consumers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from veristream.errors import ModelError
from veristream.kabis.protocol.batch import BATCH_BYTES_MAX, BATCH_EVENTS_MAX
from veristream.kabis.protocol.seal import Sealer

IN_FLIGHT_MAX = 1000
BATCH_ROOM = 4096 + 4 * BATCH_EVENTS_MAX
"""What a batch contains besides its events: the signed header and their lengths."""


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """How long events wait to be batched, and how many may be in flight.

    A producer holds about twice `buffer_bytes`: the events, and the batches they were copied into.
    """

    linger_ms: int = 5
    batch_events: int = 1000
    batch_bytes: int = 1 << 20
    buffer_bytes: int = 32 << 20
    in_flight: int = 5
    delivery_timeout_ms: int = 120_000
    submit_timeout_ms: int = 2_000
    retry_ms: int = 100
    sealers: Mapping[str, Sealer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value, value_max in (
            ("batch_events", self.batch_events, BATCH_EVENTS_MAX),
            ("batch_bytes", self.batch_bytes, BATCH_BYTES_MAX - BATCH_ROOM),
            ("in_flight", self.in_flight, IN_FLIGHT_MAX),
        ):
            if not 1 <= value <= value_max:
                raise ModelError(f"{name} is {value}", hint=f"it is between 1 and {value_max}")


class Start(Enum):
    """Where a consumer starts to read a partition without a commit of its group."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """How a consumer reads.

    It holds at most `buffer_bytes` of events, plus one batch for each partition.

    `nearest` is the storage party to ask first for validated batches while its answers are good. By default
    the parties that gave receipts for a batch take turns.
    """

    validate: bool = True
    group: str | None = None
    instance: str = "0"
    start: Start = Start.BEGINNING
    session_ms: int = 30_000
    auto_commit_ms: int | None = 5_000
    prefetch_batches: int = 16
    buffer_bytes: int = 32 << 20
    fetch_timeout_ms: int = 500
    retry_ms: int = 100
    submit_timeout_ms: int = 2_000
    wait_ms: int = 500
    nearest: str | None = None
    sealers: Mapping[str, Sealer] = field(default_factory=dict)
