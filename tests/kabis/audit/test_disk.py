"""The parties' files: planted faults are found without Spark, and damage is told from a torn end."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench._audit import PLANTED, STORAGE, Plan, sign_of, write_chain
from tests.kabis.audit.here import audit_files
from veristream.errors import EnvironmentFailure
from veristream.kabis.audit import disk
from veristream.kabis.audit.disk import Damage
from veristream.kabis.log.disk.segment import HEADER_BYTES, encode_frame
from veristream.kabis.protocol.genesis import load_genesis

CLEAN = Plan(batches=24, batch_events=3, faults=0)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 2**32))
def test_every_planted_fault_is_found_and_nothing_else(seed: int) -> None:
    with TemporaryDirectory() as folder:
        planted = write_chain(Path(folder), Plan(batches=60, batch_events=2, faults=2, seed=seed))
        findings, _ = audit_files(Path(folder))
    assert {sign_of(each) for each in findings} == planted
    assert {kind for kind, *_ in planted} == set(PLANTED)


def test_a_chain_without_faults(tmp_path: Path) -> None:
    assert write_chain(tmp_path, CLEAN) == set()
    findings, tallies = audit_files(tmp_path)
    assert findings == []
    ledger = [tally for tally in tallies if not tally.party]
    assert (len(ledger), sum(tally.good for tally in ledger), sum(tally.events for tally in ledger)) == (
        8,
        24,
        72,
    )
    for party in STORAGE:
        own = [tally for tally in tallies if tally.party == party]
        assert (sum(t.vouched for t in own), sum(t.good for t in own), sum(t.events for t in own)) == (
            16,
            24,
            72,
        )


def segment_of(folder: Path, party: str) -> Path:
    (path,) = (folder / party / "log").glob("*.segment")
    return path


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_a_damaged_record_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    write_chain(tmp_path, CLEAN)
    path = segment_of(tmp_path, "storage-1")
    flip(path, HEADER_BYTES + 200)
    findings, _ = audit_files(tmp_path)
    kinds = [(each.kind, each.accused, each.detail) for each in findings]
    assert kinds == [
        ("damaged", "storage-1", f"{path} at byte {HEADER_BYTES}: the checksum of a record is wrong"),
        ("withheld", "storage-1", "it signed a receipt for the batch but does not return it"),
    ]


def test_behind_a_damaged_frame_nothing_can_be_read(tmp_path: Path) -> None:
    write_chain(tmp_path, CLEAN)
    path = segment_of(tmp_path, "storage-2")
    flip(path, HEADER_BYTES + 3)
    assert [type(each) for each in disk.read_segment(str(path))] == [Damage]
    findings, _ = audit_files(tmp_path)
    assert {each.accused for each in findings} == {"storage-2"}
    assert sorted(each.kind for each in findings) == ["damaged"] + ["withheld"] * 16


def test_a_segment_whose_head_is_damaged(tmp_path: Path) -> None:
    write_chain(tmp_path, CLEAN)
    path = segment_of(tmp_path, "storage-2")
    flip(path, 0)
    (damage,) = disk.read_segment(str(path))
    assert isinstance(damage, Damage)
    assert "the header of the segment is not whole" in damage.detail


@pytest.mark.parametrize(
    "torn", [b"rubbish", encode_frame(24, [b"a record"])[:9], encode_frame(24, [b"12"]) + b"1"]
)
def test_a_torn_end_is_no_damage(tmp_path: Path, torn: bytes) -> None:
    write_chain(tmp_path, CLEAN)
    path = segment_of(tmp_path, "storage-3")
    with path.open("ab") as file:
        file.write(torn)
    assert len(list(disk.read_segment(str(path)))) == 24
    findings, _ = audit_files(tmp_path)
    assert findings == []


def test_a_segment_that_was_cut_is_damage(tmp_path: Path) -> None:
    write_chain(tmp_path, CLEAN)
    path = segment_of(tmp_path, "storage-3")
    path.write_bytes(path.read_bytes()[:-10])
    findings, _ = audit_files(tmp_path)
    assert {each.accused for each in findings} == {"storage-3"}
    assert sorted({each.kind for each in findings}) == ["damaged", "withheld"]


def test_blocks_that_cannot_be_read_end_the_audit(tmp_path: Path) -> None:
    write_chain(tmp_path, CLEAN)
    (path,) = (tmp_path / "validator-1" / "blocks").glob("*.segment")
    flip(path, HEADER_BYTES + 100)
    with pytest.raises(EnvironmentFailure, match="blocks of validator-1 cannot be read"):
        audit_files(tmp_path)


def test_a_folder_without_blocks_is_told(tmp_path: Path) -> None:
    write_chain(tmp_path, CLEAN)
    genesis = load_genesis(tmp_path / "genesis.json")
    with pytest.raises(EnvironmentFailure, match="has no validator's blocks"):
        disk.block_segments(tmp_path / "elsewhere", genesis)
