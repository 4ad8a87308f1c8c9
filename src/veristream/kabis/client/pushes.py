"""What a push gives back: a handle on the fate of one event, shared by all events of its batch.

A future for each event would cost more than the rest of a push. So the events of a batch share a `Parcel`,
which is settled once, and `Pushed` is only a parcel and a position in it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.ledger.event_receipts import EventReceipt

Failure = ModelError | EnvironmentFailure

_new = tuple.__new__


@dataclass(frozen=True, slots=True)
class Settlement:
    """Where the events of a parcel stand: indices from the first on, by the block's time.

    Without `prove` they are not validated: `first_index` is an offset of the one storage party, and there
    is no receipt and no time. With `locate` they do not stand one after the other, and it says where each
    does.
    """

    first_index: int
    time_ms: int | None
    prove: Callable[[int], EventReceipt] | None
    locate: Callable[[], Sequence[int]] | None = None


class Acknowledged(NamedTuple):
    """An event was admitted, and stands at its index for everybody and for ever.

    A named tuple, because many are made, and a frozen dataclass takes three times as long to make.
    """

    parcel: Parcel
    position: int
    settlement: Settlement

    @property
    def topic(self) -> str:
        """The topic it was pushed to."""
        return self.parcel.topic

    @property
    def partition(self) -> int:
        """The partition it stands in."""
        return self.parcel.partition

    @property
    def time_ms(self) -> int | None:
        """When it was admitted, by the block's time; None where the topic is not validated."""
        return self.settlement.time_ms

    @property
    def index(self) -> int:  # type: ignore[override]  # hides tuple.index, which nobody needs here
        """Its place in the partition.

        If the topic is in Kafka, not validated, and others push to the partition too, the first who asks
        waits until the partition is read again, and gets EnvironmentFailure if it cannot be; from then on
        the producer takes down every event's place.
        """
        settlement = self.settlement
        if settlement.locate is None:
            return settlement.first_index + self.position
        return settlement.locate()[self.position]

    @property
    def validated(self) -> bool:
        """Whether the event has the extended guarantees."""
        return self.settlement.prove is not None

    def receipt(self) -> EventReceipt:
        """The proof of the event for somebody who has only the genesis; made when it is asked for."""
        if self.settlement.prove is None:
            raise ModelError(
                f"{self.topic} is not validated, so that its events have no receipts",
                hint="an admin makes a topic validated",
            )
        return self.settlement.prove(self.position)


class Parcel:
    """Events of one partition that travel together, and what becomes of them."""

    __slots__ = (
        "_callbacks",
        "_condition",
        "_fate",
        "_taken",
        "deadline_ms",
        "due_ms",
        "leaves",
        "partition",
        "size_bytes",
        "topic",
    )

    def __init__(self, topic: str, partition: int, due_ms: int, deadline_ms: int) -> None:
        self.topic = topic
        self.partition = partition
        self.due_ms = due_ms
        self.deadline_ms = deadline_ms
        self.leaves: list[bytes] = []
        self.size_bytes = 0
        self._taken = 0
        self._fate: Settlement | Failure | None = None
        self._condition = threading.Condition()
        self._callbacks: list[Callable[[], object]] = []

    @property
    def count(self) -> int:
        """How many events it has."""
        return self._taken + len(self.leaves)

    def take_leaves(self) -> list[bytes]:
        """The events, for the batch that they become."""
        taken, self.leaves = self.leaves, []
        self._taken = len(taken)
        return taken

    @property
    def fate(self) -> Settlement | Failure | None:
        """What became of the events, if anything yet."""
        return self._fate

    def settle(self, fate: Settlement | Failure) -> None:
        """Says what became of the events; the first word stands."""
        with self._condition:
            if self._fate is not None:
                return
            self._fate = fate
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for callback in callbacks:
            callback()

    def call_when_settled(self, callback: Callable[[], object]) -> None:
        """Calls once the fate is known, at once if it is; from whichever thread settles it."""
        with self._condition:
            if self._fate is None:
                self._callbacks.append(callback)
                return
        callback()

    def wait(self, timeout_s: float | None) -> Settlement | Failure:
        """The fate, in another thread than the one that settles it; TimeoutError if that takes longer."""
        if self._fate is None:
            with self._condition:
                if not self._condition.wait_for(lambda: self._fate is not None, timeout_s):
                    raise TimeoutError("the event is not acknowledged yet")
        assert self._fate is not None
        return self._fate


