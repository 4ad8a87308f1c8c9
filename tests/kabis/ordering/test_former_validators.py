"""Whoever knows of a change of the validators believes former ones no more, and finds those in force."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.kabis.chain import key_of, make_genesis
from tests.kabis.ledger.changing import FOUNDING, Changing, certify_block, member, replaced, seven
from veristream.kabis.channels.failures import LyingPartyError
from veristream.kabis.client.checkpoint import Checkpoint
from veristream.kabis.client.following import Progress, Pursuit
from veristream.kabis.cluster.rejoining import VOTED_AHEAD, Rejoining, find_snapshot
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ledger.snapshot import FalseSnapshotError, Manifest, Snapshot
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.log.disk.log import Log
from veristream.kabis.ordering import asking
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.snapshots import SnapshotFolder
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.keys import verify
from veristream.kabis.protocol.members import Members
from veristream.kabis.storage.chain import ChainView, catch_up
from veristream.kabis.wire.endpoints import RequestError

GENESIS = make_genesis()
ROTATED = replace(
    FOUNDING,
    validators=tuple(replace(each, public=key_of(each.name, 1).public) for each in FOUNDING.validators),
)
BEGIN, TOP = 4, 8


def chain_of(after: Members | None) -> Changing:
    """A chain whose members change with height 4; or with None, what former keys can certify instead."""
    chain = Changing()
    if after is not None:
        chain.set_members(after, BEGIN)
    chain.grow(TOP)
    return chain


def offer(chain: Changing, top: int = TOP) -> tuple[Manifest, list[bytes]]:
    """A snapshot after the chain's last block, with the block after it."""
    snapshot = Snapshot.take(chain.ledger)
    chain.grow(top + 1)
    chunks = list(snapshot.chunks())
    return snapshot.describe(chain.certified(top + 1), len(chunks)), chunks


@dataclass(frozen=True, slots=True)
class Told:
    height: int


@dataclass(slots=True)
class Source:
    """What one validator returns; it refuses what it does not have."""

    height: int = TOP
    blocks: Sequence[CertifiedBlock] = ()
    snapshot: tuple[Manifest, Sequence[bytes]] | None = None
    handovers: Sequence[Handover] = ()


@dataclass(slots=True)
class Directory:
    """Who listens under which key."""

    sources: dict[bytes, Source] = field(default_factory=dict)
    anyone: list[Source] = field(default_factory=list)


class Asking(Validators):
    """Asks the sources of a directory."""

    def __init__(self, directory: Directory) -> None:
        super().__init__(GENESIS)
        self.directory = directory

    def _source(self, validator: int) -> Source:
        for public in self.keys_of(self.members.validators[validator]):
            if public in self.directory.sources:
                return self.directory.sources[public]
        raise RequestError("nobody listens under this key")

    async def submit(self, *_: object) -> None:  # type: ignore[override]
        raise AssertionError

    async def evidence_of(self, validator: int) -> None:  # type: ignore[override]
        raise AssertionError

    async def status_of(self, validator: int) -> Told:
        return Told(self._source(validator).height)

    async def _read_from(
        self, validator: int, first: int, last: int, wait_ms: int
    ) -> AsyncIterator[CertifiedBlock]:
        for block in self._source(validator).blocks[first - 1 : last]:
            yield block

    async def _manifest_of(self, validator: int) -> Manifest:
        snapshot = self._source(validator).snapshot
        if snapshot is None:
            raise RequestError("there is no snapshot yet")
        return snapshot[0]

    async def _chunk_of(self, validator: int, height: int, number: int) -> bytes:
        snapshot = self._source(validator).snapshot
        assert snapshot is not None
        return snapshot[1][number]

    async def _handovers_of(self, validator: int) -> Sequence[Handover]:
        return self._source(validator).handovers

    async def _handovers_of_anyone(self) -> Sequence[Sequence[Handover]]:
        return [source.handovers for source in self.directory.anyone]

    def _is_reached(self, validator: int) -> bool:
        return True

    async def close(self) -> None:
        pass


def founding(**given: object) -> Directory:
    """Directory in which all founding keys belong to one source."""
    source = Source(**given)  # type: ignore[arg-type]
    return Directory({party.public: source for party in FOUNDING.validators})


def test_a_block_of_former_validators_is_refused_by_whoever_knows_that_they_have_left() -> None:
    forged = certify_block(chain_of(ROTATED).blocks[BEGIN], FOUNDING)
    asked = Asking(Directory())
    assert asked._check(forged, BEGIN + 1) == forged  # with the genesis alone, it cannot know better
    asked.heed([(BEGIN, ROTATED)], 1)
    with pytest.raises(LyingPartyError, match="have left"):
        asked._check(forged, BEGIN + 1)
    before = chain_of(ROTATED).certified_block(BEGIN - 1)
    assert asked._check(before, BEGIN - 1) == before


