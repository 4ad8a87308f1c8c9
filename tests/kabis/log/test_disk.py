"""The log on disk: positions, group commit, segments, indexes, retention, locks, a full disk."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from veristream.kabis.log.disk import files as disk
from veristream.kabis.log.disk import log as log_module
from veristream.kabis.log.disk.files import Failed, Full, InUse
from veristream.kabis.log.disk.log import (
    BelowRetention,
    Flush,
    Log,
    LogOptions,
    LogRecord,
    Retention,
    TooLarge,
)
from veristream.kabis.log.disk.opening import Recovery
from veristream.kabis.log.disk.segment import FRAME_BYTES, HEADER_BYTES, RECORD_BYTES_MAX

Limit = Callable[[int | None], None]

SMALL = LogOptions(segment_bytes_max=HEADER_BYTES + 900)


class Clock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


def payload(number: int, size: int = 100) -> bytes:
    return number.to_bytes(4, "big") * (size // 4)


def filled(folder: Path, count: int, options: LogOptions = SMALL) -> Log:
    log = Log(folder, options)
    for number in range(count):
        assert log.append(payload(number)) == number
    return log


def segments(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.segment"))


def test_records_are_read_by_position_and_in_order_across_segments(tmp_path: Path) -> None:
    with filled(tmp_path, 50) as log:
        assert [log.read(number) for number in range(50)] == [payload(number) for number in range(50)]
        assert list(log.records()) == [LogRecord(number, payload(number)) for number in range(50)]
        assert list(log.records(17, 20)) == [LogRecord(number, payload(number)) for number in (17, 18, 19)]
        assert list(log.records(50)) == []
        with pytest.raises(IndexError):
            log.read(50)
    # Seven frames of 123 bytes fit into 900.
    assert segments(tmp_path) == [f"{first:020d}.segment" for first in range(0, 50, 7)]


def test_an_index_of_many_entries_finds_every_record(tmp_path: Path) -> None:
    options = LogOptions(segment_bytes_max=1 << 20)
    with Log(tmp_path, options) as log:
        for number in range(3000):
            log.append(payload(number, 4 * (1 + number % 300)))
        for number in range(0, 3000, 7):
            assert log.read(number) == payload(number, 4 * (1 + number % 300))
        assert [record.position for record in log.records(1234)] == list(range(1234, 3000))
    with Log(tmp_path, options) as log:
        assert log.recovery == Recovery()
        for number in range(0, 3000, 7):
            assert log.read(number) == payload(number, 4 * (1 + number % 300))


def test_reopening_goes_on_where_it_ended(tmp_path: Path) -> None:
    filled(tmp_path, 10).close()
    with Log(tmp_path, SMALL) as log:
        assert (log.start, log.end, log.durable) == (0, 10, 10)
        assert log.append(payload(10)) == 10
        assert log.read(9) == payload(9) and log.read(10) == payload(10)


def test_an_empty_record_and_the_largest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "RECORD_BYTES_MAX", 1000)
    with Log(tmp_path) as log:
        assert log.append(b"") == 0
        assert log.append(bytes(1000)) == 1
        with pytest.raises(TooLarge):
            log.append(bytes(1001))
        assert [record.payload for record in log.records() if isinstance(record, LogRecord)] == [
            b"",
            bytes(1000),
        ]
    assert RECORD_BYTES_MAX == 64 << 20


def count_flushes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    flushes: list[int] = []

    def flush(descriptor: int) -> None:
        flushes.append(descriptor)
        disk.flush(descriptor)

    monkeypatch.setattr(log_module, "flush", flush)
    return flushes


def test_one_flush_makes_many_appends_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Log(tmp_path) as log:
        flushes = count_flushes(monkeypatch)
        for number in range(100):
            log.append(payload(number))
        assert log.durable == 0
        assert log.sync() == 100
        assert log.sync() == 100
        assert len(flushes) == 1


def test_an_interval_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    with Log(tmp_path, LogOptions(flush=Flush.INTERVAL, interval_ms=10), clock) as log:
        flushes = count_flushes(monkeypatch)
        log.append(b"a")
        clock.now_ms += 9
        assert log.sync() == 0
        clock.now_ms += 1
        assert log.sync() == 1
        log.append(b"b")
        assert log.sync() == 1
        assert log.sync(now=True) == 2
        clock.now_ms -= 1000  # a clock that was set back must not stop the flushes
        log.append(b"c")
        assert log.sync() == 3
        assert len(flushes) == 3


def test_never_means_never_until_closing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path, LogOptions(flush=Flush.NEVER))
    flushes = count_flushes(monkeypatch)
    log.append(b"a")
    assert log.sync() == 1
    assert flushes == []
    log.close()
    assert len(flushes) == 2


def test_a_failed_flush_is_never_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path)
    log.append(b"a")

    def fail(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(log_module, "flush", fail)
    with pytest.raises(Failed, match="could not be flushed"):
        log.sync()
    monkeypatch.undo()
    with pytest.raises(Failed, match="could not be flushed"):
        log.sync()
    with pytest.raises(Failed):
        log.append(b"b")
    assert log.durable == 0
    log.close()
    with Log(tmp_path) as log:
        assert log.end == 1  # the system had it after all; nobody was told that it was durable


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="/proc names the open files")
def test_names_and_bytes_reach_the_disk_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A segment is whole before it has its name; a mark is written after the flush that it speaks of."""
    calls: list[str] = []

    def watch(name: str, describe: Callable[..., str]) -> None:
        real = getattr(os, name)

        def watched(*arguments: Any) -> Any:
            calls.append(describe(*arguments))
            return real(*arguments)

        monkeypatch.setattr(os, name, watched)

    def named(descriptor: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{descriptor}")).name

    watch("fsync", lambda descriptor: f"flush {named(descriptor)}")
    watch("fdatasync", lambda descriptor: f"flush {named(descriptor)}")
    watch("replace", lambda _old, new: f"name {Path(new).name}")
    watch("pwrite", lambda _descriptor, _data, offset: f"write at {offset}")
    watch("pwritev", lambda _descriptor, _buffers, offset: f"append at {offset}")
    folder = tmp_path / "log"
    segment = f"{0:020d}.segment"
    with Log(folder) as log:
        assert calls[1:] == [f"flush {segment}.new", f"name {segment}", "flush log", f"flush {segment}"]
        calls.clear()
        log.append(b"record")
        log.sync()
        assert calls == [f"append at {HEADER_BYTES}", f"flush {segment}", "write at 512"]
        calls.clear()
    assert calls == [f"flush {segment}", f"flush {segment}"]


def test_a_closed_log_takes_nothing(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.close()
    log.close()
    with pytest.raises(Failed, match="closed"):
        log.append(b"a")


def test_indexes_are_made_again_when_missing_or_stale(tmp_path: Path) -> None:
    filled(tmp_path, 30).close()
    indexes = sorted(tmp_path.glob("*.index"))
    assert len(indexes) == 4
    indexes[0].unlink()
    indexes[1].write_bytes(indexes[2].read_bytes())
    damaged = bytearray(indexes[2].read_bytes())
    damaged[-1] ^= 1
    indexes[2].write_bytes(damaged)
    with Log(tmp_path, SMALL) as log:
        assert [Path(name).stem for name in log.recovery.indexes_rebuilt] == [
            index.stem for index in indexes[:3]
        ]
        assert [log.read(number) for number in range(30)] == [payload(number) for number in range(30)]
    with Log(tmp_path, SMALL) as log:
        assert log.recovery.indexes_rebuilt == ()


def test_retention_by_low_water_keeps_what_is_at_or_above_it(tmp_path: Path) -> None:
    with filled(tmp_path, 50) as log:
        assert log.retain(Retention(low_water=6)) == 0
        assert log.retain(Retention(low_water=7)) == 7
        assert log.retain(Retention(low_water=20)) == 14
        assert log.retain(Retention(low_water=1000)) == 49
        with pytest.raises(BelowRetention) as caught:
            log.read(48)
        assert (caught.value.position, caught.value.start) == (48, 49)
        with pytest.raises(BelowRetention):
            list(log.records(3))
        assert log.read(49) == payload(49)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{49:020d}.segment", "lock"]
    with Log(tmp_path, SMALL) as log:
        assert (log.start, log.end) == (49, 50)


def test_retention_by_size(tmp_path: Path) -> None:
    with filled(tmp_path, 50) as log:
        full = HEADER_BYTES + 7 * (FRAME_BYTES + 100)
        rest = HEADER_BYTES + FRAME_BYTES + 100
        assert log.size_bytes == 7 * full + rest
        assert log.retain(Retention(size_bytes_max=2 * full + rest)) == 35
        assert log.retain(Retention(size_bytes_max=2 * full + rest - 1)) == 42


def test_retention_by_age_counts_from_the_last_record(tmp_path: Path) -> None:
    clock = Clock()
    with Log(tmp_path, SMALL, clock) as log:
        for number in range(21):
            log.append(payload(number))
            clock.now_ms += 1000
        # Segments were begun when records 0, 7 and 14 were written; now 21 s have passed.
        assert log.retain(Retention(age_ms_max=14_000)) == 0
        assert log.retain(Retention(age_ms_max=13_999)) == 7
        assert log.retain(Retention(age_ms_max=0)) == 14


def test_an_iterator_survives_retention(tmp_path: Path) -> None:
    with filled(tmp_path, 21) as log:
        records = log.records()
        assert next(records) == LogRecord(0, payload(0))
        log.retain(Retention(low_water=14))
        assert [next(records).position for _ in range(6)] == [1, 2, 3, 4, 5, 6]  # its file is still open
        with pytest.raises(BelowRetention):
            next(records)


def test_reading_holds_little_memory(tmp_path: Path) -> None:
    with Log(tmp_path, LogOptions(segment_bytes_max=4 << 20)) as log:
        for number in range(150):
            log.append(payload(number, 100_000))
        tracemalloc.start()
        try:
            assert sum(1 for _ in log.records()) == 150
            assert all(log.read(number)[3] == number for number in range(150))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak < 2_000_000  # of fifteen million bytes


def test_a_thread_may_sync_while_another_appends(tmp_path: Path) -> None:
    options = LogOptions(segment_bytes_max=HEADER_BYTES + 20_000)
    with Log(tmp_path, options) as log, ThreadPoolExecutor(1) as thread:
        stop = threading.Event()

        def sync_for_ever() -> list[int]:
            marks = [0]
            while not stop.is_set():
                marks.append(log.sync())
            return marks

        syncing = thread.submit(sync_for_ever)
        for number in range(2000):
            assert log.append(payload(number)) == number
        stop.set()
        marks = syncing.result(timeout=60)
        assert marks == sorted(marks) and marks[-1] <= log.end
        assert log.sync() == 2000
    with Log(tmp_path, options) as log:
        assert list(log.records()) == [LogRecord(number, payload(number)) for number in range(2000)]


def test_two_processes_cannot_have_one_folder(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from veristream.kabis.log.disk.log import Log; Log(pathlib.Path(sys.argv[1]))"
    )
    with Log(tmp_path):
        other = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
        )
        assert other.returncode != 0
        assert f"is in use by process {os.getpid()}" in other.stderr
        with pytest.raises(InUse):
            Log(tmp_path)
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)


