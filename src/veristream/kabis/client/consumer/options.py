"""How a consumer is set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from veristream.kabis.protocol.seal import Sealer


class Start(Enum):
    """Where a consumer begins to read a partition that its group has no commit for."""

    BEGINNING = "beginning"
    END = "end"


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """How a consumer reads.

    It holds at most `buffer_bytes` of events, and one batch for each partition beyond that.

    `nearest` is the storage party that is asked first for validated batches, whoever vouched for them, as
    long as it answers well; by default those that vouched take turns.
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
