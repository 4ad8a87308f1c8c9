"""What killed parties left on disk: every log opens, and holds what its party answered for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kabis.kills.producing import PARTITIONS, TOPIC
from veristream.kabis.client.known_members import Seat
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Admission
from veristream.kabis.log.disk.log import Log
from veristream.kabis.log.disk.repair import check
from veristream.kabis.ordering.snapshots import SnapshotFolder
from veristream.kabis.ordering.store import BlockStore, RecordStore
from veristream.kabis.protocol.blocks import Block, CertifiedBlock
from veristream.kabis.protocol.keys import Remembering, load_key
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import MemberRole
from veristream.kabis.storage.core import StorageCore
from veristream_testing.storage_client import fetch_digest

ANY_BYTES = 1 << 40


def check_files(folder: ClusterFolder) -> Ledger:
    """Opens all logs of a cluster that does not run; gives the ledger of the validator that is furthest.

    Nothing is damaged, no two validators have different blocks or states at one height, nobody stands
    accused, and a storage party has every batch that was admitted on its receipt, those who left included.
    Of the storage parties in force, more than F have each batch: the others have copied what those had who
    left. What a validator has pruned is known from its snapshot, whose state has all admissions of a chain
    without retention. A validator may be so far behind that it needs a snapshot.
    """
    seats = folder.members().seats()
    chains = {name: _open_validator(folder, name) for name in _names(seats, MemberRole.VALIDATOR)}
    furthest = max(chains.values(), key=lambda chain: chain.ledger.height)
    ledger = furthest.ledger
    members = folder.members().in_force
    assert ledger.members == members, "the folder knows other members than the ledger"
    for name, chain in chains.items():
        for height in chain.blocks.keys() & furthest.blocks.keys():
            assert chain.blocks[height] == furthest.blocks[height], f"{name} has another block {height}"
        states = {each.state_after(chain.ledger.height) for each in chains.values()} - {None}
        assert states == {chain.ledger.state_hash()}, f"{name} has another state"
    assert ledger.accusations() == {}, "nobody has lied"
    admissions, has = _admissions(ledger), Counter[bytes]()
    for name in _names(seats, MemberRole.STORAGE):
        found = _open_storage(folder, name, [each.digest for each in admissions])
        missing = [each for each in admissions if name in each.parties and each.digest not in found]
        assert missing == [], f"{name} gave receipts for what it does not have"
        has.update(found if members.find(MemberRole.STORAGE, name) is not None else ())
    rare = [each for each in admissions if has[each.digest] <= members.faults]
    assert rare == [], f"no more than F storage parties in force have {len(rare)} batches"
    return ledger


def _names(seats: Iterable[Seat], role: MemberRole) -> list[str]:
    """Who is or was a member, and has run."""
    return [seat.party.name for seat in seats if seat.role is role]


def count_pruned(folder: ClusterFolder) -> int:
    """How many blocks the validator that pruned most has pruned."""
    members = folder.members().in_force
    return max(_open_validator(folder, party.name).pruned for party in members.validators)


@dataclass(frozen=True, slots=True)
class _Chain:
    """The blocks that a validator keeps, by height, and the ledger after the last one."""

    blocks: Mapping[int, Block]
    ledger: Ledger
    pruned: int

    def state_after(self, height: int) -> bytes | None:
        """The hash of the state after a block; None if the next block is gone."""
        if height == self.ledger.height:
            return self.ledger.state_hash()
        following = self.blocks.get(height + 1)
        return None if following is None else following.header.state


def _open_validator(folder: ClusterFolder, name: str) -> _Chain:
    """The validator's chain; its snapshots are good, and what it remembers of its votes can be read too."""
    path = folder.party(name)
    assert check(path / "blocks") == check(path / "records") == []
    with Log(path / "blocks") as blocks, Log(path / "records") as records:
        store = BlockStore(blocks, SnapshotFolder(path / "snapshots"))
        pruned = store.first - 1
        ledger = store.open(folder.genesis(), Remembering(verify_signature))
        RecordStore(records).recover(store.height + 1)
        encoded = store.slice(store.first, store.height, ANY_BYTES)
        kept = [CertifiedBlock.decode(each).block for each in encoded]
    return _Chain({block.header.height: block for block in kept}, ledger, pruned)


def _admissions(ledger: Ledger) -> list[Admission]:
    return [each for partition in range(PARTITIONS) for each in ledger.admissions(TOPIC, partition, 0)]


def _open_storage(folder: ClusterFolder, name: str, digests: Sequence[bytes]) -> set[bytes]:
    """Opens the log of a storage party, which is good; gives those of the batches that it has."""
    path: Path = folder.party(name)
    assert check(path / "log") == []
    with Log(path / "log") as log:
        core = StorageCore(folder.genesis(), name, load_key(path / "key"), log)
        assert core.lost_count == 0
        assert core.evidence(TOPIC) == [], "no producer has signed twice"
        return {digest for digest in digests if isinstance(fetch_digest(core, digest), bytes)}
