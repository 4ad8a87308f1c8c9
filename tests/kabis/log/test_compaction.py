"""Space between wanted records is freed; they keep their positions, and a crash leaves a whole file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kabis.strategies import patient
from veristream.kabis.log.disk import compaction
from veristream.kabis.log.disk.files import Full
from veristream.kabis.log.disk.log import BelowRetention, Gap, Log, LogOptions, LogRecord, Retention
from veristream.kabis.log.disk.repair import check
from veristream.kabis.log.disk.segment import FRAME_BYTES, HEADER_BYTES, Damaged
from veristream_testing.limits import file_size_limit

SMALL = LogOptions(segment_bytes_max=HEADER_BYTES + 1000)


def payload(number: int) -> bytes:
    return b"%d " % number * (1 + number % 40)


def fill(folder: Path, count: int = 60) -> None:
    with Log(folder, SMALL) as log:
        for number in range(count):
            assert log.append(payload(number)) == number


def compact(log: Log, live: list[int]) -> int:
    freed = 0
    while more := log.compact(live):
        freed += more
    return freed


def contents(log: Log) -> dict[int, bytes]:
    """The records, after a look at the gaps between them: together they cover every position once."""
    found, expected = {}, log.start
    for entry in log.records():
        assert entry.position == expected
        if isinstance(entry, Gap):
            assert entry.released
            expected += entry.count
        else:
            found[entry.position] = entry.payload
            expected += 1
    assert expected == log.end
    return found


@given(rounds=st.lists(st.sets(st.integers(0, 59)), min_size=1, max_size=4))
@settings(patient, max_examples=40)
def test_only_unwanted_records_go(rounds: list[set[int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("log")
    fill(folder)
    live = set(range(60))
    with Log(folder, SMALL) as log:
        last = log._segments[-1].header.first_position
        for wanted in rounds:
            live &= wanted
            before = log.size_bytes
            assert before - compact(log, sorted(live)) == log.size_bytes
            found = contents(log)
            assert found.keys() >= live | set(range(last, 60))
            for position in live:
                assert log.read(position) == found[position] == payload(position)
            dead = sum(map(len, found.values())) - sum(len(payload(each)) for each in live)
            assert dead <= log.size_bytes, "at most half of a segment is not wanted"
            for position in set(range(60)) - found.keys():
                with pytest.raises(BelowRetention):
                    log.read(position)
    assert list(check(folder)) == []
    with Log(folder, SMALL) as log:
        assert contents(log) == found and log.recovery.indexes_rebuilt == ()
        assert log.append(b"next") == 60
    shutil.rmtree(folder)


def test_it_frees_the_disk_and_measures_a_segment_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    measured: list[Path] = []
    measure = compaction.measure_live
    monkeypatch.setattr(
        compaction,
        "measure_live",
        lambda segment, live: measured.append(segment.path) or measure(segment, live),
    )
    with Log(tmp_path, SMALL) as log:
        files = {path: path.stat().st_size for path in tmp_path.glob("*.segment")}
        freed = compact(log, [0])
        now = {path: path.stat().st_size for path in tmp_path.glob("*.segment")}
        assert freed == sum(files.values()) - sum(now.values()) > sum(files.values()) / 4
        count = len(measured)
        assert compact(log, [0]) == 0 and len(measured) == count, "nothing has changed since"
        assert log.retain(Retention(low_water=log.end)) > 0


def test_a_crash_or_a_full_disk_leaves_the_old_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    with Log(tmp_path, SMALL) as log:
        before = contents(log)
        with file_size_limit(HEADER_BYTES - 1), pytest.raises(Full):
            log.compact([0])
        assert contents(log) == before and list(tmp_path.glob("*.new")) == []
    (tmp_path / f"{0:020d}.segment.new").write_bytes(b"half of it")  # what a crash leaves
    with Log(tmp_path, SMALL) as log:
        assert contents(log) == before and list(tmp_path.glob("*.new")) == []
        assert compact(log, [0]) > 0


def spoil(path: Path, offset: int) -> None:
    descriptor = os.open(path, os.O_RDWR)
    os.pwrite(descriptor, b"?", offset)
    os.close(descriptor)


def test_damage_is_not_copied(tmp_path: Path) -> None:
    fill(tmp_path)
    with Log(tmp_path, SMALL) as log:
        path = log._segments[0].path
        spoil(path, HEADER_BYTES + 2 * FRAME_BYTES + len(payload(0)))  # in record 1
        with pytest.raises(Damaged, match="is damaged at byte"):
            log.compact([0, 1])
        assert list(tmp_path.glob("*.new")) == []
        assert log.read(2) == payload(2)
        assert isinstance(next(iter(log.records(2))), LogRecord)


@pytest.mark.parametrize("offset", [0, FRAME_BYTES])
def test_a_damaged_segment_is_named_once_and_the_others_are_compacted(tmp_path: Path, offset: int) -> None:
    """The damage is in the head of the first frame, or in its payload."""
    fill(tmp_path)
    with Log(tmp_path, SMALL) as log:
        damaged, *others = [segment.path for segment in log._segments[:-1]]
        spoil(damaged, HEADER_BYTES + offset)
        before = damaged.read_bytes()
        with pytest.raises(Damaged, match=damaged.name):
            log.compact([0, 1])
        sizes = [path.stat().st_size for path in others]
        assert compact(log, [0, 1]) > 0
        assert all(path.stat().st_size < size for path, size in zip(others, sizes, strict=True))
        assert compact(log, [0]) == 0, "less is wanted of the damaged one, which is left alone"
        assert damaged.read_bytes() == before
