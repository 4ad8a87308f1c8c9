"""Validators as simulated joiners ask them: the real choice among snapshots, and false ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Protocol, TypeVar

from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.ledger.leaves import decode_leaf, encode_leaf
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.snapshot import Chunk, Manifest
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.ledger.trie import Leaf, hash_leaf, place_of, root_of, update
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.requests import Evidence
from veristream.kabis.ordering.store import BlockStore, PrunedError
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Party
from veristream.kabis.protocol.outcomes import Outcome
from veristream.kabis.protocol.receipts import CommitCertificate, VoteKind, vote_bytes
from veristream.kabis.wire.connection import RequestError
from veristream_testing.simulation.chain import CHAIN, check_signature, key_of
from veristream_testing.simulation.upkeep.plan import SnapshotLie

READ_BYTES = 1 << 20
AHEAD = 3
"""How far above the true one a forged snapshot claims to be."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Offered:
    """An encoded manifest and its chunks."""

    manifest: bytes
    chunks: tuple[bytes, ...]


class Source(Protocol):
    """A validator that answers."""

    def height(self) -> int:
        """Returns the height that it claims."""

    def blocks(self, first: int, last: int) -> list[CertifiedBlock]:
        """Returns its blocks; raises RequestError."""

    def offered(self) -> Offered | None:
        """Returns its newest snapshot."""

    def handovers(self) -> tuple[Handover, ...]:
        """Returns the changes of the members that it tells."""


Reach = Callable[[Party, bool], Source | None]
"""Returns whoever listens at the address of a party, if that has the party's key, or if any key will do."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A validator's status."""

    height: int


class Asking(Validators):
    """Asks those validators that can be reached; no time passes meanwhile."""

    def __init__(self, genesis: Genesis, random: Random, reach: Reach, without: str = "") -> None:
        super().__init__(genesis)
        self._verify = check_signature  # type: ignore[assignment]
        self._random = random
        self._reach = reach
        self._without = without
        self._shown: dict[int, Offered] = {}

    def _source(self, validator: int) -> Source:
        party = self.members.validators[validator]
        for public in self.keys_of(party) if party.name != self._without else ():
            source = self._reach(replace(party, public=public), False)
            if source is not None:
                return source
        raise TimeoutError(f"{party.name} does not answer")

    async def submit(self, validator: int, transaction: bytes) -> Outcome:
        """Nobody who joins submits anything."""
        raise RequestError("not here")

    async def evidence_of(self, validator: int) -> Evidence:
        """Nobody who joins asks for evidence."""
        raise RequestError("not here")

    async def status_of(self, validator: int) -> Claim:
        """Returns the height that a validator claims."""
        return Claim(self._source(validator).height())

    async def _read_from(
        self, validator: int, first: int, last: int, wait_ms: int
    ) -> AsyncIterator[CertifiedBlock]:
        for certified in self._source(validator).blocks(first, last):
            yield certified

    async def _read_some(self, first: int, last: int, wait_ms: int) -> list[CertifiedBlock]:
        """Reads from whoever returns something good first, in random order; then learns who there is."""
        for validator in self._shuffled():
            good: list[CertifiedBlock] = []
            try:
                async for certified in self._read_from(validator, first, last, wait_ms):
                    good.append(self._check(certified, first + len(good)))
            except FAILURES:
                pass
            if good:
                return good
        if await self.learn():
            return await self._read_some(first, last, wait_ms)
        return []

    async def _handovers_of(self, validator: int) -> Sequence[Handover]:
        return self._source(validator).handovers()

    async def _handovers_of_anyone(self) -> Sequence[Sequence[Handover]]:
        sources = [self._reach(party, True) for party in self.members.validators]
        return [source.handovers() for source in sources if source is not None]

    async def _ask_many(self, ask: Callable[[int], Coroutine[Any, Any, Value]], needed: int) -> list[Value]:
        """Asks one after the other, in random order, so that a seed determines who answers first."""
        answers: list[Value] = []
        for validator in self._shuffled():
            try:
                answers.append(await ask(validator))
            except FAILURES:
                continue
            if len(answers) == needed:
                break
        if not answers:
            raise TimeoutError("no validator answers")
        return answers

    async def _manifest_of(self, validator: int) -> Manifest:
        offered = self._source(validator).offered()
        if offered is None:
            raise RequestError("there is no snapshot yet")
        self._shown[validator] = offered
        return Manifest.decode(offered.manifest)

    async def _chunk_of(self, validator: int, height: int, number: int) -> bytes:
        chunks = self._shown[validator].chunks
        if number >= len(chunks):
            raise RequestError(f"there is no chunk {number} of a snapshot at {height}")
        return chunks[number]

    def _is_reached(self, validator: int) -> bool:
        return True

    async def close(self) -> None:
        """Does nothing."""

    def _shuffled(self) -> list[int]:
        numbers = list(range(len(self.members.validators)))
        self._random.shuffle(numbers)
        return numbers


