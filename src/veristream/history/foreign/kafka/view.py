"""The brokers' view of a history: what their logs have, and why a message that was acknowledged is lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from zlib import crc32

from veristream.history.events import NONE, Event, Operation, Outcome
from veristream.history.foreign.kafka.dump import REPLACED, Dump, PartitionLog, Record
from veristream.history.identity import UNKNOWN, decode_payload
from veristream.history.manifest import Manifest
from veristream.history.verdicts import Witness


class Fate(StrEnum):
    """What became of a record in a log."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record of data in a log, the message that it is, and what became of its transaction."""

    record: Record
    identity: tuple[int, int]
    fate: Fate


@dataclass(frozen=True, slots=True)
class BrokerLog:
    """One broker's log of a partition; below `stable_end` every transaction has ended."""

    broker: str
    log: PartitionLog
    stored: tuple[StoredRecord, ...]
    stable_end: int


@dataclass(frozen=True, slots=True)
class LogView:
    """All brokers' logs by stream and partition, as numbers of a manifest."""

    logs: Mapping[tuple[int, int], tuple[BrokerLog, ...]]


Identify = Mapping[tuple[int, str], tuple[int, int]]
"""Who sent a payload to a stream, and as which message, where payloads do not say it themselves."""


def view_logs(dumps: Iterable[Dump], manifest: Manifest, by_value: Identify | None = None) -> LogView:
    """Returns the logs of a history's streams, with the message that each record is."""
    streams = {stream.name: number for number, stream in enumerate(manifest.streams)}
    logs: dict[tuple[int, int], tuple[BrokerLog, ...]] = {}
    for dump in dumps:
        for (topic, partition), log in dump.partitions.items():
            if topic in streams:
                place = (streams[topic], partition)
                known = by_value or {}
                logs[place] = (*logs.get(place, ()), _view(dump.name, log, place[0], known))
    return LogView(logs)


def current_log(logs: Iterable[BrokerLog]) -> BrokerLog:
    """Returns the log of the latest leader, which says what the partition has."""
    return max(logs, key=lambda each: (_leader_epoch(each.log), each.log.end))


def _leader_epoch(log: PartitionLog) -> int:
    return log.records[-1].leader_epoch if log.records else -1


def _view(broker: str, log: PartitionLog, stream: int, by_value: Identify) -> BrokerLog:
    fates: dict[int, Fate] = {}
    waiting: dict[tuple[int, int], list[int]] = {}
    for record in log.records:
        producer = (record.producer_id, record.producer_epoch)
        if record.marker in ("COMMIT", "ABORT"):
            # A marker ends the producer's transaction even if fencing has raised the epoch since.
            for each in [key for key in waiting if key[0] == producer[0]]:
                fate = Fate.COMMITTED if record.marker == "COMMIT" else Fate.ABORTED
                fates.update(dict.fromkeys(waiting.pop(each), fate))
        elif record.transactional and not record.marker:
            waiting.setdefault(producer, []).append(record.offset)
    opened = [offset for offsets in waiting.values() for offset in offsets]
    stored = tuple(
        StoredRecord(record, _identify(record, stream, by_value), _fate(record, fates))
        for record in log.records
        if not record.marker
    )
    return BrokerLog(broker, log, stored, min(opened, default=log.end))


def _fate(record: Record, fates: Mapping[int, Fate]) -> Fate:
    return fates.get(record.offset, Fate.OPEN) if record.transactional else Fate.COMMITTED


def _identify(record: Record, stream: int, by_value: Identify) -> tuple[int, int]:
    if record.payload is None:
        return UNKNOWN
    found = decode_payload(record.payload.encode())
    return found if found != UNKNOWN else by_value.get((stream, record.payload), UNKNOWN)


