"""A storage party's log as a topic of its own Kafka cluster: one partition, and positions are offsets.

Only the party writes there, so it knows each record's offset before Kafka reports it. If Kafka reports
another one, another client has written, and the log fails instead of confirming a record at another place.
A record is durable when Kafka has acknowledged it to an idempotent producer with `acks=all`.

Beside the topic the party keeps, in its own folder, the end of the durable records and the positions that
the operator gave up as lost. So the party notices at its start if the topic was truncated or recreated, and
it reports a message that it did not write by its offset, like damage on a disk.
"""

from __future__ import annotations

import json
import os
import threading
import time
from array import array
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from veristream.errors import EnvironmentFailure
from veristream.kabis.kafka.failures import DamagedRecord, KafkaFailure, Troubles, error_of
from veristream.kabis.kafka.reading import PartitionReader, known_offset
from veristream.kabis.kafka.settings import KafkaSettings
from veristream.kabis.kafka.topics import Topics, configure
from veristream.kabis.log.disk.files import Failed, Full, lock, replace
from veristream.kabis.log.disk.log import BelowRetention, Gap, LogRecord, Lost, Retention, TooLarge
from veristream.kabis.log.disk.opening import Recovery
from veristream.kabis.log.kafka.frames import FRAME_BYTES, FrameError, decode_frame, encode_frame
from veristream.kabis.protocol.batch import BATCH_BYTES_MAX
from veristream.kabis.protocol.codec import Octets

RECORD_BYTES_MAX = BATCH_BYTES_MAX + (64 << 10)
"""A batch, and the overhead of an entry and of Kafka."""
BUFFER_KIB = 256 << 10
SYNC_S = 0.5
POLL_S = 0.1
CLOSE_S = 10.0
READ_AHEAD = 16


Entries = Generator[LogRecord | Gap, None, None]


@dataclass(frozen=True, slots=True)
class KafkaLogOptions:
    """How long Kafka may be unavailable, and how much of the log is cached in memory."""

    message_timeout_ms: int = 120_000
    read_patience_s: float = 3.0
    replay_patience_s: float = 30.0
    cache_bytes: int = 64 << 20
    repair: bool = False


