"""Follows the ledger on the driver and plans reads; independent of Spark.

Blocks are accepted because of their certificates, so no validator is trusted.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Self, TypeVar

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Channels, Connect
from veristream.kabis.client.administration import Replica
from veristream.kabis.client.consumed import Place
from veristream.kabis.client.driver import LoopThread
from veristream.kabis.client.errors import UnknownTopicError
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol.answers import Below
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Party
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import FROM_END
from veristream.kabis.spark.plan import Bounds, Part, Range, split_admitted, split_plain

_LOGGER = logging.getLogger(__name__)

Value = TypeVar("Value")


class Watch:
    """Follows a chain over open channels; use `with` to close them.

    With `validate`, indices are the ledger's; otherwise they are offsets of each topic's storage party.
    """

    def __init__(
        self, genesis: Genesis, connect: Connect, topics: Iterable[str], *, validate: bool, timeout_s: float
    ) -> None:
        self._genesis = genesis
        self._topics = tuple(topics)
        self._validate = validate
        self.timeout_s = timeout_s
        self._warned: set[str] = set()
        self._thread = LoopThread("kabis-spark-driver")
        try:
            self._channels: Channels = self._run(_call(connect))
        except BaseException:
            self._thread.stop()
            raise
        self._replica = Replica(genesis, self._channels)

    @property
    def ledger(self) -> Ledger:
        """The ledger after the last refresh."""
        return self._replica.ledger

    def run(self, work: Callable[[Channels], Awaitable[Value]]) -> Value:
        """Runs `work` with the open channels."""
        return self._thread.run(_call(lambda: work(self._channels)))

    def refresh(self) -> dict[Place, Bounds]:
        """Follows the chain to its end; returns the readable bounds of each partition."""
        self._run(self._follow())
        places = [(topic, number) for topic in self._topics for number in range(self._partitions(topic))]
        if self._validate:
            known = {place: self.ledger.partition(*place) for place in places}
            return {place: Bounds(each.low_water, each.next_index) for place, each in known.items()}
        return {place: self._run(self._ask_bounds(place)) for place in places}

    def plan(self, ranges: Iterable[Range], rows_max: int) -> list[Part]:
        """Splits ranges into parts for tasks."""
        parts: list[Part] = []
        for each in ranges:
            if self._validate:
                parts += split_admitted(each, self.ledger, rows_max)
            else:
                parts += split_plain(each, self.ledger.memberships.party_of(each.place[0]), rows_max)
        return parts

    def storage_parties(self) -> tuple[Party, ...]:
        """Returns the storage parties after the last refresh: those in force first, former ones last."""
        return self.ledger.memberships.storage_parties(self.ledger.height + 1)

    def _partitions(self, topic: str) -> int:
        policy = self.ledger.topic(topic)
        if policy is None:
            raise UnknownTopicError(topic)
        if not self._validate and not policy.validated and self._channels.kafka:
            raise ModelError(
                f"{topic} is not validated and is stored in Kafka directly",
                hint="read it with Spark's format('kafka'); the storage parties do not keep it",
            )
        if self._validate and not policy.validated and topic not in self._warned:
            self._warned.add(topic)
            _LOGGER.warning(
                "%s is not validated, so guarantee=extended returns no events pushed to it now;"
                " use guarantee=basic to read it",
                topic,
            )
        return policy.partitions

    async def _follow(self) -> None:
        await self._replica.follow_to_end(self.timeout_s)

    async def _ask_bounds(self, place: Place) -> Bounds:
        """Returns the bounds of a partition that the topic's storage party reports."""
        name = self.ledger.memberships.party_of(place[0])
        party = next(each for each in self._channels.storage if each.name == name)
        try:
            first = await party.fetch_plain(PartitionName(*place), 0, 1, 0)
            last = await party.fetch_plain(PartitionName(*place), FROM_END, 1, 0)
        except FAILURES as error:
            raise EnvironmentFailure(
                f"the storage party {party.name} of {place[0]} does not answer: {error}",
                "check that it runs: `veristream kabis status`",
            ) from error
        low_water = first.low_water if isinstance(first, Below) else 0
        return Bounds(low_water, low_water if isinstance(last, Below) else last.end)

    def _run(self, work: Coroutine[Any, Any, Value]) -> Value:
        try:
            return self._thread.run(work)
        except TimeoutError:
            raise EnvironmentFailure(
                f"the chain {self._genesis.chain_id} does not answer within {self.timeout_s:g} s:"
                " too few validators answer",
                "check which parties run: `veristream kabis status`; option timeoutSeconds sets the limit",
            ) from None

    def close(self) -> None:
        """Closes the channels."""
        try:
            self._thread.run(self._channels.close())
        finally:
            self._thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _call(work: Callable[[], Awaitable[Value]]) -> Value:
    return await work()
