"""The text of `kafka-dump-log.sh --print-data-log`: the batches and records of a broker's segments.

One text is of one broker, and may have segments of many partitions; the folder of a segment names its topic
and partition. Formats: tools/src/main/java/org/apache/kafka/tools/DumpLogSegments.java of Kafka, batches of
magic 2.

The tool prints the keys of headers but not their values, so messages are known by their payloads.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from veristream.errors import ModelError
from veristream.history.foreign.json import read_lines
from veristream.history.foreign.kafka.lines import LOGGED, name_files

_DUMPING: Final = re.compile(r"Dumping (.+)")
_START: Final = re.compile(r"Log starting offset: (\d{1,18})")
_BATCH: Final = re.compile(
    r"baseOffset: (\d{1,18}) lastOffset: (\d{1,18}) count: (\d{1,9}|null)"
    r" baseSequence: -?\d+ lastSequence: -?\d+ producerId: (-?\d{1,19})"
    r" producerEpoch: (-?\d{1,9}) partitionLeaderEpoch: (-?\d{1,10})"
    r" isTransactional: (true|false) isControl: (true|false)(?: deleteHorizonMs: \S+)?"
    r" position: \d+ \w+: -?\d+ size: \d+ magic: (\d+) compresscodec: \w+ crc: \d+ isvalid: (true|false)"
)
_RECORD: Final = re.compile(
    r"\| offset: (\d{1,18}) (?:isValid: \w+ crc: \S+ )?(?:CreateTime|LogAppendTime|NoTimestampType): -?\d+"
    r" key[sS]ize: (-?\d{1,10}) value[sS]ize: (-?\d{1,10}) sequence: -?\d+ headerKeys: \[(.*?)\](.*)",
    re.DOTALL,
)
_MARKER: Final = re.compile(r" endTxnMarker: (COMMIT|ABORT) coordinatorEpoch: -?\d+")
_FOLDER: Final = re.compile(r"(.+)-(\d{1,9})")
_TRAILING: Final = re.compile(r"Found (\d{1,18}) invalid bytes at the end of (.+)")
REPLACED: Final = "\ufffd"
"""What the tool prints for bytes that are not UTF-8."""

_AGAIN: Final = "dump the segment again with kafka-dump-log.sh --print-data-log --files"


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a log; `marker` is COMMIT or ABORT where a transaction ended, or another control record.

    `payload` is None if it has none, and in a control record.
    """

    offset: int
    producer_id: int
    producer_epoch: int
    leader_epoch: int
    transactional: bool
    valid: bool
    payload: str | None
    marker: str = ""


@dataclass(slots=True)
class PartitionLog:
    """What a broker has of a partition: from `start` up to, not including, `end`, in ascending order."""

    start: int
    end: int
    records: list[Record] = field(default_factory=list)
    invalid_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Dump:
    """The logs of one broker, by topic and partition."""

    name: str
    partitions: dict[tuple[str, int], PartitionLog]


@dataclass(frozen=True, slots=True)
class _Batch:
    line: int
    base: int
    last: int
    count: int | None
    producer_id: int
    producer_epoch: int
    leader_epoch: int
    transactional: bool
    control: bool
    valid: bool


def read_dump(path: Path) -> Dump:
    """Reads a dump; one that ends inside a batch, or has an unknown line, is an error."""
    reader = _DumpReader(path)
    for line, text in _whole_lines(path):
        reader.take(line, text)
    return reader.finish()


def read_dumps(paths: Sequence[Path]) -> tuple[Dump, ...]:
    """Reads dumps of several brokers, whose names differ then."""
    names = name_files(paths)
    return tuple(replace(read_dump(path), name=names[path]) for path in paths)