@pytest.fixture
def file_limit() -> Iterator[Limit]:
    """Sets the largest file that this process may write: a full disk that needs no disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int | None) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before[0] if size is None else size, before[1]))

    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, FRAME_BYTES + 99])
def test_an_append_that_does_not_fit_leaves_nothing(tmp_path: Path, file_limit: Limit, room: int) -> None:
    with Log(tmp_path) as log:
        log.append(payload(0))
        size = log.size_bytes
        file_limit(size + room)
        with pytest.raises(Full, match="nothing of it was kept"):
            log.append(payload(1))
        assert (log.end, log.size_bytes) == (1, size)
        assert (tmp_path / f"{0:020d}.segment").stat().st_size == size
        with pytest.raises(Full):
            log.append(b"", payload(1))
        assert log.sync() == 1
        file_limit(None)
        assert log.append(payload(1)) == 1
    with Log(tmp_path) as log:
        assert log.recovery.torn is None
        assert list(log.records()) == [LogRecord(0, payload(0)), LogRecord(1, payload(1))]


def test_no_room_for_a_new_segment(tmp_path: Path, file_limit: Limit) -> None:
    with filled(tmp_path, 7) as log:
        file_limit(HEADER_BYTES - 1)
        with pytest.raises(Full):
            log.append(payload(7))
        file_limit(None)
        assert (log.end, log.durable) == (7, 7)
        assert log.append(payload(7)) == 7
    with Log(tmp_path, SMALL) as log:
        assert [entry.position for entry in log.records()] == list(range(8))
    assert list(tmp_path.glob("*.new")) == []
