"""What admins and auditors do: read the ledger, change topics and keys, export a receipt, list groups.

It trusts certificates and signatures, and no single party.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TypeVar

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Channels, Connect
from veristream.kabis.client.authority import find_key_problem
from veristream.kabis.client.errors import BelowLowWaterError
from veristream.kabis.client.fetching import Fetcher, require_partition
from veristream.kabis.client.following import Progress, Pursuit, follow_chain
from veristream.kabis.ledger.event_receipts import EventReceipt, make_receipt
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Admission
from veristream.kabis.protocol.actions import Action
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.outcomes import NOT_YET, Already, Reason, Refused
from veristream.kabis.protocol.transactions import Author, sign_action

PATIENCE_S = 30.0
FETCH_S = 5.0
SUBMIT_AGAIN_S = 2.0
SPREAD_S = 10.0
"""How long to wait until most validators have the block of an action that is on the ledger."""
LATE_BLOCKS = 2
"""An action that counts from so few blocks ahead comes too late."""
MARGIN_GROWTH, MARGIN_MAX_BLOCKS = 4, 1000
"""How many times further ahead the next attempt is, and how far at most."""

Value = TypeVar("Value")


class ActionRefusedError(ModelError):
    """The ledger refuses an action, and will refuse it later."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(f"the ledger refuses it: {refused}")


class Replica:
    """A copy of the ledger, followed over open channels."""

    def __init__(self, genesis: Genesis, channels: Channels) -> None:
        self.follower = Follower(genesis)
        self.channels = channels
        self.progress = Progress(0)
        self.shown: Callable[[Progress], object] = lambda _: None

    @property
    def ledger(self) -> Ledger:
        """The ledger after the last block that was followed."""
        return self.follower.ledger

    async def follow(self, height: int) -> None:
        """Follows the chain to a height, from whichever validators return true blocks."""
        if self.ledger.height >= height:
            return
        blocks = follow_chain(self.channels.ordering, self.follower, self._take)
        async with aclosing(blocks):
            async for _ in blocks:
                if self.ledger.height >= height:
                    return

    def _take(self, certified: CertifiedBlock) -> None:
        self.follower.follow(certified, _clock_ms())
        self._follow_members()

    def _follow_members(self) -> None:
        self.channels.follow(self.ledger.memberships, self.ledger.height + 1)

    async def follow_to_end(self, patience_s: float = PATIENCE_S) -> None:
        """Follows the chain to the height that the validators report.

        Raises StalledError if nothing comes for `patience_s`; `shown` gets the progress.
        """
        ordering, pursuit = self.channels.ordering, Pursuit(self.follower, patience_s)
        pursuit.shown = self._show
        blocks = follow_chain(ordering, self.follower, self._take, pursuit.reasons)
        async with aclosing(blocks):
            await pursuit.catch_up(ordering, blocks.__anext__)
        self._follow_members()

    def _show(self, progress: Progress) -> None:
        self.progress = progress
        self.shown(progress)

    async def act(self, author: Author, action: Action) -> None:
        """Writes an action to the ledger, and signs it again if another action of the author came first.

        Everyone who reads the ledger after that finds the action, if 2 F + 1 validators keep up.
        """
        transaction, due_s = b"", 0.0
        while True:
            if not transaction:
                account = self.ledger.account(author.name)
                problem = find_key_problem(self.ledger, author)
                if problem is not None or account is None:
                    raise problem or ModelError(f"{author.name} has no account")
                transaction = sign_action(author, account.number + 1, action).encode()
            match self.ledger.preview(transaction, self.follower.time_ms(_clock_ms())):
                case Already():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(SPREAD_S):
                            await self.channels.ordering.spread(self.ledger.height)
                    return
                case Refused(Reason.REPLAYED):
                    transaction = b""
                    continue
                case Refused(reason) as refused if reason not in NOT_YET:
                    raise ActionRefusedError(refused)
                case _:
                    pass
            if time.monotonic() >= due_s:
                await self._submit(transaction)
                due_s = time.monotonic() + SUBMIT_AGAIN_S
            await self._follow_next(due_s)

    async def act_ahead(self, author: Author, make: Callable[[int], Action], margin: int) -> Action:
        """Writes an action that counts from a height on, so many blocks ahead; returns it.

        If the chain is there before the action is in a block, another one counts from further ahead.
        """
        while True:
            height = self.ledger.height + margin
            try:
                action = make(height)
                await self.act(author, action)
                return action
            except ActionRefusedError:
                if height > self.ledger.height + LATE_BLOCKS or margin >= MARGIN_MAX_BLOCKS:
                    raise
            await self.follow_to_end()
            margin = min(MARGIN_MAX_BLOCKS, margin * MARGIN_GROWTH)

    async def _follow_next(self, until_s: float) -> None:
        """Follows the next block, if one comes before the transaction must be submitted again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(until_s - time.monotonic()):
                await self.follow(self.ledger.height + 1)

    async def _submit(self, transaction: bytes) -> None:
        """Submits a transaction until F + 1 validators have taken it."""
        ordering, members = self.channels.ordering, self.ledger.members
        taken = 0
        for number in range(len(members.validators)):
            try:
                async with asyncio.timeout(SUBMIT_AGAIN_S / 2):
                    await ordering.submit(number, transaction)
            except FAILURES:
                continue
            taken += 1
            if taken > members.faults:
                return

    async def receipt(self, topic: str, partition: int, index: int) -> EventReceipt:
        """Returns the receipt of an event."""
        admission = self._find(topic, partition, index)
        blocks = await self.channels.ordering.read(admission.height, admission.height)
        batch = await Fetcher(self.channels.storage, FETCH_S).fetch(admission)
        header = batch.header
        proof, last = self.ledger.prove_key(header.producer, header.key_epoch), self.follower.last
        if not blocks or proof is None or last is None:
            raise EnvironmentFailure(
                f"no validator has block {admission.height}", "see `veristream kabis status`"
            )
        block, position = blocks[0].block, index - admission.first_index
        return make_receipt(
            batch, position, block, blocks[0].certificate, (proof, last), self.ledger.succession
        )

    def _find(self, topic: str, partition: int, index: int) -> Admission:
        policy = self.ledger.topic(topic)
        if policy is not None and not policy.validated:
            raise ModelError(
                f"{topic} is not validated, so its events have no receipts",
                hint=f"veristream kabis topic set {topic} --validated; events pushed from then on have one",
            )
        bounds = require_partition(self.ledger, (topic, partition))
        if index < bounds.low_water:
            raise BelowLowWaterError(topic, partition, index, bounds.low_water)
        admission = next(self.ledger.admissions(topic, partition, index), None)
        if admission is None or not admission.first_index <= index < admission.next_index:
            raise ModelError(
                f"{topic}-{partition} has no event {index}",
                hint=f"its events are {bounds.low_water} to {bounds.next_index - 1}"
                if bounds.next_index > bounds.low_water
                else "it has no events yet",
            )
        return admission


def visit(
    genesis: Genesis,
    connect: Connect,
    work: Callable[[Replica], Awaitable[Value]],
    timeout_s: float = PATIENCE_S,
    shown: Callable[[Progress], object] = lambda _: None,
) -> Value:
    """Opens the channels, follows the chain to its end, does the work and closes.

    The timeout applies to the work, and to the time without progress while the chain is followed.
    """

    async def bounded() -> Value:
        channels = await connect()
        try:
            replica = Replica(genesis, channels)
            replica.shown = shown
            await replica.follow_to_end(timeout_s)
            async with asyncio.timeout(timeout_s):
                return await work(replica)
        except TimeoutError:
            raise EnvironmentFailure(
                f"the chain {genesis.chain_id} does not answer within {timeout_s:.0f} s:"
                " too few validators take part",
                "see which parties run: `veristream kabis status`; start them: `veristream kabis up`",
            ) from None
        finally:
            await channels.close()

    return asyncio.run(bounded())


def act_all(genesis: Genesis, connect: Connect, author: Author, actions: Sequence[Action]) -> None:
    """Writes actions to the ledger, in order."""

    async def work(replica: Replica) -> None:
        for action in actions:
            await replica.act(author, action)

    visit(genesis, connect, work)


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic on the ledger, with the low-water mark and the next index of each partition."""

    name: str
    validated: bool
    bounds: tuple[tuple[int, int], ...]