class Pushed:
    """A future of one event: wait for it with `result`, or `await` it."""

    __slots__ = ("_parcel", "_position")

    def __init__(self, parcel: Parcel, position: int) -> None:
        self._parcel = parcel
        self._position = position

    def done(self) -> bool:
        """Whether the event was acknowledged or has failed."""
        return self._parcel.fate is not None

    def result(self, timeout: float | None = None) -> Acknowledged:
        """Where the event stands; raises why it failed, or TimeoutError after so many seconds.

        Many are looked at one after the other, most when their fate is known: then nothing else is called.
        """
        parcel = self._parcel
        fate = parcel._fate
        if type(fate) is not Settlement:
            return self._show(parcel.wait(timeout))
        return _new(Acknowledged, (parcel, self._position, fate))

    def exception(self, timeout: float | None = None) -> Failure | None:
        """Why the event failed, or None once it is acknowledged."""
        fate = self._parcel.wait(timeout)
        return None if isinstance(fate, Settlement) else fate

    def add_done_callback(self, callback: Callable[[Pushed], object]) -> None:
        """Calls once the fate is known, in the thread that learns it; it must not wait for anything."""
        self._parcel.call_when_settled(lambda: callback(self))

    def __await__(self) -> Generator[object, None, Acknowledged]:
        fate = self._parcel.fate
        if fate is None:
            fate = yield from self._settled().__await__()
        return self._show(fate)

    async def _settled(self) -> Settlement | Failure:
        loop = asyncio.get_running_loop()
        settled: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not settled.done():
                settled.set_result(None)

        self._parcel.call_when_settled(lambda: loop.call_soon_threadsafe(wake))
        await settled
        assert self._parcel.fate is not None
        return self._parcel.fate

    def _show(self, fate: Settlement | Failure) -> Acknowledged:
        if not isinstance(fate, Settlement):
            raise fate
        return Acknowledged(self._parcel, self._position, fate)


class PushedMany:
    """A future of events that were pushed together; an object for each would cost more than the push."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[tuple[Parcel, int, int]] = []

    def add(self, pushed: Pushed) -> None:
        """Takes one more event in."""
        self.add_part(pushed._parcel, pushed._position, 1)

    def add_part(self, parcel: Parcel, first: int, count: int) -> None:
        """Takes more events in: those of a parcel from a position on."""
        if self._parts:
            last, start, before = self._parts[-1]
            if last is parcel and start + before == first:
                self._parts[-1] = (parcel, start, before + count)
                return
        self._parts.append((parcel, first, count))

    def __len__(self) -> int:
        return sum(count for _, _, count in self._parts)

    def done(self) -> bool:
        """Whether every event was acknowledged or has failed."""
        return all(parcel.fate is not None for parcel, _, _ in self._parts)

    def wait(self, timeout: float | None = None) -> None:
        """Returns when all are acknowledged; raises why one failed, or TimeoutError after so long."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        for parcel, _, _ in self._parts:
            fate = parcel.wait(None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))
            if not isinstance(fate, Settlement):
                raise fate

    def result(self, timeout: float | None = None) -> list[Acknowledged]:
        """Where each event stands, in their order; raises as `wait` does."""
        self.wait(timeout)
        pushed = [Pushed(parcel, first + n) for parcel, first, count in self._parts for n in range(count)]
        return [each.result(0) for each in pushed]

    def __await__(self) -> Generator[object, None, list[Acknowledged]]:
        for parcel, first, _ in self._parts:
            yield from Pushed(parcel, first).__await__()
        return self.result(0)
