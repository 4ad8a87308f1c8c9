"""What killed parties left on disk: every log opens, and holds what its party answered for."""

from __future__ import annotations

from pathlib import Path

from tests.kabis.kills.producing import PARTITIONS, TOPIC
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.state import Admission
from veristream.kabis.log.disk.log import Log
from veristream.kabis.log.disk.repair import check
from veristream.kabis.ordering.store import BlockStore, RecordStore
from veristream.kabis.protocol.blocks import Block, CertifiedBlock
from veristream.kabis.protocol.keys import load_key
from veristream.kabis.storage.core import StorageCore
from veristream_testing.storage_client import fetch_digest

ANY_BYTES = 1 << 40


def check_files(folder: ClusterFolder) -> Ledger:
    """Opens all logs of a cluster that does not run; gives the ledger of the validator that is furthest.

    Nothing is damaged, no two validators have different blocks at one height, nobody stands accused, and a
    storage party has every batch that was admitted on its receipt.
    """
    genesis = folder.genesis()
    chains = {party.name: _open_validator(folder, party.name) for party in genesis.validators}
    longest = max(chains.values(), key=len)
    for name, chain in chains.items():
        assert chain == longest[: len(chain)], f"{name} has another block at a height"
    ledger = Ledger(genesis, lambda public, message, signature: None)  # the others' votes were checked
    for block in longest:
        ledger.apply(block)
    assert ledger.accusations() == {}, "nobody has lied"
    for party in genesis.storage:
        vouched = [each for each in _admissions(ledger) if party.name in each.parties]
        _check_storage(folder, party.name, vouched)
    return ledger


def _open_validator(folder: ClusterFolder, name: str) -> list[Block]:
    """The validator's chain; what it remembers of its votes can be read too."""
    blocks_path, records_path = folder.party(name) / "blocks", folder.party(name) / "records"
    assert check(blocks_path) == check(records_path) == []
    with Log(blocks_path) as blocks, Log(records_path) as records:
        store = BlockStore(blocks)
        RecordStore(records).recover(store.height + 1)
        return [CertifiedBlock.decode(each).block for each in store.slice(1, store.height, ANY_BYTES)]


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
