"""What killed parties left on disk: every log opens, and holds what its party answered for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.kabis.kills.producing import PARTITIONS, TOPIC
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
from veristream.kabis.storage.core import StorageCore
from veristream_testing.storage_client import fetch_digest

ANY_BYTES = 1 << 40


def check_files(folder: ClusterFolder) -> Ledger:
    """Opens all logs of a cluster that does not run; gives the ledger of the validator that is furthest.

    Nothing is damaged, no two validators have different blocks or states at one height, nobody stands
    accused, and a storage party has every batch that was admitted on its receipt. What a validator has
    pruned is known from its snapshot, whose state has all admissions of a chain without retention.
    """
    genesis = folder.genesis()
    chains = {party.name: _open_validator(folder, party.name) for party in genesis.validators}
    furthest = max(chains.values(), key=lambda chain: chain.ledger.height)
    for name, chain in chains.items():
        for height in chain.blocks.keys() & furthest.blocks.keys():
            assert chain.blocks[height] == furthest.blocks[height], f"{name} has another block {height}"
        assert chain.ledger.state_hash() == furthest.state_after(chain.ledger.height), f"{name}: state"
    ledger = furthest.ledger
    assert ledger.accusations() == {}, "nobody has lied"
    for party in genesis.storage:
        vouched = [each for each in _admissions(ledger) if party.name in each.parties]
        _check_storage(folder, party.name, vouched)
    return ledger


def count_pruned(folder: ClusterFolder) -> int:
    """How many blocks the validator that pruned most has pruned."""
    return max(_open_validator(folder, party.name).pruned for party in folder.genesis().validators)


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
        assert following is not None, f"block {height + 1} is pruned, and a validator still needs it"
        return following.header.state


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


def _check_storage(folder: ClusterFolder, name: str, vouched: list[Admission]) -> None:
    path: Path = folder.party(name)
    assert check(path / "log") == []
    with Log(path / "log") as log:
        core = StorageCore(folder.genesis(), name, load_key(path / "key"), log)
        assert core.lost_count == 0
        missing = [each for each in vouched if not isinstance(fetch_digest(core, each.digest), bytes)]
        assert missing == [], f"{name} gave receipts for what it does not have"
        assert core.evidence(TOPIC) == [], "no producer has signed twice"