def test_a_snapshot_of_former_validators_is_refused_by_whoever_knows_that_they_have_left() -> None:
    forged, true = offer(chain_of(None)), offer(chain_of(ROTATED))

    async def take(*changes: tuple[int, Members]) -> object:
        asked = Asking(founding(snapshot=forged))
        asked.heed(changes, 1)
        return await asked.snapshot(0, lambda manifest, chunks: manifest)

    assert asyncio.run(take()) == forged[0]
    assert asyncio.run(take((BEGIN, ROTATED))) is None
    assert asyncio.run(take((TOP + 5, ROTATED))) == forged[0]  # of later members it need not know
    asked = Asking(founding(snapshot=true))
    asked.heed([(BEGIN, ROTATED)], 1)
    assert asyncio.run(asked.snapshot(0, lambda manifest, chunks: manifest.header.height)) == TOP


def test_a_client_that_followed_a_change_takes_no_snapshot_without_it() -> None:
    forged, true, chain = offer(chain_of(None)), offer(chain_of(ROTATED)), chain_of(ROTATED)
    follower = Follower(GENESIS)
    assert follower.verify_snapshot(*forged).height == TOP
    follower.follow(chain.certified_block(1), 0)  # it orders the change
    with pytest.raises(FalseSnapshotError, match="lacks the change of the members from height 4 on"):
        follower.verify_snapshot(*forged)
    assert follower.verify_snapshot(*true).height == TOP


def test_a_storage_party_that_knows_a_change_believes_no_former_validator() -> None:
    chain, forged = chain_of(ROTATED), offer(chain_of(None))
    true = [chain.certified_block(height) for height in range(1, TOP + 1)]
    false = certify_block(replace_time(chain, BEGIN), FOUNDING)
    view = ChainView(GENESIS)
    for block in true[: BEGIN - 1]:
        view.take(block)
    lies = founding(blocks=[*true[: BEGIN - 1], false], height=BEGIN, snapshot=forged)

    async def follow() -> None:
        await catch_up(view, Asking(lies))

    asyncio.run(follow())
    assert view.height == BEGIN - 1


def replace_time(chain: Changing, height: int):  # type: ignore[no-untyped-def]
    """The block of a height with another time: nobody decided it."""
    block = chain.blocks[height - 1]
    return replace(block, header=replace(block.header, time_ms=block.header.time_ms + 1))


def test_a_validator_that_knows_a_change_takes_no_snapshot_without_it(tmp_path: Path) -> None:
    chain, forged = chain_of(ROTATED), offer(chain_of(None))

    async def find(blocks: BlockStore) -> int | None:
        return await find_snapshot(blocks.open(GENESIS, lambda *_: None), blocks, Asking(lies))

    lies = founding(snapshot=forged)
    with Log(tmp_path / "blocks") as log:
        log.append(chain.certified_block(1).encode())
        blocks = BlockStore(log, SnapshotFolder(tmp_path / "snapshots"))
        assert asyncio.run(find(blocks)) is None
        assert blocks.snapshots is not None and blocks.snapshots.heights() == []


def test_who_rejoins_asks_the_validators_in_force_where_it_may_vote_again(tmp_path: Path) -> None:
    """Those that have left tell a height long past; those in force know at which heights it voted."""
    chain = chain_of(ROTATED)
    blocks = [chain.certified_block(height) for height in range(1, TOP + 1)]
    handovers = chain.ledger.succession.handovers
    present = {party.public: Source(TOP - VOTED_AHEAD, blocks) for party in ROTATED.validators}
    past = {party.public: Source(2, blocks) for party in FOUNDING.validators}
    asked = Asking(Directory({**past, **present}, [Source(handovers=handovers)]))

    async def rejoin(store: BlockStore) -> list[int | None]:
        rejoining, tried = Rejoining(store, asked, GENESIS), list[int | None]()
        while not rejoining.may_vote():
            if rejoining.until is None:
                assert await rejoining.ask()
                tried.append(rejoining.until)
                asked.know(handovers)
            else:
                await rejoining.go_on()
        return tried

    with Log(tmp_path / "blocks") as log:
        store = BlockStore(log, SnapshotFolder(tmp_path / "snapshots"))
        assert asyncio.run(rejoin(store)) == [2 + VOTED_AHEAD, TOP]
        assert store.height == TOP


def test_changes_are_learned_though_one_liar_alone_answers() -> None:
    chain = chain_of(ROTATED)
    handovers = chain.ledger.succession.handovers
    directory = Directory({FOUNDING.validators[0].public: Source()}, [Source(handovers=handovers)])
    asked = Asking(directory)
    assert asyncio.run(asked.learn())
    assert asked.members == ROTATED


def test_who_knows_of_a_change_learns_it_though_all_former_validators_keep_quiet_about_it() -> None:
    """Their keys are stolen, and whoever has them answers as all of them did."""
    directory = founding()
    directory.anyone.append(Source(handovers=chain_of(ROTATED).ledger.succession.handovers))
    asked = Asking(directory)
    asked.heed([(BEGIN, ROTATED)], 1)
    assert asyncio.run(asked.learn())
    assert asked.members == ROTATED


