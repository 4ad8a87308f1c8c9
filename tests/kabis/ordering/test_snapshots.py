"""Snapshots of validators: on disk, in a chain whose blocks are pruned, and over the wire."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kabis.chain import Chain, batch_of, certificate_for, make_genesis, submitted
from tests.kabis.ordering.steady import run_steadily
from tests.kabis.ordering.test_client import Validator, World
from veristream.errors import EnvironmentFailure
from veristream.kabis.ledger.event_receipts import CertifiedHeader
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.snapshot import Chunk, Manifest, Snapshot, restore
from veristream.kabis.log.disk.log import Log, LogOptions
from veristream.kabis.log.disk.segment import HEADER_BYTES
from veristream.kabis.ordering import snapshots
from veristream.kabis.ordering.requests import Operation, ReadChunk, split_request
from veristream.kabis.ordering.snapshots import Retained, SnapshotFolder, Taking
from veristream.kabis.ordering.store import BlockStore, PrunedError
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.keys import verify
from veristream.kabis.wire.endpoints import RequestError
from veristream.kabis.wire.handshake import Peer

GENESIS = replace(make_genesis(), version=2)
LENGTH = 20


def make_chain() -> tuple[list[CertifiedBlock], dict[int, Snapshot]]:
    """Twenty blocks with a batch each, and the snapshot after each."""
    chain, previous = Chain(Ledger(GENESIS)), ZERO_DIGEST
    snapshots = {}
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=True)))
    for sequence in range(LENGTH):
        snapshots[chain.ledger.height] = Snapshot.take(chain.ledger)
        if sequence < LENGTH - 1:
            batch = batch_of(b"%d" % sequence, sequence=sequence, previous=previous)
            previous = batch.digest()
            chain.block(submitted(batch))
    return [CertifiedBlock(block, certificate_for(block)) for block in chain.blocks], snapshots


BLOCKS, SNAPSHOTS = make_chain()


def header_of(height: int) -> CertifiedHeader:
    certified = BLOCKS[height - 1]
    return CertifiedHeader(certified.block.header, certified.certificate)


def write(folder: SnapshotFolder, *heights: int) -> None:
    for height in heights:
        assert folder.write(SNAPSHOTS[height], header_of(height + 1)) == height


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log", LogOptions(segment_bytes_max=HEADER_BYTES + 2_000)) as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> SnapshotFolder:
    return SnapshotFolder(tmp_path / "snapshots")


def test_the_last_two_snapshots_are_kept_and_the_newest_is_restored(folder: SnapshotFolder) -> None:
    assert folder.restore(GENESIS, verify) is None
    assert folder.manifest() is None
    write(folder, 4, 9, 14)
    assert folder.heights() == [9, 14]
    ledger = folder.restore(GENESIS, verify)
    assert ledger is not None
    assert (ledger.height, ledger.state_hash()) == (14, BLOCKS[14].block.header.state)
    manifest = Manifest.decode(folder.manifest() or b"")
    chunks = [folder.chunk(14, number) or b"" for number in range(manifest.chunks)]
    assert restore(GENESIS, manifest, chunks).state_hash() == ledger.state_hash()
    assert folder.chunk(14, manifest.chunks) is None and folder.chunk(4, 0) is None


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("name", ["manifest", "chunk-000000"])
@pytest.mark.parametrize("harm", [damage, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_damaged_snapshot_is_skipped_and_named(
    folder: SnapshotFolder, tmp_path: Path, name: str, harm: object, caplog: pytest.LogCaptureFixture
) -> None:
    write(folder, 9, 14)
    assert callable(harm)
    harm(tmp_path / "snapshots" / "14" / name)
    ledger = folder.restore(GENESIS, verify)
    assert ledger is not None and ledger.height == 9
    assert "skipped the snapshot at height 14" in caplog.text


def test_what_a_crash_left_unfinished_is_removed(folder: SnapshotFolder, tmp_path: Path) -> None:
    write(folder, 4)
    (tmp_path / "snapshots" / "next.new").mkdir()
    (tmp_path / "snapshots" / "next.new" / "chunk-000000").write_bytes(b"torn")
    again = SnapshotFolder(tmp_path / "snapshots")
    assert again.heights() == [4]
    assert not (tmp_path / "snapshots" / "next.new").exists()


def split_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of a few leaves each, as the many chunks of a large state."""
    monkeypatch.setattr("veristream.kabis.ledger.snapshot._CHUNK_ROOM", 300)


