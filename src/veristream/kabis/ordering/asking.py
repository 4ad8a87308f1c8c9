"""Queries several untrusted validators: blocks from one at a time, heights from a quorum.

A block is accepted because of its certificate. If a validator has nothing new, does not answer, is slow or
returns a false block, the next one is asked. Changes of the members are followed by the handovers that
validators return. So is it if a validator keeps returning few blocks although
more are decided: it may be slow on purpose. No call waits for all validators. `OrderingClient` and
`CometOrdering` implement the requests to one validator.
"""

from __future__ import annotations

import asyncio
import logging
import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from operator import itemgetter
from typing import Any, Protocol, TypeVar

from veristream.kabis.channels.failures import FAILURES, LyingPartyError
from veristream.kabis.channels.interfaces import OrderingStatus
from veristream.kabis.ledger.certified import ReceiptError
from veristream.kabis.ledger.snapshot import (
    FalseSnapshotError,
    Manifest,
    require_changes,
    verify_manifest,
)
from veristream.kabis.ledger.succession import Handover, Succession
from veristream.kabis.ordering.requests import Evidence
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Remembering
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import MemberRole, Members, Party
from veristream.kabis.protocol.outcomes import Outcome
from veristream.kabis.protocol.receipts import CertificateError
from veristream.kabis.wire.connection import PeerRefusedError, RequestError

FOLLOWED_MAX = 1000
FOLLOW_WAIT_MS = 500
PATIENCE_S = 1.0
"""Time limit for one validator before the next one is asked."""
SLOW_S = 0.5
"""An answer that takes so much longer than it may wait for a block is slow."""
TURN_S = 1.0
"""How long a validator is asked that returns few blocks although more are decided."""
LOOK_EVERY_S = 5.0
"""How often a follower asks for the height of the chain."""
UNREACHED_S = 0.1
LEARN_EVERY_S = 1.0
"""How often validators are asked for changes of the members at most."""
AVOIDED_S = 10.0
"""How long a validator that failed is asked only if all others failed too."""

CHUNKS_MAX = 1024
"""More than the snapshot of any chain with retention has; nobody is made to keep more in memory."""
SOURCE_S = 5.0
"""How long one validator may take for its whole snapshot, before `CHUNK_S` for each chunk is added."""
CHUNK_S = 1.0
CHUNK_S_MAX = 32.0
"""Limit of the time for a chunk, which doubles as long as nobody is fast enough."""
RESTORING_TOLD_S = 0.5
REASON_LENGTH_MAX = 200

_LOGGER = logging.getLogger(__name__)

Value = TypeVar("Value")

Offer = tuple[int, Manifest]
"""A validator, and the manifest that it returns: only its headers are certified, its sizes are claims."""


class HasHeight(Protocol):
    """A validator's status, as it reports it."""

    @property
    def height(self) -> int:
        """Height of its last block."""


