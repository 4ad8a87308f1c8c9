"""Backups of validators whose blocks are pruned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kabis.ordering.test_snapshots import GENESIS, LENGTH, fill
from veristream.errors import ModelError
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.log.disk.log import Log, LogOptions
from veristream.kabis.log.disk.segment import HEADER_BYTES
from veristream.kabis.operations.backup import make_backup, restore_all, restore_parties
from veristream.kabis.ordering.snapshots import SnapshotFolder
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.protocol.keys import verify


@pytest.fixture
def pruned(tmp_path: Path) -> Cluster:
    """A cluster whose validator has pruned blocks, a whole snapshot, and a newer one without a manifest."""
    cluster = Cluster(ClusterFolder(tmp_path / "cluster"))
    cluster.create(1)
    folder = cluster.folder_of("validator-1")
    with Log(folder / "blocks", LogOptions(segment_bytes_max=HEADER_BYTES + 2_000)) as log:
        assert fill(log, SnapshotFolder(folder / "snapshots"), keep_blocks=2).first > 1
    (folder / "snapshots" / "99").mkdir()
    return cluster


def open_height(folder: Path) -> int:
    with Log(folder / "blocks") as log:
        return BlockStore(log, SnapshotFolder(folder / "snapshots")).open(GENESIS, verify).height


def test_a_validator_with_pruned_blocks_is_restored(pruned: Cluster, tmp_path: Path) -> None:
    make_backup(pruned, tmp_path / "a.tar")
    target = ClusterFolder(tmp_path / "new")
    restore_all(tmp_path / "a.tar", target, give_up_later=True)
    assert [path.name for path in (target.path / "validator-1" / "snapshots").iterdir()] == ["15"]
    assert open_height(target.path / "validator-1") == LENGTH


def test_a_party_is_restored_only_where_no_snapshots_are(pruned: Cluster, tmp_path: Path) -> None:
    make_backup(pruned, tmp_path / "a.tar", ["validator-1"])
    folder = pruned.folder_of("validator-1")
    (folder / "blocks").rename(tmp_path / "blocks")
    with pytest.raises(ModelError, match="is not empty: it has snapshots"):
        restore_parties(tmp_path / "a.tar", pruned, ["validator-1"])
    (folder / "snapshots").rename(tmp_path / "snapshots")
    (folder / "snapshots").mkdir()
    restore_parties(tmp_path / "a.tar", pruned, ["validator-1"])
    assert open_height(folder) == LENGTH