def list_topics(ledger: Ledger) -> list[TopicState]:
    """Returns all topics, sorted by name."""
    return [
        TopicState(name, topic.validated, tuple(_bounds(ledger, name, topic.partitions)))
        for name, topic in sorted(ledger.topics().items())
    ]


def _bounds(ledger: Ledger, topic: str, partitions: int) -> list[tuple[int, int]]:
    found = [ledger.partition(topic, number) for number in range(partitions)]
    return [(partition.low_water, partition.next_index) for partition in found]


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The position of a consumer group in a partition.

    `lag` counts the events that the group has not committed. It is None if the topic is not validated,
    because then only a storage party knows the end of the partition.
    """

    group: str
    topic: str
    partition: int
    member: str | None
    committed: int | None
    end: int | None
    lag: int | None


def list_lags(ledger: Ledger) -> list[GroupLag]:
    """Returns every group with each of its partitions, sorted by name."""
    return [
        _lag(ledger, group, topic, partition)
        for group in ledger.groups()
        for topic, partition in sorted({*ledger.assignment(group), *ledger.commits(group)})
    ]


def _lag(ledger: Ledger, group: str, topic: str, partition: int) -> GroupLag:
    policy, bounds = ledger.topic(topic), ledger.partition(topic, partition)
    committed = ledger.committed(group, topic, partition)
    reader = ledger.assignment(group).get((topic, partition))
    member = None if reader is None else "/".join(reader)
    if policy is None or not policy.validated:
        return GroupLag(group, topic, partition, member, committed, None, None)
    begin = max(bounds.low_water, committed or 0)
    end = bounds.next_index
    return GroupLag(group, topic, partition, member, committed, end, end - begin)


def _clock_ms() -> int:
    return time.monotonic_ns() // 1_000_000