def test_false_snapshots_are_a_reason_to_ask_who_the_validators_are() -> None:
    directory, true = founding(snapshot=offer(chain_of(None))), offer(chain_of(ROTATED))
    directory.sources |= {party.public: Source(snapshot=true) for party in ROTATED.validators}
    directory.anyone.append(Source(handovers=true[0].handovers))
    asked = Asking(directory)
    asked.heed([(BEGIN, ROTATED)], 1)
    assert asyncio.run(asked.snapshot(0, lambda manifest, _: manifest)) == true[0]


def test_a_height_is_asked_again_of_validators_that_were_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LEARN_EVERY_S", 0.0)
    chain = chain_of(ROTATED)
    present = {party.public: Source(TOP) for party in ROTATED.validators}
    directory = Directory({FOUNDING.validators[0].public: Source(3)})
    asked = Asking(directory)

    async def ask() -> tuple[int, bool]:
        status = await asked.status()
        return status.height, status.enough

    assert asyncio.run(ask()) == (3, False)
    directory.sources.update(present)
    directory.anyone.append(Source(handovers=chain.ledger.succession.handovers))
    assert asyncio.run(ask()) == (TOP, True)


def test_a_key_counts_until_the_next_one_is_known_to_be_in_force() -> None:
    chain = Changing()
    chain.set_members(ROTATED, 6)
    chain.grow(2)
    asked = Asking(Directory({party.public: Source(2) for party in FOUNDING.validators}))
    asked.know(chain.ledger.succession.handovers)
    old, new = FOUNDING.validators[1], asked.members.validators[1]
    assert asked.members == ROTATED
    assert list(asked.keys_of(new)) == [new.public, old.public]
    assert asyncio.run(asked.status()).height == 2
    asked.directory.sources = {party.public: Source(6) for party in ROTATED.validators}
    assert asyncio.run(asked.status()).height == 6
    assert list(asked.keys_of(new)) == [new.public]


def test_a_replaced_key_counts_for_nothing_above_the_height_that_the_caller_knows() -> None:
    """Whoever stole the former keys cannot tell a client that knows better how far the chain is."""
    asked = Asking(founding(height=TOP + 1000))
    asked.know(chain_of(ROTATED).ledger.succession.handovers)
    new = asked.members.validators[1]
    asked.directory.sources[new.public] = Source(TOP)
    asked.heed([], BEGIN - 2)
    assert list(asked.keys_of(new)) == [new.public, FOUNDING.validators[1].public]
    asked.heed([], BEGIN - 1)
    asked.heed([], 0)  # what is known is not forgotten
    assert list(asked.keys_of(new)) == [new.public]
    assert asyncio.run(asked.status()).height == TOP


def test_a_client_with_a_checkpoint_believes_no_former_key_about_the_height(tmp_path: Path) -> None:
    """Its validators have new keys; whoever has the former ones claims a height that nobody reaches."""
    chain, follower = chain_of(ROTATED), Follower(GENESIS)
    true = [chain.certified_block(height) for height in range(1, TOP + 1)]
    for block in true[:BEGIN]:
        follower.follow(block, 0)
    assert follower.last is not None
    checkpoint = Checkpoint(tmp_path / "checkpoint", GENESIS, verify)
    checkpoint.keep(follower.last, follower.ledger.succession)
    asked = Asking(founding(height=TOP + 1000))
    asked.directory.sources[ROTATED.validators[0].public] = Source(TOP, true)
    asked.know(checkpoint.succession.handovers)
    pursuit = Pursuit(Follower(GENESIS), 1.0)
    pursuit.checkpoint = checkpoint

    async def move() -> None:
        blocks = await asked.read(pursuit.progress.height + 1, TOP)
        assert blocks, "only those with former keys have told of more"
        for block in blocks:
            pursuit._follower.follow(block, 0)

    asyncio.run(pursuit.catch_up(asked, move))
    assert pursuit.progress == Progress(TOP, TOP)


def test_a_snapshot_is_taken_though_it_tells_of_fewer_validators() -> None:
    chain = Changing()
    chain.set_members(seven(FOUNDING), 3)
    chain.grow(4)
    chain.set_members(replaced(FOUNDING, "v0", member("v4")), 7)
    chain.grow(TOP)
    true = offer(chain)
    forged = offer(chain_of(None))
    sources = {party.public: Source(snapshot=true) for party in FOUNDING.validators[1:]}
    sources |= {member(f"v{number}").public: Source(snapshot=true) for number in (7, 8)}
    sources[member("v9").public] = Source(snapshot=forged)
    asked = Asking(Directory(sources))
    asked.know(chain.ledger.succession.handovers[:1])
    assert len(asked.members.validators) == 7
    height: Callable[[Manifest, Sequence[bytes]], int] = lambda manifest, _: manifest.header.height  # noqa: E731
    assert asyncio.run(asked.snapshot(0, height)) == TOP
    assert len(asked.members.validators) == 4
