"""Torn tails are cut off exactly, damage is always noticed, repair loses only what cannot be read."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristream.kabis.log.disk.log import Flush, Gap, Log, LogOptions, LogRecord, Lost
from veristream.kabis.log.disk.opening import Torn, scan
from veristream.kabis.log.disk.repair import LostRange, check, repair
from veristream.kabis.log.disk.segment import FRAME_BYTES, HEADER_BYTES, SECTOR_BYTES, Damaged


@pytest.fixture(autouse=True)
def _without_flushes(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests make files and damage them; no power fails, so that nobody needs to wait for a disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)


PAYLOADS = [b"first", b"", b"third record", bytes(range(40)), b"last"]
SMALL = LogOptions(segment_bytes_max=HEADER_BYTES + 400)


def offsets(payloads: list[bytes]) -> list[int]:
    """Where each frame begins, and where the last ends."""
    ends = [HEADER_BYTES]
    for payload in payloads:
        ends.append(ends[-1] + FRAME_BYTES + len(payload))
    return ends


def write_crashed(folder: Path, durable: int) -> Path:
    """A segment as a crash leaves it: all records written, the first few flushed and marked."""
    log = Log(folder)
    for number, payload in enumerate(PAYLOADS):
        if number == durable:
            log.sync()
        log.append(payload)
    path = folder / f"{0:020d}.segment"
    crashed = path.read_bytes()
    log.close()
    path.write_bytes(crashed)
    return path


def flip(path: Path, offset: int, bit: int) -> None:
    """Turns one bit over, in place."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.pwrite(descriptor, bytes([os.pread(descriptor, 1, offset)[0] ^ 1 << bit]), offset)
    finally:
        os.close(descriptor)


def contents(folder: Path) -> tuple[list[bytes | int], Torn | None]:
    with Log(folder) as log:
        return [
            e.payload if isinstance(e, LogRecord) else e.count for e in log.records()
        ], log.recovery.torn


@pytest.mark.parametrize("garbage", [b"", bytes(9), bytes(100), b"\xc5K\x01" + b"\xff" * 60])
def test_cut_at_every_byte(tmp_path: Path, garbage: bytes) -> None:
    whole = write_crashed(tmp_path / "written", durable=0).read_bytes()
    ends = offsets(PAYLOADS)
    assert len(whole) == ends[-1]
    for size in range(HEADER_BYTES, len(whole) + 1):
        folder = tmp_path / str(size)
        folder.mkdir()
        path = folder / f"{0:020d}.segment"
        path.write_bytes(whole[:size] + garbage)
        survivors = sum(end <= size for end in ends[1:])
        found, torn = contents(folder)
        assert found == PAYLOADS[:survivors], size
        cut = size + len(garbage) - ends[survivors]
        assert (torn is not None) == (cut > 0), size
        if torn is not None:
            assert (torn.file, torn.offset, torn.position) == (str(path), ends[survivors], survivors)
            assert torn.bytes_cut == cut
        assert contents(folder) == (PAYLOADS[:survivors], None)
        shutil.rmtree(folder)


def test_a_log_goes_on_after_a_torn_tail(tmp_path: Path) -> None:
    path = write_crashed(tmp_path, durable=2)
    os.truncate(path, offsets(PAYLOADS)[4] + 3)
    with Log(tmp_path) as log:
        assert log.append(b"anew") == 4
    assert contents(tmp_path) == ([*PAYLOADS[:4], b"anew"], None)


def test_a_cut_beneath_the_mark_is_damage(tmp_path: Path) -> None:
    path = write_crashed(tmp_path, durable=3)
    ends = offsets(PAYLOADS)
    whole = path.read_bytes()
    for size in range(HEADER_BYTES, ends[3]):
        path.write_bytes(whole[:size])
        survivors = sum(end <= size for end in ends[1:])
        with pytest.raises(Damaged) as caught:
            Log(tmp_path)
        assert (caught.value.file, caught.value.offset) == (str(path), ends[survivors])
        assert caught.value.position == survivors