class KafkaLog:
    """The log in a topic; `folder` belongs to the party, and no other process may have it open."""

    def __init__(
        self,
        settings: KafkaSettings,
        topic: str,
        folder: Path,
        options: KafkaLogOptions = KafkaLogOptions(),
    ) -> None:
        self._settings = settings
        self._topic = topic
        self._folder = folder
        self._options = options
        self.recovery = Recovery()
        self._news = threading.Condition()
        self._failure: EnvironmentFailure | None = None
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        self._cached_bytes = 0
        self._sizes = array("Q")
        self._lost = _load_lost(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = lock(folder)
        try:
            self._topics = Topics(settings)
            self._topics.require(topic, 1, _topic_settings(self._topics.brokers()))
            self._reader = PartitionReader(settings, topic)
            self._start, self._end = self._reader.bounds()
            self._durable = self._reported = self._end
            self._require_whole()
        except BaseException:
            os.close(self._lock)
            raise
        self._mark = os.open(folder / "durable", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._write_mark()
        self._troubles = Troubles(settings)
        self._producer = Producer(_producer_settings(settings, self._troubles, options))
        self._closing = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="kabis-kafka-poll", daemon=True)
        self._poller.start()

    def _require_whole(self) -> None:
        """Raises DamagedRecord if the topic ends before the durable end, unless the rest was given up."""
        try:
            text = (self._folder / "durable").read_bytes()
        except FileNotFoundError:
            return
        durable = int.from_bytes(text, "big")
        if self._end < durable and not self._options.repair:
            reason = f"the topic ends there, and records up to {durable} were acknowledged"
            raise DamagedRecord(self._reader.where, self._end, reason)

    # Positions.

    @property
    def start(self) -> int:
        """The first position in the log."""
        return self._start

    @property
    def end(self) -> int:
        """The position that the next record gets."""
        return self._end

    @property
    def durable(self) -> int:
        """Every record before this position was acknowledged by Kafka."""
        return self._durable

    @property
    def size_bytes(self) -> int:
        """The size of the records that were read or written since the start."""
        return sum(self._sizes)

    # Writing.

    def append(self, *parts: Octets) -> int:
        """Sends a record to Kafka and returns its position. Raises `Full` if too much waits."""
        self._usable()
        payload = b"".join(parts)
        position, message = self._end, encode_frame(self._end, payload)
        if len(message) > RECORD_BYTES_MAX:
            raise TooLarge(
                f"a record has {len(payload)} bytes, the log takes {RECORD_BYTES_MAX - FRAME_BYTES}",
                "send smaller batches",
            )
        try:
            self._producer.produce(self._topic, message, partition=0, on_delivery=self._delivered)
        except BufferError as error:
            raise Full(
                f"{self._reader.where} accepts no record: {BUFFER_KIB >> 10} MiB are not acknowledged yet",
                "check why Kafka does not acknowledge",
            ) from error
        self._end = position + 1
        self._sizes.append(len(message))
        self._keep(position, payload)
        return position

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        """Kafka's report on the oldest record without one, in the thread that polls."""
        with self._news:
            expected, self._reported = self._reported, self._reported + 1
            if self._failure is not None:
                return
            offset = known_offset(message)
            if error is not None:
                self._failure = self._troubles.explain(f"write to {self._reader.where}", error)
            elif offset not in (None, expected):
                self._failure = KafkaFailure(
                    f"another client writes to {self._reader.where}: our record {expected} has offset"
                    f" {offset}",
                    "check who may write to it; --repair marks other clients' records as lost",
                )
            elif offset is not None:
                self._durable = expected + 1  # and all before it: there is no other place for them
            self._news.notify_all()

    def _poll(self) -> None:
        try:
            while not self._closing.is_set():
                self._producer.poll(POLL_S)
        except KafkaException as exception:  # the client has failed for good, and reports it to its poller
            failure = self._troubles.explain(f"write to {self._reader.where}", error_of(exception))
            with self._news:
                self._failure = self._failure or failure
                self._news.notify_all()

    def sync(self, *, now: bool = False) -> int:
        """Waits for Kafka's reports on the appended records, and returns `durable`.

        It waits only a moment, so that a party can stop while Kafka is unavailable; with `now`, it waits
        until all are durable.
        """
        wanted = self._end
        with self._news:
            while self._reported < wanted and self._failure is None:
                if not self._news.wait(SYNC_S) and not now:
                    break
        self._usable()
        self._confirm()
        self._write_mark()
        return self._durable

    def _confirm(self) -> None:
        """Reads records that Kafka has acknowledged without an offset, because an answer was lost."""
        doubtful_end = self._reported
        if self._durable >= doubtful_end:
            return
        reader = PartitionReader(self._settings, self._topic)
        try:
            for message in reader.messages(self._durable, doubtful_end, self._options.read_patience_s):
                position = known_offset(message)
                assert position is not None, "what is read has an offset"
                decode_frame(position, message.value())
                with self._news:
                    self._durable = max(self._durable, position + 1)
        except FrameError as error:
            self._failure = DamagedRecord(self._reader.where, self._durable, str(error))
            raise self._failure from error
        except KafkaFailure:
            return  # it is unavailable again; the next call retries
        finally:
            reader.close()

    def _write_mark(self) -> None:
        """Notes the end of the durable records, unflushed, because it need only outlive the process."""
        os.pwrite(self._mark, self._durable.to_bytes(8, "big"), 0)

    def _usable(self) -> None:
        if self._failure is not None:
            raise self._failure

    # Reading.

    def read(self, position: int) -> bytes:
        """Returns a position's record. Raises `BelowRetention`, `Lost`, DamagedRecord or IndexError."""
        if position < self._start:
            raise BelowRetention(position, self._start)
        if position >= self._end:
            raise IndexError(f"record {position} is not written yet: the log ends at {self._end}")
        found = self._cache.get(position)
        if found is not None:
            self._cache.move_to_end(position)
            return found
        return self._read_ahead(position)

    def _read_ahead(self, position: int) -> bytes:
        """Returns the record at a position, and caches those after it up to one that cannot be read."""
        ahead = self._entries(position, position + READ_AHEAD, self._options.read_patience_s)
        wanted = next(ahead)
        if isinstance(wanted, Gap):
            raise Lost(position)
        self._keep(position, wanted.payload)
        with suppress(DamagedRecord):
            for entry in ahead:
                if isinstance(entry, Gap):
                    break
                self._keep(entry.position, entry.payload)
        ahead.close()
        return wanted.payload

    def records(self, start: int | None = None, end: int | None = None) -> Entries:
        """Yields every acknowledged record from a position up to another, and the gaps between."""
        position = self._start if start is None else start
        if position < self._start:
            raise BelowRetention(position, self._start)
        limit = self._durable if end is None else end
        return self._entries(position, limit, self._options.replay_patience_s)

    def _entries(self, position: int, end: int, patience_s: float) -> Entries:
        limit = min(end, self._durable)
        for message in self._reader.messages(position, limit, patience_s):
            offset, value = message.offset() or 0, message.value() or b""
            if offset > position:
                yield self._gap(position, offset - position)
            self._weigh(offset, len(value))
            yield self._decode(offset, value)
            position = offset + 1
        if position < limit:
            yield self._gap(position, limit - position)

    def _decode(self, position: int, value: bytes) -> LogRecord | Gap:
        try:
            return LogRecord(position, decode_frame(position, value))
        except FrameError as error:
            if position in self._lost:
                return Gap(position, 1)
            if not self._options.repair:
                raise DamagedRecord(self._reader.where, position, str(error)) from error
            return self._gap(position, 1)

    def _gap(self, position: int, count: int) -> Gap:
        """Returns the gap for unreadable positions that the operator gave up; raises for others."""
        given_up = self._lost.issuperset(range(position, position + count))
        if not given_up and not self._options.repair:
            raise DamagedRecord(self._reader.where, position, f"{count} records are missing")
        if not given_up:
            self._lost.update(range(position, position + count))
            replace(self._folder / "lost.json", json.dumps(sorted(self._lost)).encode() + b"\n")
        self._weigh(position + count - 1, 0)
        return Gap(position, count)

    def _weigh(self, position: int, size: int) -> None:
        """Notes the size of a record that is read for the first time."""
        place = position - self._start
        if place >= len(self._sizes):
            self._sizes.extend([0] * (place - len(self._sizes)))
            self._sizes.append(size)

    def _keep(self, position: int, payload: bytes) -> None:
        """Caches a record in place of the least recently used ones; never drops one that is not durable."""
        self._cached_bytes += len(payload) - len(self._cache.pop(position, b""))
        self._cache[position] = payload
        while self._cached_bytes > self._options.cache_bytes:
            oldest = next(iter(self._cache))
            if oldest >= self._durable:
                return
            self._cached_bytes -= len(self._cache.pop(oldest))

    # Retention.

    def start_after(self, retention: Retention) -> int:
        """Returns what `start` would be after `retain`."""
        start = max(self._start, retention.low_water or 0)
        if retention.size_bytes_max is not None:
            size = self.size_bytes
            for position, each in enumerate(self._sizes, self._start):
                if size <= retention.size_bytes_max:
                    break
                size, start = size - each, max(start, position + 1)
        if retention.age_ms_max is not None and self._durable > self._start:
            cutoff_ms = time.time_ns() // 1_000_000 - retention.age_ms_max
            found = self._reader.offset_at(max(0, cutoff_ms))
            start = max(start, self._durable if found is None else found)
        return min(start, self._durable)

    def retain(self, retention: Retention) -> int:
        """Deletes the oldest records that retention allows from Kafka; returns the new start."""
        self._usable()
        start = self.start_after(retention)
        if start > self._start:
            place = TopicPartition(self._topic, 0, start)
            try:
                self._topics.admin.delete_records([place])[place].result()
            except KafkaException as error:
                doing = f"delete the oldest records of {self._reader.where}"
                raise self._troubles.explain(doing, error_of(error)) from error
            del self._sizes[: start - self._start]
            for position in [each for each in self._cache if each < start]:
                self._cached_bytes -= len(self._cache.pop(position))
            self._start = start
        return self._start

    def compact(self, live: Sequence[int]) -> int:
        """Frees nothing: Kafka deletes only the oldest records of a partition, which `retain` does."""
        return 0

    def close(self) -> None:
        """Waits a while for Kafka's reports on records in flight, and closes the log and the folder."""
        if self._lock < 0:
            return
        if self._failure is None:
            with suppress(KafkaException):  # which the poller has been told, too
                self._producer.flush(CLOSE_S)
        self._closing.set()
        self._poller.join()
        self._reader.close()
        self._write_mark()
        for descriptor in (self._mark, self._lock):
            os.close(descriptor)
        self._lock = -1
        self._failure = self._failure or Failed("the log is closed", "open it again")

    def __enter__(self) -> KafkaLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def topic_of(chain_id: str, party: str) -> str:
    """Returns the topic of a party's log."""
    return f"kabis.{chain_id}.{party}"


def _topic_settings(brokers: int) -> dict[str, str]:
    """Only the party deletes records; without a second broker, each write is flushed to disk."""
    alone = {"flush.messages": "1"} if brokers == 1 else {}
    return {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "max.message.bytes": str(RECORD_BYTES_MAX),
        **alone,
    }


def _producer_settings(
    settings: KafkaSettings, troubles: Troubles, options: KafkaLogOptions
) -> dict[str, object]:
    return configure(
        settings,
        troubles,
        enable_idempotence=True,
        max_in_flight=1,  # a restarted broker remembers only the last request of each producer
        acks="all",
        linger_ms=0,
        message_max_bytes=RECORD_BYTES_MAX,
        message_timeout_ms=options.message_timeout_ms,
        queue_buffering_max_kbytes=BUFFER_KIB,
    )


def _load_lost(folder: Path) -> set[int]:
    with suppress(FileNotFoundError):
        return set(map(int, json.loads((folder / "lost.json").read_text(encoding="utf-8"))))
    return set()
