"""The future that a push returns.

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
    """The indices of a parcel's events, consecutive from the first, and the time of their block.

    Without `prove` the events are not validated: `first_index` is an offset of the one storage party, and
    there is no receipt and no time. With `locate` the indices are not consecutive, and it returns them.
    """

    first_index: int
    time_ms: int | None
    prove: Callable[[int], EventReceipt] | None
    locate: Callable[[], Sequence[int]] | None = None


class Acknowledged(NamedTuple):
    """An event that was admitted; every consumer finds it at its index.

    A named tuple, because a frozen dataclass takes three times as long to make.
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
        """The partition that contains it."""
        return self.parcel.partition

    @property
    def time_ms(self) -> int | None:
        """The time of the block that admitted it; None if the topic is not validated."""
        return self.settlement.time_ms

    @property
    def index(self) -> int:  # type: ignore[override]  # hides tuple.index, which nobody needs here
        """Its index in the partition.

        If the topic is not validated, is in Kafka, and other producers push to the partition too, the first
        call reads the partition again, and raises EnvironmentFailure if that fails. From then on the
        producer notes the index of every event.
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
        """Makes the proof of the event, which anyone with the genesis can verify."""
        if self.settlement.prove is None:
            raise ModelError(
                f"{self.topic} is not validated, so its events have no receipts",
                hint="an admin can make the topic validated",
            )
        return self.settlement.prove(self.position)


class Parcel:
    """Events of one partition that are sent together, and their fate."""

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
        """The number of events."""
        return self._taken + len(self.leaves)

    def take_leaves(self) -> list[bytes]:
        """Removes and returns the events, to make a batch of them."""
        taken, self.leaves = self.leaves, []
        self._taken = len(taken)
        return taken

    @property
    def fate(self) -> Settlement | Failure | None:
        """The settlement or failure of the events; None while it is unknown."""
        return self._fate

    def settle(self, fate: Settlement | Failure) -> None:
        """Sets the fate of the events, once; later calls change nothing."""
        with self._condition:
            if self._fate is not None:
                return
            self._fate = fate
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for callback in callbacks:
            callback()

    def call_when_settled(self, callback: Callable[[], object]) -> None:
        """Calls back once the fate is known, from the thread that settles it, or now if it is known."""
        with self._condition:
            if self._fate is None:
                self._callbacks.append(callback)
                return
        callback()

    def wait(self, timeout_s: float | None) -> Settlement | Failure:
        """Waits for the fate, in another thread than the one that settles it. Raises TimeoutError."""
        if self._fate is None:
            with self._condition:
                if not self._condition.wait_for(lambda: self._fate is not None, timeout_s):
                    raise TimeoutError("the event is not acknowledged yet")
        assert self._fate is not None
        return self._fate


class Pushed:
    """The future of one event: wait for it with `result`, or `await` it."""

    __slots__ = ("_parcel", "_position")

    def __init__(self, parcel: Parcel, position: int) -> None:
        self._parcel = parcel
        self._position = position

    def done(self) -> bool:
        """Whether the event was acknowledged or has failed."""
        return self._parcel.fate is not None

    def result(self, timeout: float | None = None) -> Acknowledged:
        """Returns the acknowledged event. Raises the reason why it failed, or TimeoutError.

        Programs call this for many events whose fate is known, so that case calls nothing else.
        """
        parcel = self._parcel
        fate = parcel._fate
        if type(fate) is not Settlement:
            return self._show(parcel.wait(timeout))
        return _new(Acknowledged, (parcel, self._position, fate))

    def exception(self, timeout: float | None = None) -> Failure | None:
        """Waits, and returns why the event failed, or None if it was acknowledged."""
        fate = self._parcel.wait(timeout)
        return None if isinstance(fate, Settlement) else fate

    def add_done_callback(self, callback: Callable[[Pushed], object]) -> None:
        """Calls back once the fate is known, in the thread that learns it; the callback must not block."""
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
    """The future of events that were pushed together; one for each would cost more than the push."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[tuple[Parcel, int, int]] = []

    def add(self, pushed: Pushed) -> None:
        """Adds one event."""
        self.add_part(pushed._parcel, pushed._position, 1)

    def add_part(self, parcel: Parcel, first: int, count: int) -> None:
        """Adds events of a parcel, from a position on."""
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
        """Waits until all are acknowledged. Raises the reason why one failed, or TimeoutError."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        for parcel, _, _ in self._parts:
            fate = parcel.wait(None if deadline_s is None else max(0.0, deadline_s - time.monotonic()))
            if not isinstance(fate, Settlement):
                raise fate

    def result(self, timeout: float | None = None) -> list[Acknowledged]:
        """Returns the acknowledged events in order; raises as `wait` does."""
        self.wait(timeout)
        pushed = [Pushed(parcel, first + n) for parcel, first, count in self._parts for n in range(count)]
        return [each.result(0) for each in pushed]

    def __await__(self) -> Generator[object, None, list[Acknowledged]]:
        for parcel, first, _ in self._parts:
            yield from Pushed(parcel, first).__await__()
        return self.result(0)