def test_every_flipped_bit_of_a_closed_log_is_noticed(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        for payload in PAYLOADS:
            log.append(payload)
    path = tmp_path / f"{0:020d}.segment"
    ends = offsets(PAYLOADS)
    assert path.stat().st_size == ends[-1]
    for offset in range(ends[-1]):
        for bit in range(8):
            flip(path, offset, bit)
            if SECTOR_BYTES <= offset < HEADER_BYTES:
                found = scan(path)
                assert not found.both_marks and found.end_position == 5, (offset, bit)
            else:
                place = max((end for end in ends if end <= offset), default=0)
                assert [(d.file, d.offset) for d in check(tmp_path)] == [(str(path), place)], (offset, bit)
            flip(path, offset, bit)
    assert check(tmp_path) == []


def test_a_flipped_bit_is_damage_at_opening_and_a_torn_mark_is_reported(tmp_path: Path) -> None:
    with Log(tmp_path) as log:
        for payload in PAYLOADS:
            log.append(payload)
    path = tmp_path / f"{0:020d}.segment"
    for offset in range(0, path.stat().st_size, 5):
        flip(path, offset, 2)
        if SECTOR_BYTES <= offset < HEADER_BYTES:
            with Log(tmp_path) as log:
                assert log.recovery.marks_torn == (str(path),)
                assert log.end == 5
            assert scan(path).both_marks
            continue
        with pytest.raises(Damaged) as caught:
            Log(tmp_path)
        assert caught.value.file == str(path)
        assert f"at byte {caught.value.offset}" in caught.value.message
        flip(path, offset, 2)


def test_every_flipped_bit_after_a_crash_is_damage_beneath_the_mark_and_a_tear_above(
    tmp_path: Path,
) -> None:
    path = write_crashed(tmp_path, durable=3)
    ends = offsets(PAYLOADS)
    for offset in range(HEADER_BYTES, ends[-1]):
        flip(path, offset, 4)
        found = scan(path)
        flip(path, offset, 4)
        survivors = sum(end <= offset for end in ends[1:])
        assert found.fault is not None and found.end_position == survivors, offset
        assert (found.damage(str(path)) is not None) == (survivors < 3), offset


def test_a_frame_in_another_place_is_damage(tmp_path: Path) -> None:
    """Two whole frames of one size, exchanged: every checksum is good, the order is not."""
    path = segmented(tmp_path, 5)[0]
    size = FRAME_BYTES + 40
    data = bytearray(path.read_bytes())
    first, second = HEADER_BYTES + size, HEADER_BYTES + 2 * size
    data[first : first + size], data[second : second + size] = (
        data[second : second + size],
        data[first : first + size],
    )
    path.write_bytes(data)
    with pytest.raises(Damaged, match="record 2 stands where record 1 belongs") as caught:
        Log(tmp_path)
    assert (caught.value.offset, caught.value.position) == (first, 1)


def test_neither_mark_whole_is_damage(tmp_path: Path) -> None:
    path = write_crashed(tmp_path, durable=3)
    whole = path.read_bytes()
    path.write_bytes(whole[:SECTOR_BYTES] + bytes(2 * SECTOR_BYTES) + whole[HEADER_BYTES:])
    with pytest.raises(Damaged, match="neither durability mark is whole"):
        Log(tmp_path)


def segmented(folder: Path, count: int = 30) -> list[Path]:
    with Log(folder, SMALL) as log:
        for number in range(count):
            log.append(b"%02d" % number * 20)
    return sorted(folder.glob("*.segment"))


def test_damage_in_an_earlier_segment_stops_a_reader_there_and_nobody_else(tmp_path: Path) -> None:
    paths = segmented(tmp_path)
    data = bytearray(paths[1].read_bytes())
    data[HEADER_BYTES + 2 * (FRAME_BYTES + 40) + FRAME_BYTES + 7] ^= 1
    paths[1].write_bytes(data)
    first = int(paths[1].stem)
    with Log(tmp_path, SMALL) as log:
        with pytest.raises(Damaged) as caught:
            log.read(first + 2)
        assert (caught.value.file, caught.value.position) == (str(paths[1]), first + 2)
        assert caught.value.offset == HEADER_BYTES + 2 * (FRAME_BYTES + 40)
        assert log.read(first + 3) == b"%02d" % (first + 3) * 20
        read = []
        with pytest.raises(Damaged):
            read.extend(log.records())
        assert log.end == 30


def test_a_segment_that_is_gone_is_damage(tmp_path: Path) -> None:
    paths = segmented(tmp_path)
    paths[2].unlink()
    with pytest.raises(Damaged, match="the segment is missing") as caught:
        Log(tmp_path, SMALL)
    assert caught.value.file == str(paths[2])
    first, end = int(paths[2].stem), int(paths[3].stem)
    assert repair(tmp_path) == [LostRange(first, end)]
    with Log(tmp_path, SMALL) as log:
        assert Gap(first, end - first) in list(log.records())
        assert log.read(end) == b"%02d" % end * 20


def test_repair_keeps_all_that_can_be_read(tmp_path: Path) -> None:
    paths = segmented(tmp_path)
    first = int(paths[1].stem)
    damaged = bytearray(paths[1].read_bytes())
    damaged[HEADER_BYTES + FRAME_BYTES + 40 + 3] ^= 1  # the length of the second record
    paths[1].write_bytes(damaged)
    with Log(tmp_path, SMALL) as log, pytest.raises(Damaged):
        log.read(first + 1)
    assert repair(tmp_path) == [LostRange(first + 1, first + 2)]
    assert (tmp_path / (paths[1].name + ".damaged")).read_bytes() == damaged
    assert check(tmp_path) == []
    assert repair(tmp_path) == []
    with Log(tmp_path, SMALL) as log:
        expected = [LogRecord(number, b"%02d" % number * 20) for number in range(30)]
        assert list(log.records()) == [
            Gap(first + 1, 1) if entry.position == first + 1 else entry for entry in expected
        ]
        with pytest.raises(Lost):
            log.read(first + 1)
        assert log.read(first + 2) == expected[first + 2].payload
        assert log.append(b"more") == 30


def test_repair_of_a_durable_tail_that_is_gone(tmp_path: Path) -> None:
    path = segmented(tmp_path, 5)[0]
    os.truncate(path, HEADER_BYTES + 2 * (FRAME_BYTES + 40) + 5)
    with pytest.raises(Damaged):
        Log(tmp_path, SMALL)
    assert repair(tmp_path) == [LostRange(2, 5)]
    with Log(tmp_path, SMALL) as log:
        assert [entry.position for entry in log.records()] == [0, 1, 2]
        assert log.append(b"next") == 5  # what was said to be durable keeps its position, even lost


def test_repair_of_a_header(tmp_path: Path) -> None:
    paths = segmented(tmp_path)
    data = bytearray(paths[1].read_bytes())
    data[:HEADER_BYTES] = bytes(HEADER_BYTES)
    paths[1].write_bytes(data)
    with pytest.raises(Damaged, match="header"):
        Log(tmp_path, SMALL)
    assert repair(tmp_path) == []
    with Log(tmp_path, SMALL) as log:
        assert list(log.records()) == [LogRecord(number, b"%02d" % number * 20) for number in range(30)]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_damage_to_any_file_is_noticed_and_repaired(data: st.DataObject, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("any")
    paths = segmented(folder, 20)
    path = data.draw(st.sampled_from(paths))
    whole = path.read_bytes()
    begin = data.draw(st.integers(0, len(whole) - 1))
    noise = data.draw(st.binary(min_size=1, max_size=200))
    changed = whole[:begin] + noise + whole[begin + len(noise) :]
    path.write_bytes(changed)
    expected = {number: b"%02d" % number * 20 for number in range(20)}
    lost = {number for entry in repair(folder) for number in range(entry.first, entry.end)}
    with Log(folder, SMALL) as log:
        gaps, found = set(), {}
        for entry in log.records():
            if isinstance(entry, Gap):
                gaps |= set(range(entry.position, entry.position + entry.count))
            else:
                found[entry.position] = entry.payload
    assert gaps == lost
    assert {number: payload for number, payload in expected.items() if number not in lost} == found
    shutil.rmtree(folder)


@settings(max_examples=300, deadline=None)
@given(junk=st.binary(max_size=4000))
def test_a_file_of_junk_is_damage_and_nothing_else(junk: bytes, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("junk")
    (folder / f"{0:020d}.segment").write_bytes(junk)
    with pytest.raises(Damaged):
        Log(folder)
    shutil.rmtree(folder)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_when_the_power_fails_what_was_flushed_is_there(seed: int, tmp_path_factory) -> None:
    """After the last flush every sector may be old or new, and the file of any size between the two."""
    generator = random.Random(seed)
    folder = tmp_path_factory.mktemp("power")
    path = folder / f"{0:020d}.segment"
    log = Log(folder, LogOptions(flush=Flush.ALWAYS))
    written: list[bytes] = []

    def append_some() -> None:
        for _ in range(generator.randrange(4)):
            written.append(generator.randbytes(generator.choice((0, 5, 300, 2000))))
            log.append(written[-1])

    flushed, durable = path.read_bytes(), 0
    for _ in range(generator.randrange(4)):
        append_some()
        flushed = path.read_bytes()  # what the flush of this sync makes durable: no mark of its own yet
        durable = log.sync()
    append_some()
    unflushed = path.read_bytes()
    log.close()
    size = generator.randint(len(flushed), len(unflushed))
    old = flushed.ljust(len(unflushed), b"\0")
    sectors = [
        (old if generator.random() < 0.5 else unflushed)[at : at + SECTOR_BYTES]
        for at in range(0, len(unflushed), SECTOR_BYTES)
    ]
    path.write_bytes(b"".join(sectors)[:size])
    with Log(folder) as log:
        assert durable <= log.end <= len(written)
        assert list(log.records()) == [LogRecord(n, written[n]) for n in range(log.end)]
    shutil.rmtree(folder)
