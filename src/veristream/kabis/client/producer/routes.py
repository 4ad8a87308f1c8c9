"""How a producer is set up, what it counts, and which partition an event goes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from veristream.errors import ModelError
from veristream.kabis.client.producer.lanes import Lane
from veristream.kabis.protocol.batch import BATCH_BYTES_MAX, BATCH_EVENTS_MAX
from veristream.kabis.protocol.records import choose_partition
from veristream.kabis.protocol.seal import Sealer

KEYS_REMEMBERED = 10_000
IN_FLIGHT_MAX = 1000
BATCH_ROOM = 4096 + 4 * BATCH_EVENTS_MAX
"""What a batch has besides its events: the signed header, and their lengths."""


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """How long events wait for company, and how many may be on their way.

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


@dataclass(slots=True)
class Counters:
    """What a producer has done."""

    pushed: int = 0
    acknowledged: int = 0
    failed: int = 0
    batches: int = 0
    stores: int = 0
    submits: int = 0
    recovered: int = 0


class Route:
    """A topic as `push` needs it: its lanes, and which partition a key goes to."""

    __slots__ = ("keys", "lanes", "sealer", "sticky")

    def __init__(self, lanes: list[Lane], sealer: Sealer | None) -> None:
        self.lanes = lanes
        self.sealer = sealer
        self.keys: dict[bytes, int] = {}
        self.sticky = 0

    def choose(self, key: bytes | None) -> int:
        """The key's partition; events without a key go together, to one partition after the other."""
        if key is None:
            if self.lanes[self.sticky].open is None:
                self.sticky = (self.sticky + 1) % len(self.lanes)
            return self.sticky
        partition = self.keys.get(key)
        if partition is None:
            partition = choose_partition(key, len(self.lanes))
            if len(self.keys) >= KEYS_REMEMBERED:
                self.keys.clear()
            self.keys[key] = partition
        return partition
