"""The outbox: a writer's events, on the driver's disk before the first of them is sent.

An *epoch* is everything that one micro-batch, or one batch job, pushes. If a driver dies in the middle of
it, the next one resumes with the same events in the same order, whatever Spark delivers this time; the
ledger knows how far the last one came.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from veristream.errors import EnvironmentFailure
from veristream.kabis.client.consumed import Place
from veristream.kabis.log.disk.files import replace
from veristream.kabis.protocol.codec import Coded, DecodeError
from veristream.kabis.protocol.fields import U32, U64, Name, at_most, blob
from veristream.kabis.protocol.records import LEAF_BYTES_MAX

EVENTS_MAX = 1 << 31


class Posted(NamedTuple):
    """An event with its destination; a named tuple, because there may be millions."""

    topic: Name
    partition: U32
    leaf: Annotated[bytes, blob(LEAF_BYTES_MAX)]


@dataclass(frozen=True, slots=True)
class Epoch(Coded, kind="spark-epoch", bytes_max=1 << 40):
    """The events of an epoch in order; `before` is the number of our events in each lane at its start.

    Once all of them are acknowledged, it is `finished` and holds no events.
    """

    number: U64
    finished: bool
    before: Annotated[tuple[tuple[tuple[Name, U32], U64], ...], at_most(EVENTS_MAX)] = ()
    events: Annotated[tuple[Posted, ...], at_most(EVENTS_MAX)] = ()

    def lane(self, place: Place) -> list[bytes]:
        """Returns the leaves for one partition, in order."""
        return [posted.leaf for posted in self.events if (posted.topic, posted.partition) == place]


@dataclass(frozen=True, slots=True)
class Outbox:
    """The last epoch of one writer, in a file."""

    path: Path

    def load(self) -> Epoch | None:
        """Returns the last epoch that was started, or None."""
        try:
            return Epoch.decode(self.path.read_bytes())
        except FileNotFoundError:
            return None
        except (DecodeError, OSError) as error:
            raise EnvironmentFailure(
                f"the outbox {self.path} cannot be read: {error}",
                "restore it: without it the writer cannot know what was already pushed",
            ) from error

    def save(self, epoch: Epoch) -> None:
        """Makes the epoch durable."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace(self.path, epoch.encode())


def outbox_folder(journal: Path) -> Path:
    """Returns the folder of a producer's outboxes, beside its journal; no client can have its name."""
    return journal.with_name(f"{journal.name}~outbox")