def test_two_writes_at_once_leave_two_whole_snapshots(
    folder: SnapshotFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    split_small(monkeypatch)
    begun, go_on = threading.Event(), threading.Event()
    source = keeper(10)

    def slowly() -> Iterator[bytes]:
        for number, chunk in enumerate(source.chunks):
            if number == 1:
                begun.set()
                assert go_on.wait(30)
            yield chunk

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(folder._write, slowly(), lambda _: source.manifest)
        assert begun.wait(30)
        second = threads.submit(folder.write, SNAPSHOTS[15], header_of(16))
        wait([second], timeout=0.2)  # it may wait for the first or not: both must become whole
        go_on.set()
        assert (first.result(), second.result()) == (10, 15)
    assert folder.is_whole(10) and folder.is_whole(15)
    assert [path.name for path in sorted((tmp_path / "snapshots").iterdir())] == ["10", "15"]
    damage(tmp_path / "snapshots" / "15" / "manifest")
    ledger = folder.restore(GENESIS, verify)
    assert ledger is not None and ledger.height == 10


@pytest.mark.parametrize("lost", ["manifest", "chunk-000001"])
def test_no_block_is_pruned_for_a_snapshot_that_is_not_whole(
    log: Log, folder: SnapshotFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    split_small(monkeypatch)
    store = BlockStore(log, folder, Retained(5, 2))
    for certified in BLOCKS:
        store.append(certified)
    write(folder, 14)
    (tmp_path / "snapshots" / "14" / lost).unlink()
    store.prune(14)
    assert store.first == 1
    write(folder, 14)
    store.prune(14)
    assert store.first > 1


def test_a_snapshot_that_cannot_be_written_leaves_nothing(folder: SnapshotFolder, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not follow"):
        folder.write(SNAPSHOTS[9], header_of(14))
    assert list((tmp_path / "snapshots").iterdir()) == []


def heights_taken(taking: Taking) -> list[int]:
    """The heights of the snapshots that are due on the way through all blocks."""
    ledger, written = Ledger(GENESIS), []
    for certified in BLOCKS:
        ledger.apply(certified.block)
        header = CertifiedHeader(certified.block.header, certified.certificate)
        due = taking.decided(ledger, header)
        if due is not None:
            assert due[1] == header
            written.append(due[0].header.height)
    return written


def test_a_snapshot_is_due_every_so_many_blocks_once_the_next_one_certifies_it() -> None:
    assert heights_taken(Taking(every_blocks=5)) == [5, 10, 15]


def test_a_snapshot_is_due_earlier_if_blocks_have_many_transactions() -> None:
    counts = [certified.block.header.count for certified in BLOCKS]
    least = sum(counts[:7])
    first, *_ = heights_taken(Taking(every_blocks=1000, transactions_least=least))
    assert first == 7
    assert heights_taken(Taking(every_blocks=1000, transactions_least=sum(counts) + 1)) == []


def test_a_large_state_is_written_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "LEAVES_PER_TRANSACTION", 1 / 1000)
    assert heights_taken(Taking(every_blocks=1000, transactions_least=1)) == []


def test_a_chain_of_version_1_has_no_snapshots() -> None:
    chain = Chain(Ledger(replace(GENESIS, version=1)))
    chain.block(chain.act("admin", SetTopic("orders", 2, validated=True)))
    block = chain.blocks[0]
    assert Taking(1).decided(chain.ledger, CertifiedHeader(block.header, certificate_for(block))) is None


def fill(log: Log, folder: SnapshotFolder, keep_blocks: int) -> BlockStore:
    """All blocks, with a snapshot every five, and blocks pruned after each."""
    store, ledger = BlockStore(log, folder, Retained(5, keep_blocks)), Ledger(GENESIS)
    for certified in BLOCKS:
        ledger.apply(certified.block)
        store.append(certified)
        due = store.decided(ledger, CertifiedHeader(certified.block.header, certified.certificate))
        if due is not None:
            store.prune(store.write(*due))
    store.sync()
    return store


def test_pruned_blocks_are_refused_and_the_rest_suffices(log: Log, folder: SnapshotFolder) -> None:
    store = fill(log, folder, keep_blocks=2)
    assert 1 < store.first <= folder.heights()[-1] + 1
    with pytest.raises(PrunedError, match=f"pruned below block {store.first}; take a snapshot"):
        list(store.slice(store.first - 1, 100, 1 << 20))
    assert len(list(store.slice(store.first, 100, 1 << 20))) == LENGTH - store.first + 1
    assert store.load(store.first - 1) is None and store.load(store.first) is not None
    ledger = BlockStore(log, folder).open(GENESIS, verify)
    assert (ledger.height, ledger.last_id) == (LENGTH, BLOCKS[-1].block.block_id())


def test_blocks_are_kept_as_long_as_asked_for(log: Log, folder: SnapshotFolder) -> None:
    assert fill(log, folder, keep_blocks=0).first == 1


def test_blocks_after_the_last_snapshot_are_never_pruned(log: Log, folder: SnapshotFolder) -> None:
    store = fill(log, folder, keep_blocks=1)
    store.prune(3)
    assert store.first <= folder.heights()[-1] + 1


def test_pruned_blocks_without_a_snapshot_are_an_error(log: Log, folder: SnapshotFolder) -> None:
    fill(log, folder, keep_blocks=2)
    with pytest.raises(EnvironmentFailure, match="no snapshot can be used"):
        BlockStore(log).open(GENESIS, verify)


def test_a_snapshot_ahead_of_the_blocks_begins_the_log_anew(
    log: Log, folder: SnapshotFolder, tmp_path: Path
) -> None:
    for certified in BLOCKS[:3]:
        log.append(certified.encode())
    write(folder, 14)
    store = BlockStore(log, folder)
    assert store.open(GENESIS, verify).height == 14
    assert (store.first, store.height) == (15, 14)
    for certified in BLOCKS[14:]:
        store.append(certified)
    store.sync()
    log.close()
    with Log(tmp_path / "log") as again:
        assert BlockStore(again, folder).open(GENESIS, verify).last_id == BLOCKS[-1].block.block_id()


def test_a_block_is_durable_before_a_snapshot_of_it(
    log: Log, folder: SnapshotFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, durable = BlockStore(log, folder), []
    for certified in BLOCKS[:15]:
        store.append(certified)
    assert log.durable < 15

    def note(snapshot: Snapshot, following: CertifiedHeader) -> int:
        durable.append(log.durable)
        return snapshot.header.height

    monkeypatch.setattr(folder, "write", note)
    assert store.write(SNAPSHOTS[14], header_of(15)) == 14
    assert durable == [15]


class Keeper(Validator):
    """A validator with a snapshot."""

    def __init__(self, manifest: Manifest, chunks: Sequence[bytes]) -> None:
        super().__init__(known=list(BLOCKS))
        self.manifest, self.chunks = manifest, chunks
        self.asked = 0

    async def answer(self, peer: Peer, body: bytes) -> bytes:
        operation, rest = split_request(body)
        match operation:
            case Operation.MANIFEST:
                return self.manifest.encode()
            case Operation.CHUNK:
                self.asked += 1
                number = ReadChunk.decode(rest).number
                if number >= len(self.chunks):
                    raise RequestError("no such chunk")
                return self.chunks[number]
            case _:
                return await super().answer(peer, body)


def keeper(height: int) -> Keeper:
    chunks = list(SNAPSHOTS[height].chunks())
    return Keeper(SNAPSHOTS[height].describe(header_of(height + 1), len(chunks)), chunks)


def forged() -> Keeper:
    """Leaves out the last leaf."""
    good = keeper(18)
    return Keeper(good.manifest, [Chunk(0, Chunk.decode(good.chunks[0]).leaves[:-1]).encode()])


def uncertified() -> Keeper:
    good = keeper(18)
    following = replace(good.manifest.following, certificate=certificate_for(BLOCKS[18].block, (0, 1)))
    return Keeper(replace(good.manifest, following=following), good.chunks)


def endless() -> Keeper:
    good = keeper(18)
    return Keeper(replace(good.manifest, chunks=(1 << 32) - 1), good.chunks)


def withholding() -> Keeper:
    return Keeper(keeper(18).manifest, [])


def take(*validators: Validator | None, above: int = 0) -> int | None:
    async def test() -> None:
        world = World(*validators)
        world.genesis = replace(world.genesis, version=2)
        async with world as client:
            client._timeout_s = 2.0
            for number in range(4):
                if validators[number] is not None:
                    await client.status_of(number)
            found.append(await client.snapshot(above, lambda *given: restore(world.genesis, *given).height))

    found: list[int | None] = []
    run_steadily(test)
    return found[0]


def test_the_newest_snapshot_is_taken() -> None:
    assert take(keeper(4), keeper(14), keeper(9), None) == 14
    assert take(keeper(4), keeper(4), keeper(4), keeper(4), above=4) is None
    assert take(Validator(), Validator(), Validator(), Validator()) is None


@pytest.mark.parametrize("make", [forged, uncertified])
def test_who_returns_a_false_snapshot_is_named_and_left(
    make: object, caplog: pytest.LogCaptureFixture
) -> None:
    assert callable(make)
    liar = make()
    assert take(liar, keeper(9), keeper(4), None) == 9
    assert "v0 returned a false snapshot" in caplog.text
    assert liar.asked <= 1


def test_a_snapshot_that_is_too_large_is_not_called_false(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    liar = endless()
    assert take(liar, keeper(9), keeper(4), None) == 9
    assert "the snapshot of v0 is too large: 4294967295 chunks" in caplog.text
    assert liar.asked == 0
    monkeypatch.setattr("veristream.kabis.ordering.asking.CHUNKS_MAX", 0)
    honest = [keeper(9), keeper(9), keeper(9), keeper(9)]
    assert take(*honest) is None
    assert all(f"the snapshot of v{number} is too large: 1 chunks" in caplog.text for number in range(4))
    assert "false" not in caplog.text
    assert not any(each.asked for each in honest)


def test_who_withholds_its_snapshot_is_left() -> None:
    assert take(withholding(), keeper(9), None, None) == 9
