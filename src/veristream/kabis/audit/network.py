"""Reads from the parties: blocks from any validator, and all admitted batches from each storage party.

A storage party is asked for ranges of sequence numbers, as by consumers, and then by digest for each
admitted batch that was missing. Answers are checked and described, never trusted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

from veristream.errors import EnvironmentFailure
from veristream.kabis.audit.check import BatchCopy, Condition, describe, inspect
from veristream.kabis.audit.history import History
from veristream.kabis.audit.registry import Registry
from veristream.kabis.channels.failures import FAILURES, LyingPartyError
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client.administration import Replica
from veristream.kabis.client.connect import open_ordering
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.protocol.answers import Below
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Party
from veristream.kabis.protocol.partitions import StreamName
from veristream.kabis.storage.client import StorageClient
from veristream.kabis.wire.connection import RequestError
from veristream.kabis.wire.handshake import Identity

BLOCKS_PER_READ = 500
RANGE_BYTES = 4 << 20
UNADMITTED_MAX = 1000
"""How many batches after the last admitted one are checked; a party could invent any number."""
ASKED_AT_ONCE = 16
PATIENCE_S = 10.0
WORDS_MAX = 300
"""Maximum length of a party's message in a report."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class PartyAccess:
    """How a task connects to the parties; contains the client's secret key.

    `storage` are the storage parties to ask: those that the chain ever had.
    """

    genesis: Genesis
    identity: Identity
    patience_s: float = PATIENCE_S
    storage: tuple[Party, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """An admitted batch to request from a party.

    `is_last` marks the last one of its stream; batches with the same `part` are requested together.
    """

    party: str
    topic: str
    partition: int
    producer: str
    key_epoch: int
    part: int
    sequence: int
    count: int
    digest: bytes
    first_index: int
    is_last: bool

    @property
    def end(self) -> int:
        """The sequence number after its last event."""
        return self.sequence + self.count


def read_height(access: PartyAccess) -> int:
    """Returns a height that a correct validator has reached."""

    async def ask(ordering: Validators) -> int:
        try:
            return (await ordering.status()).height
        except FAILURES as error:
            raise EnvironmentFailure(
                f"no validator of {access.genesis.chain_id} answers: {error}",
                "veristream kabis status shows which parties run; --files reads the parties' files instead",
            ) from error

    return asyncio.run(_with_ordering(access, ask))


def read_history(access: PartyAccess) -> History:
    """Returns the members by height, as a client follows them."""

    async def follow(ordering: Validators) -> History:
        replica = Replica(access.genesis, Channels((), ordering))
        await replica.follow_to_end()
        return History(access.genesis, replica.ledger.memberships.changes)

    return asyncio.run(_with_ordering(access, follow))


def read_blocks(access: PartyAccess, first: int, last: int) -> Iterator[CertifiedBlock]:
    """Yields the blocks of these heights; raises EnvironmentFailure if no validator returns one."""
    with asyncio.Runner() as runner:
        ordering = runner.run(_open(lambda: open_ordering(access.genesis, access.identity)))
        try:
            for height in range(first, last + 1, BLOCKS_PER_READ):
                end = min(last, height + BLOCKS_PER_READ - 1)
                found = runner.run(_read(ordering, height, end, access.patience_s))
                yield from found
        finally:
            runner.run(ordering.close())


async def _read(ordering: Validators, first: int, last: int, patience_s: float) -> list[CertifiedBlock]:
    """Reads all of these blocks, retrying within the time limit."""
    found: list[CertifiedBlock] = []
    deadline_s = asyncio.get_running_loop().time() + patience_s
    while first + len(found) <= last:
        found += await ordering.read(first + len(found), last)
        if asyncio.get_running_loop().time() > deadline_s:
            break
    if first + len(found) <= last:
        raise EnvironmentFailure(
            f"no validator returns block {first + len(found)}",
            "an audit needs all blocks; if the validators pruned them (`keep_blocks`), use --files with a"
            " folder that still has them",
        )
    return found


async def _open(make: Callable[[], Value]) -> Value:
    """Calls `make` inside the running event loop."""
    return make()


async def _with_ordering(
    access: PartyAccess, ask: Callable[[Validators], Coroutine[Any, Any, Value]]
) -> Value:
    ordering = open_ordering(access.genesis, access.identity)
    try:
        return await ask(ordering)
    finally:
        await ordering.close()


def fetch_stored(
    access: PartyAccess, registry: Registry, wanted: Iterable[BatchRequest]
) -> Iterator[BatchCopy]:
    """Yields the parties' copies of these batches, which are sorted by party, stream and sequence.

    Trimmed and skipped batches are not requested.
    """
    due = (each for each in wanted if registry.is_due(each))
    with asyncio.Runner() as runner:
        for party, batches in groupby(due, key=lambda each: each.party):
            member = next(each for each in access.storage if each.name == party)
            client = runner.run(
                _open(lambda: StorageClient(access.identity, member, access.patience_s))  # noqa: B023
            )
            asking = Asking(client, registry)
            try:
                for _, run in groupby(batches, key=_stream_and_part):
                    yield from runner.run(_gather(asking.ask(list(run))))
            finally:
                runner.run(client.close())


def _stream_and_part(wanted: BatchRequest) -> tuple[str, int, str, int, int]:
    return wanted.topic, wanted.partition, wanted.producer, wanted.key_epoch, wanted.part


async def _gather(found: AsyncIterator[BatchCopy]) -> list[BatchCopy]:
    return [each async for each in found]


class Asking:
    """Requests runs of batches from one party; stops waiting for it after its first timeout."""

    def __init__(self, client: StorageClient, registry: Registry) -> None:
        self._client = client
        self._registry = registry
        self._is_silent = False

    async def ask(self, wanted: Sequence[BatchRequest]) -> AsyncIterator[BatchCopy]:
        """Yields the party's copies of consecutive batches of one stream."""
        head = wanted[0]
        stream = StreamName(head.topic, head.partition, head.producer, head.key_epoch)
        is_last = any(each.is_last for each in wanted)
        seen: set[bytes] = set()
        try:
            if not self._is_silent:
                async for stored in self._ask_ranges(stream, wanted[0].sequence, wanted[-1].end, is_last):
                    seen.add(stored.digest)
                    yield stored
                if is_last:
                    for stored in await self._ask_evidence(stream):
                        yield stored
        except (LyingPartyError, RequestError):
            pass  # each batch is requested by digest instead
        except FAILURES:
            self._is_silent = True
        missing = [each for each in wanted if each.digest not in seen]
        room = asyncio.Semaphore(ASKED_AT_ONCE)
        for found in await asyncio.gather(*(self._ask_one(each, room) for each in missing)):
            if found is not None:
                yield found

    async def _ask_ranges(
        self, stream: StreamName, sequence: int, end: int, is_last: bool
    ) -> AsyncIterator[BatchCopy]:
        """Yields batches up to the next part, or a bounded number after the last admitted one."""
        beyond = 0
        while sequence < end or (is_last and beyond < UNADMITTED_MAX):
            answer = await self._client.fetch_range(stream, sequence, RANGE_BYTES)
            before = sequence
            for data in () if isinstance(answer, Below) else answer:
                stored = self._inspect(data, stream)
                if stored is None or (stored.sequence >= end and not is_last):
                    continue
                beyond += stored.sequence >= end
                sequence = max(sequence, stored.end)
                yield stored
            if sequence == before:
                return

    def _inspect(self, data: bytes, stream: StreamName) -> BatchCopy | None:
        """Checks the answer; returns None if it is not a batch of this stream."""
        try:
            stored = inspect(self._registry, self._client.name, data)
        except DecodeError:
            return None
        named = StreamName(stored.topic, stored.partition, stored.producer, stored.key_epoch)
        return stored if named == stream else None

    async def _ask_evidence(self, stream: StreamName) -> list[BatchCopy]:
        """Returns the party's evidence: contradicting headers of the stream."""
        pairs = await self._client.evidence(stream.topic)
        headers = [signed for pair in pairs for signed in pair]
        found = [describe(self._registry, self._client.name, each, Condition.HEADER) for each in headers]
        wanted = (stream.partition, stream.producer, stream.key_epoch)
        return [each for each in found if (each.partition, each.producer, each.key_epoch) == wanted]

    async def _ask_one(self, wanted: BatchRequest, room: asyncio.Semaphore) -> BatchCopy | None:
        """Requests one digest; returns None if the party reports that it does not have it."""
        async with room:
            try:
                if self._is_silent:
                    return _stored_as(wanted, Condition.SILENT)
                answer = await self._client.fetch_bytes(wanted.digest)
            except LyingPartyError:
                return _stored_as(wanted, Condition.ALTERED)
            except RequestError as error:
                return replace(_stored_as(wanted, Condition.REFUSED), detail=_shorten(str(error)))
            except FAILURES:
                self._is_silent = True
                return _stored_as(wanted, Condition.SILENT)
        if not isinstance(answer, bytes):
            return None
        try:
            stored = inspect(self._registry, self._client.name, answer)
        except DecodeError:
            return _stored_as(wanted, Condition.ALTERED)
        return stored if stored.digest == wanted.digest else _stored_as(wanted, Condition.ALTERED)


def _stored_as(wanted: BatchRequest, condition: Condition) -> BatchCopy:
    place = (wanted.topic, wanted.partition, wanted.producer, wanted.key_epoch)
    return BatchCopy(wanted.party, condition, *place, wanted.sequence, wanted.count, wanted.digest)


def _shorten(words: str) -> str:
    """Shortens a party's message to one line of bounded length."""
    line = " ".join(words.split())
    return line if len(line) <= WORDS_MAX else line[: WORDS_MAX - 1] + "…"
