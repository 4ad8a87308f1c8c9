"""Writers that are killed at any moment: what they confirmed is there when the log is opened again."""

from __future__ import annotations

import os
import random
import signal
import struct
from pathlib import Path

import pytest

from veristream.kabis.log.disk.log import Flush, Log, LogOptions, LogRecord
from veristream.kabis.log.disk.repair import check
from veristream.kabis.log.disk.segment import HEADER_BYTES

pytestmark = pytest.mark.long

ROUNDS = 50
ACKNOWLEDGED = struct.Struct(">Q")


def content(position: int) -> bytes:
    """The record that belongs at a position: any other there is noticed."""
    generator = random.Random(position)
    return generator.randbytes(generator.choice((0, 10, 100, 3000)))


def write_for_ever(folder: Path, options: LogOptions, acknowledge: int) -> None:
    """What a writer does until it is killed: append some, sync, say up to where it is durable."""
    log = Log(folder, options)
    generator = random.Random(log.end)
    while True:
        for _ in range(generator.randint(1, 8)):
            log.append(content(log.end))
        os.write(acknowledge, ACKNOWLEDGED.pack(log.sync()))


def start_writer(folder: Path, options: LogOptions) -> tuple[int, int]:
    """The writer's process, and where its acknowledgements come out."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(reader)
            write_for_ever(folder, options, writer)
        finally:
            os._exit(1)
    os.close(writer)
    return process, reader


def kill_after(process: int, reader: int, acknowledgements: int, delay: int) -> int:
    """Kills the writer after some acknowledgements and a while, and gives the last one it sent."""
    data = b""
    while len(data) < acknowledgements * ACKNOWLEDGED.size:
        more = os.read(reader, ACKNOWLEDGED.size)
        assert more, "the writer died before it was killed"
        data += more
    for _ in range(delay):
        pass
    os.kill(process, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
    while more := os.read(reader, 1 << 16):
        data += more
    os.close(reader)
    assert len(data) % ACKNOWLEDGED.size == 0
    return ACKNOWLEDGED.unpack(data[-ACKNOWLEDGED.size :])[0] if data else 0


@pytest.mark.parametrize("flush", [Flush.ALWAYS, Flush.NEVER])
def test_nothing_acknowledged_is_lost(tmp_path: Path, flush: Flush) -> None:
    options = LogOptions(segment_bytes_max=HEADER_BYTES + 20_000, flush=flush)
    generator = random.Random(7)
    acknowledged = checked = 0
    for _ in range(ROUNDS):
        process, reader = start_writer(tmp_path, options)
        delay = generator.randrange(100_000)
        acknowledged = max(acknowledged, kill_after(process, reader, generator.randrange(6), delay))
        assert check(tmp_path) == []
        with Log(tmp_path, options) as log:
            assert log.end >= acknowledged
            for position, entry in enumerate(log.records(checked), start=checked):
                assert entry == LogRecord(position, content(position))
            checked = log.end
    assert acknowledged > ROUNDS
