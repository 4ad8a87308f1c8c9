"""After a change of the storage parties, each copies what was admitted before and it lacks from the others.

A party that joins lacks everything that is kept. One that was there may have been down, and lack a batch of
which only F + 1 parties gave receipts; one of these has left now, so fewer than F + 1 in force may have it.
It knows the digests of the admitted batches from the chain, so it accepts nothing else, whoever returns it.
A party that is silent, lies or lacks a batch only costs time: others are asked. What was copied is in the
log, so a restarted party goes on where it was. Whatever it copies was admitted long ago and has receipts of
others, so it signs no receipt for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Storage
from veristream.kabis.log.disk.files import Full
from veristream.kabis.protocol.batch import BatchError, PackedBatch
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.keys import SignatureError, Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import Memberships
from veristream.kabis.protocol.partitions import StreamName
from veristream.kabis.storage.chain import ChainView
from veristream.kabis.storage.commit import Committer
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.messages import Standing

_LOGGER = logging.getLogger(__name__)

AT_ONCE = 8
BYTES_PER_S = 32 << 20
"""How fast it copies at most, so that the other parties can serve their clients."""
PATIENCE_S = 2.0
SHUNNED_S = 10.0
RETRY_S = 1.0
RETRY_S_MAX = 60.0
TELL_EVERY_S = 10.0
LOOKED_AT_ONCE = 500


class WrongCopyError(Exception):
    """The answer of a party is not the batch that was admitted."""


@dataclass(slots=True)
class Progress:
    """How many batches were copied, how many are missing, and how many wrong answers others gave.

    `missing` counts one too many until everything was looked at once. All is there that was admitted before
    the storage parties changed at the height `complete`; None if the party does not copy.
    """

    missing: int = 0
    copied: int = 0
    refused: int = 0
    complete: int | None = field(default=None, compare=False)

    def count_missing(self, memberships: Memberships) -> int:
        """Returns `missing`, or one if the storage parties changed, or will, since all was looked at."""
        is_due = self.complete is not None and memberships.storage_since() > self.complete
        return self.missing or int(is_due)


@dataclass(frozen=True, slots=True)
class Wanted:
    """An admitted batch that the party lacks."""

    stream: StreamName
    first_sequence: int
    digest: bytes


class Backfill:
    """Copies what a party lacks from `donors`, while it runs; `progress` says how far it is."""

    def __init__(
        self,
        core: StorageCore,
        view: ChainView,
        committer: Committer,
        donors: Callable[[], Sequence[Storage]],
        progress: Progress,
        verify: Verify = verify_signature,
    ) -> None:
        progress.missing, progress.complete = int(view.memberships.has_joined(core.seat.name)), 0
        self.progress = progress
        self._core, self._view, self._committer = core, view, committer
        self._donors, self._verify = donors, verify
        self._shunned_s: dict[str, float] = {}
        self._next_s = self._tell_s = 0.0

    async def run(self) -> None:
        """Waits for a change of the storage parties, and copies what the party lacks from before.

        It waits until the party is a member afterwards, and returns once it lacks nothing. The next call
        waits for the next change. A restarted party looks again whether it has everything.
        """
        while not (since := self._find_change()):
            await asyncio.sleep(RETRY_S)
        self.progress.missing = 1
        until, height = dict(self._view.places()), self._view.height
        wait_s, patience_s = RETRY_S, PATIENCE_S
        while await self._count_missing(until):
            _LOGGER.info("copies %d batches from other parties", self.progress.missing)
            await self._copy_all(until, patience_s)
            if not await self._count_missing(until):
                break
            _LOGGER.warning("%d batches cannot be copied now: no party returns them", self.progress.missing)
            await asyncio.sleep(wait_s)
            wait_s, patience_s = min(2 * wait_s, RETRY_S_MAX), min(2 * patience_s, RETRY_S_MAX)
        self.progress.complete = since
        _LOGGER.info(
            "has all batches up to block %d that are kept; %d were copied", height, self.progress.copied
        )

    def _find_change(self) -> int:
        """Returns the height of a change before which the party may lack batches, or 0."""
        seat = self._core.seat
        if not self._view.is_current or seat.standing is not Standing.MEMBER:
            return 0
        since = self._view.memberships.storage_since(seat.next_height)
        return since if since > (self.progress.complete or 0) else 0

    def _find_missing(self, until: dict[tuple[str, int], int]) -> Iterator[Wanted | None]:
        """Yields the batches that are missing, each partition's in their order, and None for others."""
        for place, end in until.items():
            index = 0
            while (found := self._view.admitted_from(place, index)) is not None and found[0] <= end:
                index, stream, first_sequence, digest = found
                each = Wanted(stream, first_sequence, digest)
                yield each if self._lacks(each) and not self._view.is_skipped(each.digest) else None

    def _lacks(self, wanted: Wanted) -> bool:
        return self._core.lacks(wanted.stream, wanted.first_sequence, wanted.digest)

    async def _count_missing(self, until: dict[tuple[str, int], int]) -> int:
        missing = 0
        for number, each in enumerate(self._find_missing(until)):
            missing += each is not None
            if number % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
        self.progress.missing = missing
        return missing

    async def _copy_all(self, until: dict[tuple[str, int], int], patience_s: float) -> None:
        """Copies each missing batch that a party returns, several at a time and begun in their order."""
        running: set[asyncio.Task[None]] = set()
        try:
            for number, wanted in enumerate(self._find_missing(until)):
                if wanted is None:
                    if number % LOOKED_AT_ONCE == 0:
                        await asyncio.sleep(0)
                    continue
                if len(running) >= AT_ONCE:
                    done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
                running.add(asyncio.create_task(self._copy(wanted, patience_s)))
            for task in running:
                await task
        finally:
            for task in running:
                task.cancel()

    async def _copy(self, wanted: Wanted, patience_s: float) -> None:
        for donor in self._order(wanted.digest):
            data = await self._ask(donor, wanted, patience_s)
            if data is not None:
                await self._store(wanted, data)
                return

    def _order(self, digest: bytes) -> list[Storage]:
        """Returns the parties in turn by the digest, those that failed lately last."""
        now_s = asyncio.get_running_loop().time()
        donors = list(self._donors())
        turn = digest[0] % max(1, len(donors))
        return sorted(
            [*donors[turn:], *donors[:turn]], key=lambda donor: self._shunned_s.get(donor.name, 0.0) > now_s
        )

    async def _ask(self, donor: Storage, wanted: Wanted, patience_s: float) -> bytes | None:
        """Returns the batch if a party has it, and otherwise asks others first for a while."""
        try:
            async with asyncio.timeout(patience_s):
                answer = await donor.fetch_bytes(wanted.digest)
            if not isinstance(answer, bytes):
                return None
            await self._pace(len(answer))
            self._check(wanted, answer)
        except WrongCopyError as error:
            self.progress.refused += 1
            _LOGGER.warning("%s returned a wrong batch, another party is asked: %s", donor.name, error)
        except FAILURES as error:
            _LOGGER.debug("%s does not return a batch: %s", donor.name, error)
        else:
            return answer
        self._shunned_s[donor.name] = asyncio.get_running_loop().time() + SHUNNED_S
        return None

    def _check(self, wanted: Wanted, data: bytes) -> None:
        """Raises WrongCopyError unless it is the admitted batch with its producer's signature."""
        stream = wanted.stream
        try:
            batch = PackedBatch.decode(data)
            if batch.signed.header.digest() != wanted.digest:
                raise WrongCopyError("another batch than was asked for")
            public = self._view.key_of(stream.producer, stream.key_epoch)
            assert public is not None, "a batch was admitted under a key"
            batch.signed.verify(public, self._verify)
            batch.verify_contents()
        except (DecodeError, BatchError, SignatureError) as error:
            raise WrongCopyError(str(error)) from error

    async def _pace(self, size_bytes: int) -> None:
        """Waits as long as the rate demands."""
        now_s = asyncio.get_running_loop().time()
        self._next_s = max(now_s, self._next_s) + size_bytes / BYTES_PER_S
        await asyncio.sleep(max(0.0, self._next_s - now_s - PATIENCE_S / AT_ONCE))

    async def _store(self, wanted: Wanted, data: bytes) -> None:
        if self._view.marks.get(wanted.stream, 0) > wanted.first_sequence or not self._lacks(wanted):
            return  # it was released meanwhile, or its producer was faster
        try:
            header = PackedBatch.decode(data).signed.header
            await self._committer.wait_for(self._core.copy(header, wanted.digest, data))
        except Full as failure:
            _LOGGER.warning("cannot copy a batch: %s", failure.message)
            return
        self.progress.copied += 1
        self.progress.missing -= 1
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._tell_s:
            self._tell_s = now_s + TELL_EVERY_S
            _LOGGER.info("%d batches copied, %d missing", self.progress.copied, self.progress.missing)