class Validators(ABC):
    """All validators of a chain; implements `interfaces.Ordering`."""

    def __init__(self, genesis: Genesis) -> None:
        self._genesis = genesis
        self.members = genesis.members
        """The latest known members, pending ones included; requests name validators by their position."""
        self._succession = Succession(genesis)
        self._verify = Remembering(verify_signature)
        self._preferred = random.randrange(len(genesis.validators))
        self._avoided_until = [0.0] * len(genesis.validators)
        self._heeded: tuple[tuple[int, Members], ...] = ()
        self._learned_s: float | None = None
        self._preferred_since = 0.0
        self._chunk_s = CHUNK_S
        self._reported = 0  # the last height that `status` returned
        self._certain = 0  # the last height that a caller knows

    # Requests to one validator

    @abstractmethod
    async def submit(self, validator: int, transaction: bytes) -> Outcome:
        """Submits a transaction to one validator, which forwards it; returns the outcome it expects."""

    @abstractmethod
    async def status_of(self, validator: int) -> HasHeight:
        """Returns the status that one validator reports."""

    @abstractmethod
    async def evidence_of(self, validator: int) -> Evidence:
        """Returns the evidence that one validator reports."""

    @abstractmethod
    def _read_from(
        self, validator: int, first: int, last: int, wait_ms: int
    ) -> AsyncIterator[CertifiedBlock]:
        """Yields the blocks that one validator returns for these heights, unchecked."""

    async def _manifest_of(self, validator: int) -> Manifest:
        """Returns the manifest of a validator's newest snapshot, unchecked."""
        raise RequestError("these validators have no snapshots")

    async def _chunk_of(self, validator: int, height: int, number: int) -> bytes:
        """Returns a chunk of a validator's snapshot, unchecked."""
        raise RequestError("these validators have no snapshots")

    async def _handovers_of(self, validator: int) -> Sequence[Handover]:
        """Returns the changes of the members that a validator knows, unchecked."""
        raise RequestError("these validators do not change")

    async def _handovers_of_anyone(self) -> Sequence[Sequence[Handover]]:
        """Returns what those know who listen at the validators' addresses, whatever keys they have."""
        return ()

    def _turn_to_members(self) -> None:  # noqa: B027 (validators that do not change need none)
        """Connects to the validators among `members`, which have changed."""

    @abstractmethod
    def _is_reached(self, validator: int) -> bool:
        """Whether the validator is connected, so that waiting for it is worthwhile."""

    @abstractmethod
    async def close(self) -> None:
        """Closes all connections."""

    # Blocks

    async def follow(self, height: int) -> AsyncIterator[CertifiedBlock]:
        """Yields decided blocks from this height on, in order, after checking their certificates."""
        looking = asyncio.ensure_future(self._look_around())
        try:
            while True:
                for certified in await self._read_some(height, height + FOLLOWED_MAX, FOLLOW_WAIT_MS):
                    yield certified
                    height += 1
        finally:
            looking.cancel()

    async def _look_around(self) -> None:
        """Keeps asking for the height of the chain, so that a slow validator is noticed."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            with suppress(*FAILURES):
                await self.status()

    async def read(self, first: int, last: int) -> Sequence[CertifiedBlock]:
        """Returns the decided blocks from `first` to `last`, up to the last one that a validator has."""
        found: list[CertifiedBlock] = []
        failures = 0
        while first + len(found) <= last and failures < len(self.members.validators):
            more = await self._read_some(first + len(found), last, 0)
            found += more
            failures = 0 if more else failures + 1
        return found

    async def _read_some(self, first: int, last: int, wait_ms: int) -> list[CertifiedBlock]:
        """Reads from the preferred validator; prefers another if it returns nothing or a bad block."""
        validator = self._preferred
        patience_s = PATIENCE_S + wait_ms / 1000 if self._is_reached(validator) else UNREACHED_S
        good: list[CertifiedBlock] = []
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        try:
            async with asyncio.timeout(patience_s):
                async for certified in self._read_from(validator, first, last, wait_ms):
                    good.append(self._check(certified, first + len(good)))
        except FAILURES:
            if await self.learn():
                return good  # the certificate may be that of new validators
            self._avoid(validator)
            await asyncio.sleep(0.01)  # do not spin on a validator that refuses immediately
        else:
            if loop.time() - asked_s > wait_ms / 1000 + SLOW_S:
                self._avoid(validator)
            elif not good or self._should_hurry(first, last, len(good)):
                self._prefer_another()  # it may withhold blocks
        return good

    def _should_hurry(self, first: int, last: int, count: int) -> bool:
        """Whether a validator returns few of the decided blocks that were asked for, and had its turn."""
        has_more = first + count <= min(last, self._reported)
        return has_more and asyncio.get_running_loop().time() - self._preferred_since > TURN_S

    def _avoid(self, validator: int) -> None:
        self._avoided_until[validator] = asyncio.get_running_loop().time() + AVOIDED_S
        self._prefer_another()

    def _prefer_another(self) -> None:
        """Moves on to the next validator, skipping those that failed recently unless all did."""
        size, now = len(self._avoided_until), asyncio.get_running_loop().time()
        others = [(self._preferred + step) % size for step in range(1, size + 1)]
        self._preferred = min(others, key=lambda number: self._avoided_until[number] > now)
        self._preferred_since = now

    def _check(self, certified: CertifiedBlock, height: int) -> CertifiedBlock:
        header, certificate = certified.block.header, certified.certificate
        if (certificate.height, certificate.block_id, header.height) != (height, header.block_id(), height):
            raise LyingPartyError("a block or a certificate of another height")
        if not self._knows_members(height):
            raise LyingPartyError("a block of validators that have left")
        try:
            keys = self._succession.at(height).validator_keys
            certificate.verify(self._genesis.chain_id, keys, self._verify)
        except CertificateError as error:
            raise LyingPartyError(f"a block that was not decided: {error}") from error
        return certified

    # Members

    @property
    def succession(self) -> Succession:
        """The changes of the members that are known, verified."""
        return self._succession

    def heed(self, changes: Iterable[tuple[int, Members]], height: int) -> None:
        """Tells which changes of the members the caller knows, from blocks that it has verified itself.

        What members before a change certify after it is refused, until the change is proved here too.
        The chain has this height for certain: a key that was replaced before counts for nothing.
        """
        self._heeded, self._certain = tuple(changes), max(self._certain, height)

    def members_at(self, height: int) -> Members:
        """Returns the members in force at a height, as far as changes are proved."""
        return self._succession.at(height)

    def _knows_members(self, height: int) -> bool:
        """Whether the last change up to a height that the caller knows is proved."""
        begun = [each for each in self._heeded if each[0] <= height]
        return not begun or self._is_proved(max(begun, key=itemgetter(0)))

    def _is_proved(self, change: tuple[int, Members]) -> bool:
        begin, members = change
        return begin in self._succession.heights and self._succession.at(begin) == members

    def keys_of(self, party: Party) -> Sequence[bytes]:
        """Returns the keys under which one of `members` may listen.

        It has the key before the last change until that is in force, as far as the chain's height is known.
        """
        begun = self._succession.heights
        if not begun or begun[-1] <= max(self._reported, self._certain) + 1:
            return (party.public,)
        before = self._succession.at(begun[-1] - 1).find(MemberRole.VALIDATOR, party.name)
        return tuple(dict.fromkeys((party.public, *([] if before is None else [before.public]))))

    async def learn(self) -> bool:
        """Asks for changes of the members, now and then; returns whether there is one that was not known.

        F + 1 validators answer, one of which is correct. If fewer can be reached under their keys, or if
        all may have left, as the caller knows of a change that is not proved here, whoever listens at
        their addresses is asked, too: a handover proves itself.
        """
        now = asyncio.get_running_loop().time()
        if self._learned_s is not None and now - self._learned_s < LEARN_EVERY_S:
            return False
        self._learned_s, known = now, len(self._succession.handovers)
        needed, answers = self.members.faults + 1, list[Sequence[Handover]]()
        with suppress(*FAILURES):
            async with asyncio.timeout(PATIENCE_S):
                answers += await self._ask_many(self._handovers_of, needed)
        if len(answers) < needed or not all(map(self._is_proved, self._heeded)):
            answers += await self._handovers_of_anyone()
        for handovers in answers:
            self.know(handovers)
        return len(self._succession.handovers) > known

    def know(self, handovers: Sequence[Handover]) -> None:
        """Adds what the handovers prove, and asks the latest members from now on."""
        try:
            self._succession.extend(handovers, self._verify)
        except ReceiptError as error:
            _LOGGER.warning("a validator returned a false change of the members: %s", error)
        latest = self._succession.latest
        if latest != self.members:
            self.members = latest
            self._avoided_until = [0.0] * len(latest.validators)
            self._preferred %= len(latest.validators)
            self._turn_to_members()

    # Snapshots

    async def snapshot(
        self,
        above: int,
        use: Callable[[Manifest, Sequence[bytes]], Value],
        moved: Callable[[], object] = lambda: None,
    ) -> Value | None:
        """Returns what `use` makes of the newest snapshot above a height; None if there is no good one.

        `use` runs in another thread. A validator whose snapshot it rejects by FalseSnapshotError is named
        in the log, and left for another. So is one that takes too long, and one whose snapshot is too
        large, which it may say truthfully. `moved` is called at each progress.
        """
        asked = (self._offered(number) for number in range(len(self.members.validators)))
        offers = [offer for offer in await asyncio.gather(*asked) if offer is not None]
        usable, members = [each for each in offers if self._is_usable(each, above)], self.members
        for _, manifest in usable:
            self.know(manifest.handovers)
        if self.members != members:
            return await self.snapshot(above, use, moved)  # others are asked, in other positions
        if not usable and await self.learn():
            return await self.snapshot(above, use, moved)
        was_late = False
        for validator, manifest in self._arrange(usable):
            moved()
            try:
                chunks = await self._collect(validator, manifest, moved)
                found = await _run_apart(partial(use, manifest, chunks), moved)
            except FalseSnapshotError as error:
                self._reject(validator, error)
            except FAILURES as error:
                _LOGGER.info("%s does not return its snapshot: %s", self._name(validator), error)
                was_late = was_late or isinstance(error, TimeoutError)
                self._avoid(validator)
            else:
                self._chunk_s = CHUNK_S
                return found
        if was_late:
            self._chunk_s = min(CHUNK_S_MAX, 2 * self._chunk_s)
        return None

    def _is_usable(self, offer: Offer, above: int) -> bool:
        """Whether a manifest is certified, new and of an acceptable size; names the validator if not."""
        validator, manifest = offer
        if manifest.header.height <= above:
            return False
        try:
            known = [(each.height, each.members) for each in self._succession.handovers]
            require_changes(manifest, (*known, *self._heeded))
            verify_manifest(self._genesis, manifest, self._verify)
        except FalseSnapshotError as error:
            self._reject(validator, error)
            return False
        if manifest.chunks > CHUNKS_MAX:  # nobody certified the number, but it may well be true
            many = "the snapshot of %s is too large: %d chunks, and at most %d are taken"
            _LOGGER.warning(many, self._name(validator), manifest.chunks, CHUNKS_MAX)
            return False
        return True

    def _reject(self, validator: int, error: FalseSnapshotError) -> None:
        _LOGGER.warning("%s returned a false snapshot: %s", self._name(validator), error)
        self._avoid(validator)

    def _name(self, validator: int) -> str:
        names = [party.name for party in self.members.validators]
        return names[validator] if validator < len(names) else f"validator {validator}"

    def _arrange(self, offers: Sequence[Offer]) -> list[Offer]:
        """Returns offers by height, the newest first; dubious ones come after all others.

        Those are of validators that failed recently, and of validators that claim more than twice as many
        chunks as F + 1 of them do: one correct validator has so many, and lies about sizes cost memory.
        """
        claims = sorted((manifest.chunks for _, manifest in offers), reverse=True)
        likely = 2 * claims[min(self.members.faults, len(claims) - 1)] if claims else 0
        now = asyncio.get_running_loop().time()

        def rank(offer: Offer) -> tuple[bool, bool, int]:
            validator, manifest = offer
            return self._avoided_until[validator] > now, manifest.chunks > likely, -manifest.header.height

        return sorted(offers, key=rank)

    async def _collect(
        self, validator: int, manifest: Manifest, moved: Callable[[], object]
    ) -> Sequence[bytes]:
        """Returns the chunks of a snapshot; raises TimeoutError if all together take too long."""
        chunks = []
        async with asyncio.timeout(SOURCE_S + self._chunk_s * manifest.chunks):
            for number in range(manifest.chunks):
                chunks.append(await self._chunk_of(validator, manifest.header.height, number))
                moved()
        return chunks

    async def _offered(self, validator: int) -> Offer | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return validator, await self._manifest_of(validator)
        except FAILURES:
            return None

    # Status

    async def status(self) -> OrderingStatus:
        """Returns a height that a correct validator has reached, once 2 F + 1 validators have answered.

        A height is accepted if F + 1 validators claim it, or if one returns its block. If fewer than
        2 F + 1 answer in time, their answers are used; raises TimeoutError if none answers.
        """
        if self._learned_s is None:
            await self.learn()
        faults, claims = self.members.faults, list[tuple[int, int]]()
        try:
            claims += sorted(await self._ask_many(self._claim, 2 * faults + 1), reverse=True)
        except FAILURES:
            if not await self.learn():
                raise
        if not claims or (len(claims) <= 2 * faults and await self.learn()):
            return await self.status()  # others are validators by now
        believed, _ = claims[min(faults, len(claims) - 1)]
        ahead = [self._prove(validator, height) for height, validator in claims if height > believed]
        self._reported = max((believed, *await asyncio.gather(*ahead)))
        return OrderingStatus(self._reported, len(claims), len(claims) > 2 * faults)

    async def spread(self, height: int) -> None:
        """Waits until 2 F + 1 validators return a block, so that every later `status` includes it.

        At least F + 1 of them are correct, and any 2 F + 1 that answer later include one of those.
        """

        async def reach(validator: int) -> None:
            while not await self._prove(validator, height):
                await asyncio.sleep(UNREACHED_S)

        await self._ask_many(reach, 2 * self.members.faults + 1)

    async def _claim(self, validator: int) -> tuple[int, int]:
        return (await self.status_of(validator)).height, validator

    async def _prove(self, validator: int, height: int) -> int:
        """Returns the height if the validator returns its block, otherwise 0."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for certified in self._read_from(validator, height, height, FOLLOW_WAIT_MS):
                    self._check(certified, height)
                    return height
        except FAILURES:
            pass
        return 0

    async def _ask_many(self, ask: Callable[[int], Coroutine[Any, Any, Value]], needed: int) -> list[Value]:
        tasks = {asyncio.ensure_future(ask(number)) for number in range(len(self.members.validators))}
        answers: list[Value] = []
        problems: list[BaseException] = []
        try:
            while tasks and len(answers) < needed:
                done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    try:
                        answers.append(task.result())
                    except FAILURES as error:
                        problems.append(error)
        finally:
            for task in tasks:
                task.cancel()
        if not answers:
            raise self._explain(problems)
        return answers

    def _explain(self, problems: Sequence[BaseException]) -> BaseException:
        """Returns why no validator answered; a refusal only if more than F refuse."""
        refused = [problem for problem in problems if isinstance(problem, PeerRefusedError)]
        if len(refused) > self.members.faults:
            (reason, count), *_ = Counter(map(_printable, refused)).most_common(1)
            agreed = count > self.members.faults  # so that a correct validator says it
            return PeerRefusedError(reason if agreed else "they give different reasons")
        others = [problem for problem in problems if problem not in refused]
        return others[-1] if others else TimeoutError("no validator answers")


async def _run_apart(work: Callable[[], Value], moved: Callable[[], object]) -> Value:
    """Runs work in another thread, which may take long but is bounded; calls `moved` meanwhile."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        while not (await asyncio.wait({task}, timeout=RESTORING_TOLD_S))[0]:
            moved()
        return task.result()
    finally:
        task.cancel()


def _printable(problem: BaseException) -> str:
    return "".join(filter(str.isprintable, str(problem)))[:REASON_LENGTH_MAX]