def attribute(witness: Witness, view: LogView) -> str:
    """Returns in words why the message of a `lost write` is lost, from each broker's log.

    Empty if the witness is of another kind.
    """
    lost = witness.anomaly
    if lost.kind != "lost write":
        return ""
    sought = _sought(witness.events, (lost.producer, lost.number))
    logs = view.logs.get((lost.stream, lost.partition), ())
    if not logs:
        return "no dump has the log of this partition"
    if len(logs) == 1:
        return _explain(logs[0], sought)
    brokers: dict[str, list[str]] = {}
    for log in logs:
        brokers.setdefault(_explain(log, sought), []).append(log.broker)
    return "; ".join(f"{', '.join(names)}: {why}" for why, names in brokers.items())


@dataclass(frozen=True, slots=True)
class _Sought:
    """A message that is lost: offset and digest of its acknowledgement, as far as they are known."""

    message: tuple[int, int]
    offset: int = NONE
    digest: int = 0


def _sought(events: Iterable[Event], message: tuple[int, int]) -> _Sought:
    sends = [
        event
        for event in events
        if event.operation is Operation.SEND and (event.producer, event.number) == message
    ]
    offsets = [event.offset for event in sends if event.outcome is Outcome.OK and event.offset != NONE]
    digests = [event.digest for event in sends if event.digest]
    return _Sought(message, next(iter(offsets), NONE), next(iter(digests), 0))


_FATES: Final = {
    Fate.COMMITTED: "readers skipped it",
    Fate.ABORTED: "its transaction was aborted, so that readers of committed messages do not get it",
    Fate.OPEN: "its transaction has never ended, so that readers of committed messages stop before it",
}


def _explain(broker_log: BrokerLog, sought: _Sought) -> str:
    log, offset = broker_log.log, sought.offset
    for stored in broker_log.stored:
        if not _is(stored, sought):
            continue
        at = stored.record.offset
        if not stored.record.valid:
            return f"it was written at offset {at}, and the checksum of its batch is wrong"
        moved = f", although offset {offset} was acknowledged" if offset not in (NONE, at) else ""
        return f"it was written at offset {at}{moved}; {_FATES[stored.fate]}"
    if offset == NONE:
        if any(stored.identity == UNKNOWN for stored in broker_log.stored):
            return "no record is known to be it, and some records are of unknown messages"
        return (
            f"no record from offset {log.start} to {log.end - 1} is it: it was never written, or truncated"
        )
    return _explain_absent(broker_log, sought)


def _is(stored: StoredRecord, sought: _Sought) -> bool:
    """Whether a record is the message: by its identity, or by offset and bytes if it does not say one."""
    if stored.identity != UNKNOWN:
        return stored.identity == sought.message
    at_offset = stored.record.offset == sought.offset
    return at_offset and sought.digest != 0 and digest_of(stored.record.payload) == sought.digest


def digest_of(payload: str | None) -> int:
    """Returns the digest that recorders take of a payload; 0 if the dump does not show all of its bytes."""
    if payload is not None and REPLACED in payload:
        return 0
    return crc32((payload or "").encode()) or 1


def _explain_absent(broker_log: BrokerLog, sought: _Sought) -> str:
    log, offset = broker_log.log, sought.offset
    if offset >= log.end:
        cut = f", and {log.invalid_bytes} invalid bytes follow" if log.invalid_bytes else ""
        return (
            f"offset {offset} was acknowledged, and the log ends before offset {log.end}{cut}: "
            "it was truncated, or never written here"
        )
    if offset < log.start:
        return f"offset {offset} was acknowledged, and the log begins at offset {log.start}: it was deleted"
    stored = next((each for each in broker_log.stored if each.record.offset == offset), None)
    if stored and stored.identity == UNKNOWN and not (sought.digest and digest_of(stored.record.payload)):
        return f"offset {offset} was acknowledged, and the record there does not say which message it is"
    for record in log.records:
        if record.offset == offset:
            what = "the marker of a transaction" if record.marker else "another message"
            return (
                f"offset {offset} was acknowledged, and the log has {what} there, of leader epoch "
                f"{record.leader_epoch}: the log was truncated and written anew"
            )
    return f"offset {offset} was acknowledged, and the log has no record there: it was compacted away"
