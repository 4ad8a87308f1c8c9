"""The chain of a Kabis cluster as a history: admissions, stored batches, groups; and wrong chains."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.kabis.chain import (
    START_MS,
    STORAGE,
    Chain,
    batch_of,
    certificate_for,
    chain_with_topic,
    submitted,
)
from tests.unit.history.foreign.told import tell
from veristream.errors import EnvironmentFailure, ModelError
from veristream.history.events import Event
from veristream.history.foreign.importing import import_history
from veristream.history.foreign.kinds import RecordingKind, detect
from veristream.history.manifest import Manifest, Stream
from veristream.history.store.reader import read_events, validate
from veristream.kabis.log.disk.log import Flush, Log, LogOptions
from veristream.kabis.protocol.actions import CommitOffsets, JoinGroup, LeaveGroup
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import to_json
from veristream.kabis.storage.entries import BatchEntry

FIRST = batch_of(b"a", b"b")
SECOND = batch_of(b"c", sequence=2, previous=FIRST.digest())
OTHER = batch_of(b"x", producer="bob")


def make_chain() -> Chain:
    """Two producers, and a group of two members of which one leaves."""
    chain = chain_with_topic()
    chain.block(submitted(FIRST), submitted(OTHER))
    chain.block(chain.act("bob", JoinGroup("readers", "one", ("orders",), 10_000)))
    chain.block(chain.act("bob", CommitOffsets("readers", "one", 1, (("orders", 0, 2),))))
    chain.block(chain.act("bob", JoinGroup("readers", "two", ("orders",), 10_000)), submitted(SECOND))
    chain.block(chain.act("bob", LeaveGroup("readers", "one")))
    return chain


def write(folder: Path, chain: Chain, stored: dict[str, Iterable[Batch]]) -> Path:
    """Writes the folder of a cluster: what one validator and the storage parties have on disk."""
    folder.mkdir(parents=True, exist_ok=True)
    options = LogOptions(flush=Flush.NEVER)
    with Log(folder / "v0" / "blocks", options) as log:
        for block in chain.blocks:
            log.append(CertifiedBlock(block, certificate_for(block)).encode())
    for party in STORAGE:
        with Log(folder / party / "log", options) as log:
            for batch in stored.get(party, ()):
                log.append(BatchEntry(0, batch.encode()).encode())
    (folder / "genesis.json").write_text(to_json(chain.ledger.genesis), encoding="utf-8")
    return folder


def imported(folder: Path) -> tuple[Manifest, list[Event]]:
    history = folder.parent / "history"
    manifest, count = import_history([folder], history)
    assert validate(history) == count
    return manifest, sorted(read_events(history), key=lambda event: (event.process, event.index))


def test_a_chain(tmp_path: Path) -> None:
    chain = make_chain()
    folder = write(tmp_path / "cluster", chain, {"s0": (FIRST, OTHER), "s2": (SECOND, FIRST)})
    assert detect(folder) is RecordingKind.KABIS
    manifest, events = imported(folder)
    at = [str((block.header.time_ms - START_MS) * 1_000_000) for block in chain.blocks]
    end = str((chain.blocks[-1].header.time_ms + 1 - START_MS) * 1_000_000)
    one, two = "bob/one of readers", "bob/two of readers"
    assert tell(manifest, events) == [
        f"{at[1]} alice: SEND ok orders/0 0:0 @0",
        f"{at[1]} alice: SEND ok orders/0 0:1 @1",
        f"{at[4]} alice: SEND ok orders/0 0:2 @3",
        f"{at[1]} bob: SEND ok orders/0 1:0 @2",
        f"{at[2]} {one}: ASSIGN ok orders/0 by readers",
        f"{at[2]} {one}: ASSIGN ok orders/1 by readers",
        f"{at[3]} {one}: COMMIT ? orders/0 @2 by readers",
        f"{at[3]} {one}: COMMIT ok orders/0 @2 by readers",
        f"{at[4]} {one}: REVOKE ok orders/1 by readers",
        f"{at[5]} {one}: REVOKE ok orders/0 by readers",
        f"{at[4]} {two}: ASSIGN ok orders/1 by readers",
        f"{at[5]} {two}: ASSIGN ok orders/0 @2 by readers",
        f"{end} storage parties: RECEIVE ok orders/0 0:0 @0",
        f"{end} storage parties: RECEIVE ok orders/0 0:1 @1",
        f"{end} storage parties: RECEIVE ok orders/0 1:0 @2",
        f"{end} storage parties: RECEIVE ok orders/0 0:2 @3",
        f"{end} storage parties: READ_TO_END ? orders/0",
        f"{end} storage parties: READ_TO_END ok orders/0 from 0 @4",
    ]
    assert manifest.streams == (Stream("orders"),)
    assert manifest.settings == {"chain": "test-chain", "height": "6"}
    assert {process.host for process in manifest.processes} == {"chain"}
    assert [event.epoch for event in events if event.operation.name in ("ASSIGN", "REVOKE")] == [
        1,
        1,
        2,
        3,
        2,
        3,
    ]


def test_a_batch_that_nobody_has_is_not_received(tmp_path: Path) -> None:
    altered = Batch(SECOND.signed, tuple(leaf[:-1] + b"!" for leaf in SECOND.leaves))
    stray = batch_of(b"stray", sequence=3, previous=SECOND.digest())
    folder = write(tmp_path / "cluster", make_chain(), {"s1": (FIRST, altered, OTHER, stray)})
    told = tell(*imported(folder))
    assert [line.partition(": ")[2] for line in told if "storage" in line] == [
        "RECEIVE ok orders/0 0:0 @0",
        "RECEIVE ok orders/0 0:1 @1",
        "RECEIVE ok orders/0 1:0 @2",
        "READ_TO_END ? orders/0",
        "READ_TO_END ok orders/0 from 0 @4",
    ]


def test_a_chain_that_is_wrong(tmp_path: Path) -> None:
    chain = make_chain()
    gap = Chain(chain.ledger, [*chain.blocks[:2], *chain.blocks[3:]])
    folder = write(tmp_path / "gap", gap, {})
    with pytest.raises(ModelError, match=r"block 4 cannot follow: it has another height"):
        imported(folder)
    assert not (tmp_path / "history" / "history.json").exists()
    empty = write(tmp_path / "empty" / "cluster", Chain(chain.ledger, []), {})
    with pytest.raises(ModelError, match="has no block"):
        imported(empty)
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "genesis.json").write_text(to_json(chain.ledger.genesis))
    with pytest.raises(EnvironmentFailure, match="has no validator's blocks"):
        import_history([tmp_path / "bare"], tmp_path / "h")


def test_a_damaged_block_is_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path / "cluster", make_chain(), {})
    (path,) = (folder / "v0" / "blocks").glob("*.segment")
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(EnvironmentFailure, match="blocks of v0 cannot be read"):
        imported(folder)