def _whole_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yields lines; one that begins a record goes on until its payload has all of its bytes."""
    waiting: tuple[int, str] | None = None
    for number, text in read_lines(path):
        if waiting is not None:
            number, text = waiting[0], f"{waiting[1]}\n{text}"
            waiting = None
        if text.startswith("| ") and _misses_bytes(text):
            waiting = (number, text)
            continue
        yield number, text
    if waiting is not None:
        message = f"{path}:{waiting[0]}: the payload of a record is shorter than its valueSize"
        raise ModelError(message, hint=_AGAIN)


def _misses_bytes(text: str) -> bool:
    match = _RECORD.fullmatch(text)
    if match is None or "payload: " not in match[5] or REPLACED in match[5]:
        return False
    return len(match[5].encode()) < _length(match)


def _length(match: re.Match[str]) -> int:
    """Returns how many bytes key and payload of a record take, with their names."""
    key, value = int(match[2]), int(match[3])
    return (len(" key: ") + key if key >= 0 else 0) + (len(" payload: ") + value if value >= 0 else 0)


class _DumpReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = 0
        self._partitions: dict[tuple[str, int], PartitionLog] = {}
        self._place: tuple[str, int] | None = None
        self._log: PartitionLog | None = None
        self._batch: _Batch | None = None
        self._found = 0  # records of the batch
        self._awaits_start = False

    def _error(self, message: str, line: int = 0, hint: str = _AGAIN) -> ModelError:
        return ModelError(f"{self._path}:{line or self._line}: {message}", hint=hint)

    def take(self, line: int, text: str) -> None:
        self._line = line
        if not text.strip() or (self._batch is None and LOGGED.match(text)):
            return
        if match := _DUMPING.fullmatch(text):
            self._begin_file(match[1])
        elif match := _START.fullmatch(text):
            self._begin_log(int(match[1]))
        elif match := _BATCH.fullmatch(text):
            self._begin_batch(match)
        elif match := _RECORD.fullmatch(text):
            self._record(match)
        elif (match := _TRAILING.fullmatch(text)) and self._log is not None:
            self._end_batch()
            self._log.invalid_bytes += int(match[1])
        elif text.startswith("offset: ") and " magic: " in text:
            raise self._error(
                "batches older than magic 2 are not read", hint="upgrade the topic's log format"
            )
        else:
            raise self._error(f"unknown line {text[:60]!r}")

    def finish(self) -> Dump:
        self._end_batch()
        if self._awaits_start:
            raise self._error("the dump ends before the log of its last segment")
        if not self._partitions:
            raise ModelError(f"`{self._path}` contains no segment of a log", hint=_AGAIN)
        return Dump(self._path.stem, self._partitions)

    def _begin_file(self, segment: str) -> None:
        self._end_batch()
        if self._awaits_start:
            raise self._error("a segment without its log")
        folder = re.split(r"[/\\]", segment)[-2:]
        match = _FOLDER.fullmatch(folder[0]) if len(folder) == 2 else None
        if match is None or not segment.endswith(".log"):
            raise self._error(
                f"`{segment}` does not name a topic and a partition",
                hint="dump segments by their full paths, such as /data/orders-0/00000000000000000000.log",
            )
        self._place, self._log, self._awaits_start = (match[1], int(match[2])), None, True

    def _begin_log(self, start: int) -> None:
        if self._place is None or not self._awaits_start:
            raise self._error("a log that no line `Dumping ...` names")
        self._awaits_start = False
        log = self._partitions.setdefault(self._place, PartitionLog(start, start))
        if start < log.end:
            raise self._error(
                f"the segment begins at offset {start}, and the one before it ended at {log.end}",
                hint="dump the segments of one broker in ascending order, each once; one file per broker",
            )
        log.end = start
        self._log = log

    def _begin_batch(self, match: re.Match[str]) -> None:
        self._end_batch()
        if self._log is None:
            raise self._error("a batch that no line `Log starting offset` precedes")
        if match[9] != "2":
            raise self._error(f"batches of magic {match[9]} are not read", hint="Veristream reads magic 2")
        base, last = int(match[1]), int(match[2])
        if base < self._log.end or last < base:
            raise self._error(f"offsets {base} to {last} do not follow {self._log.end - 1}")
        self._batch = _Batch(
            line=self._line,
            base=base,
            last=last,
            count=None if match[3] == "null" else int(match[3]),
            producer_id=int(match[4]),
            producer_epoch=int(match[5]),
            leader_epoch=int(match[6]),
            transactional=match[7] == "true",
            control=match[8] == "true",
            valid=match[10] == "true",
        )
        self._found = 0

    def _end_batch(self) -> None:
        batch = self._batch
        if batch is None:
            return
        if self._log is None or self._found != batch.count:
            message = f"the batch has {batch.count} records, and {self._found} are in the dump"
            raise self._error(message, batch.line)
        self._log.end = batch.last + 1
        self._batch = None

    def _record(self, match: re.Match[str]) -> None:
        batch, log = self._batch, self._log
        if batch is None or log is None:
            raise self._error("a record outside of a batch")
        offset = int(match[1])
        before = log.records[-1].offset if log.records else -1
        if not batch.base <= offset <= batch.last or offset <= before:
            raise self._error(
                f"offset {offset} is not in its place in the batch {batch.base} to {batch.last}"
            )
        payload, marker = None, ""
        if batch.control:
            ended = _MARKER.fullmatch(match[5])
            marker = ended[1] if ended else "control"
        else:
            payload = self._payload(match)
        self._found += 1
        log.records.append(
            Record(
                offset, batch.producer_id, batch.producer_epoch, batch.leader_epoch,
                batch.transactional, batch.valid, payload, marker,
            )
        )  # fmt: skip

    def _payload(self, match: re.Match[str]) -> str | None:
        key, value, rest = int(match[2]), int(match[3]), match[5]
        if value < 0:
            return None
        if " payload: " not in rest:
            raise self._error(
                "a record without its payload: the dump is cut, or made without --print-data-log"
            )
        if REPLACED not in rest and len(rest.encode()) != _length(match):
            raise self._error(f"key and payload of the record do not have {max(key, 0)} and {value} bytes")
        if REPLACED in rest:  # bytes that are not UTF-8: what is left identifies nothing else by accident
            return rest.split(" payload: ", 1)[1]
        return rest.encode()[_length(match) - value :].decode(errors="replace")