@dataclass(frozen=True, slots=True)
class Honest:
    """A running validator; `published` is how far clients see its blocks."""

    store: BlockStore
    published: int
    ledger: Ledger

    def handovers(self) -> tuple[Handover, ...]:
        """Returns all changes of the members that it knows."""
        return self.ledger.succession.handovers

    def height(self) -> int:
        """Returns the height of its ledger."""
        return self.store.height

    def blocks(self, first: int, last: int) -> list[CertifiedBlock]:
        """Returns its blocks; raises RequestError if they are pruned."""
        try:
            found = list(self.store.slice(first, min(last, self.published), READ_BYTES))
        except PrunedError as error:
            raise RequestError(str(error)) from error
        return [CertifiedBlock.decode(encoded) for encoded in found]

    def offered(self) -> Offered | None:
        """Returns its newest snapshot, as its files are."""
        snapshots = self.store.snapshots
        encoded = None if snapshots is None else snapshots.manifest()
        if snapshots is None or encoded is None:
            return None
        manifest = Manifest.decode(encoded)
        chunks = (snapshots.chunk(manifest.header.height, number) for number in range(manifest.chunks))
        return Offered(encoded, tuple(chunk for chunk in chunks if chunk is not None))


@dataclass(slots=True)
class Liar:
    """A Byzantine validator, which knows what an honest one has."""

    index: int
    lie: SnapshotLie
    random: Random
    known: Callable[[], Honest | None]
    oldest: Offered | None = None
    lies: int = field(default=0)

    def height(self) -> int:
        """Returns any height."""
        honest = self.known()
        height = 0 if honest is None else honest.height()
        return self.random.choice((0, height // 2, height, height + 1000))

    def handovers(self) -> tuple[Handover, ...]:
        """Returns some of the changes."""
        honest = self.known()
        true = () if honest is None else honest.handovers()
        return true[: self.random.randint(0, len(true))]

    def blocks(self, first: int, last: int) -> list[CertifiedBlock]:
        """Returns none."""
        raise RequestError("ask somebody else")

    def offered(self) -> Offered | None:
        """Returns a false snapshot."""
        honest = self.known()
        true = None if honest is None else honest.offered()
        if true is None or not true.chunks:
            return None
        self.oldest = self.oldest or true
        self.lies += 1
        manifest = Manifest.decode(true.manifest)
        match self.lie:
            case SnapshotLie.FORGE_LEAVES:
                return Offered(true.manifest, to_chunks(change(leaves_of(true.chunks))))
            case SnapshotLie.FORGE_VOTES:
                leaves = change(leaves_of(true.chunks))
                return Offered(self._forge(manifest, leaves).encode(), to_chunks(leaves))
            case SnapshotLie.TRUNCATE:
                return Offered(true.manifest, to_chunks(leaves_of(true.chunks)[:-1]))
            case SnapshotLie.STALE:
                return self.oldest
            case SnapshotLie.BOAST:
                return Offered(replace(manifest, chunks=900).encode(), true.chunks)
            case SnapshotLie.MUTE:
                return Offered(true.manifest, ())

    def _forge(self, manifest: Manifest, leaves: Sequence[tuple[bytes, bytes]]) -> Manifest:
        """Returns a manifest of these leaves at a later height, with the liar's own vote for it."""
        placed = [Leaf(place_of(key), hash_leaf(key, value), None) for key, value in leaves]
        state = root_of(update(None, ((leaf.place, leaf) for leaf in placed)))
        header = replace(manifest.header, height=manifest.header.height + AHEAD)
        true = manifest.following.header
        following = replace(true, height=header.height + 1, previous=header.block_id(), state=state)
        message = vote_bytes(CHAIN, VoteKind.PRECOMMIT, following.height, 0, following.block_id())
        votes = ((self.index, key_of(f"v{self.index}").sign(message)),)
        certificate = CommitCertificate(following.height, 0, following.block_id(), votes)
        certified = replace(manifest.following, header=following, certificate=certificate)
        return replace(manifest, header=header, following=certified, leaves=len(leaves))


def leaves_of(chunks: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Returns the leaves in chunks, encoded."""
    return [leaf for chunk in chunks for leaf in Chunk.decode(chunk).leaves]


def change(leaves: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Changes one account: its owner could use a number again."""

    def changed() -> Iterator[tuple[bytes, bytes]]:
        to_change = True
        for key, value in leaves:
            table, name, entry = decode_leaf(key, value)
            if table == "accounts" and to_change:
                to_change = False
                yield encode_leaf((table, name, replace(entry, number=entry.number + 100)))
            else:
                yield key, value

    return list(changed())


def to_chunks(leaves: Sequence[tuple[bytes, bytes]]) -> tuple[bytes, ...]:
    """Returns one chunk with the leaves."""
    return (Chunk(0, tuple(leaves)).encode(),)
