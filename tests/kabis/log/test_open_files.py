"""A log whose process may open no more files: it refuses, stays whole, and goes on when it may."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.kabis.log.disk.files import OutOfFiles
from veristream.kabis.log.disk.log import Log, LogOptions, Retention
from veristream.kabis.log.disk.segment import FRAME_BYTES, HEADER_BYTES
from veristream_testing.limits import no_more_files

SMALL = LogOptions(segment_bytes_max=HEADER_BYTES + 400)
RECORD = b"x" * 100


def fill(log: Log) -> int:
    """Appends until the next record of this size needs a new segment; returns how many records."""
    while log.size_bytes + FRAME_BYTES + len(RECORD) <= SMALL.segment_bytes_max:
        log.append(RECORD)
    return log.end


def test_without_a_file_for_the_next_segment_small_records_still_fit(tmp_path: Path) -> None:
    with Log(tmp_path, SMALL) as log:
        count = fill(log)
        with no_more_files():
            for _ in range(3):
                with pytest.raises(OutOfFiles, match="Too many open files"):
                    log.append(RECORD)
            assert log.append(b"small") == count
            assert log.sync() == count + 1
        assert log.append(RECORD) == count + 1
    with Log(tmp_path, SMALL) as log:
        assert [entry.position for entry in log.records()] == list(range(count + 2))


def test_a_segment_that_cannot_be_opened_twice_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new segment is written, and only then the files run out."""
    with Log(tmp_path, SMALL) as log:
        count = fill(log)
        with monkeypatch.context() as patch:
            patch.setattr("veristream.kabis.log.disk.log.open_file", refuse)
            with pytest.raises(OutOfFiles):
                log.append(RECORD)
        assert log.append(b"small") == count
    with Log(tmp_path, SMALL) as log:
        assert log.end == count + 1


def refuse(path: Path, flags: int) -> int:
    raise OutOfFiles(f"cannot open {path}", "")


def test_reading_and_removing_without_files_fail_with_the_reason(tmp_path: Path) -> None:
    with Log(tmp_path, SMALL) as log:
        for _ in range(9):
            log.append(RECORD)
        log.sync()
        with no_more_files():
            with pytest.raises(OutOfFiles):
                log.read(0)
            with pytest.raises(OutOfFiles):
                list(log.records())
            with pytest.raises(OutOfFiles):
                log.retain(Retention(log.end))
        assert log.read(8) == RECORD
        log.retain(Retention(log.end))
        assert log.start > 0
    with Log(tmp_path, SMALL) as log:
        assert log.end == 9
