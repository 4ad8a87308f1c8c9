"""The chain that benches of age are made on: it is one that validators accept, and stays within limits."""

from __future__ import annotations

from pathlib import Path

from veristream.kabis.log.disk.log import Log
from veristream.kabis.ordering.snapshots import Retained, SnapshotFolder
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.keys import verify
from veristream_testing.long_chain import TOPIC, Growth, LongChain, make_genesis

BATCHES = 300
GROWTH = Growth(batches_per_block=10, keep_batches=50, retained=Retained(5, 5), segment_bytes=1 << 15)


def test_a_validator_opens_a_long_chain_from_its_snapshot(tmp_path: Path) -> None:
    genesis = make_genesis()
    with LongChain(tmp_path, genesis, GROWTH) as chain:
        chain.grow(BATCHES)
        made = chain.ledger
    with Log(tmp_path / "blocks") as log:
        store = BlockStore(log, SnapshotFolder(tmp_path / "snapshots"))
        ledger = store.open(genesis, verify)
        assert (ledger.height, ledger.last_id) == (made.height, made.last_id)
        assert ledger.state_hash() == made.state_hash()
        assert 1 < store.first <= made.height - GROWTH.retained.keep_blocks + 1
        last = CertifiedBlock.decode(store.encoded(store.height))
        last.certificate.verify(genesis.chain_id, genesis.validator_keys)
    partition = ledger.partition(TOPIC, 0)
    assert (partition.low_water, partition.next_index) == (BATCHES - GROWTH.keep_batches, BATCHES)
