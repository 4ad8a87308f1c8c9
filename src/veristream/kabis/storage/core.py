"""A storage party over any log: stores batches, signs receipts, and returns batches.

*Batches* of validated topics are found by their key (topic, partition, producer, key epoch, first sequence)
and by the digest of their header. A batch is stored only if its events match the root in its header and the
caller's key signed it. A receipt lets the validators admit a batch, so a party that stored anything else
would help to order events that nobody can read. Storing the same batch again changes nothing. A second
batch with the same key and another digest is stored as well, because the two signed headers are evidence
against the producer. A third proves no more and is refused.

*Plain records* of topics that are not validated get an offset per partition, in the order of the log. So do
the events of batches, because consumers that do not validate read every topic by offset.

Nothing is returned or confirmed before the log reports that it is durable. Below the low-water mark the
answer is `Below`, which contains the mark; it is never confused with `Absent`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from veristream.kabis.log.disk.log import Gap, LogRecord, Retention
from veristream.kabis.protocol.answers import RANGE_BATCHES_MAX, Absent, Below
from veristream.kabis.protocol.batch import BatchError, BatchHeader, PackedBatch, SignedHeader
from veristream.kabis.protocol.blocks import Certificate
from veristream.kabis.protocol.codec import Octets
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SignatureError, Signer, Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import is_name
from veristream.kabis.protocol.partitions import PartitionName, StreamName, stream_of
from veristream.kabis.protocol.plain import PlainAppend, PlainEntry, PlainSlice
from veristream.kabis.protocol.receipts import (
    CertificateError,
    StorageAbsence,
    StorageReceipt,
    sign_storage_absence,
    sign_storage_receipt,
)
from veristream.kabis.storage.admission import BehindError, Gate, StorageRefusedError, Waiting
from veristream.kabis.storage.digests import DigestTable
from veristream.kabis.storage.entries import (
    CHECKPOINT_STREAMS_MAX,
    Appended,
    BatchEntry,
    Checkpoint,
    Entry,
    Extent,
    StoredBatch,
    decode_entry,
    make_checkpoint,
    show_plainly,
)
from veristream.kabis.storage.interface import StorageLog
from veristream.kabis.storage.messages import Batches
from veristream.kabis.storage.ranges import Ranges
from veristream.kabis.storage.seat import Seat

SESSIONS_MAX = 10_000
SESSION_APPENDS_KEPT = 16
CHECKPOINTS_MAX = 1000
_NO_END = 1 << 64


class NotDurableError(Exception):
    """The batch is written but not yet durable."""


class StorageCore:
    """The indexes of a party's log, rebuilt from it at every start."""

    def __init__(
        self,
        genesis: Genesis,
        party: str,
        signer: Signer,
        log: StorageLog,
        verify: Verify = verify_signature,
        gate: Gate | None = None,
    ) -> None:
        self.gate = gate
        self.waiting = Waiting()
        self._genesis = genesis
        self.seat = Seat.of(genesis, party, signer, gate)
        self._log = log
        self._verify = verify
        self._digests = DigestTable()
        self._streams: dict[StreamName, Ranges] = {}
        self._seconds: dict[tuple[StreamName, int], tuple[int, int]] = {}  # position and size
        self._settled: dict[StreamName, int] = {}
        self._settled_height = -1
        self._convicted: set[StreamName] = set()
        self._partitions: dict[PartitionName, Ranges] = {}
        self._plain: dict[PartitionName, Ranges] = {}
        self._sessions: OrderedDict[tuple[PartitionName, bytes], dict[int, Appended]] = OrderedDict()
        self._checkpoints: list[int] = []
        self._ends_saved = True
        self.lost_count = 0
        for entry in log.records():
            if isinstance(entry, Gap):
                self.lost_count += 0 if entry.released else entry.count
            else:
                self._replay(entry)
        self._recount()

    def _replay(self, record: LogRecord) -> None:
        match decode_entry(record.payload):
            case BatchEntry() as entry:
                header = entry.signed.header
                self._index(header, header.digest(), entry, record.position)
            case PlainEntry() as entry:
                self._index_plain(entry, record.position)
            case Checkpoint(streams, partitions):
                self._checkpoints.append(record.position)
                for stream, extent in streams:
                    self._extend(stream, extent)
                for place, extent in partitions:
                    self._extend(place, extent)

    # Batches.

    def store(
        self, data: Octets, producer: str, public: bytes, announced: bytes | None = None
    ) -> StoredBatch:
        """Stores a batch of a producer with this key. Raises StorageRefusedError or DecodeError.

        If a digest was announced, the batch must have it.
        """
        batch = PackedBatch.decode(data)
        header = batch.signed.header
        digest = header.digest()
        if announced not in (None, digest):
            raise StorageRefusedError("another batch than was announced")
        self._require_ours(header, producer)
        self.seat.require()
        known = self._digests.get(digest)
        if known is not None:
            return StoredBatch(known, digest, again=True)
        stream = stream_of(header)
        ranges = self._streams.get(stream)
        if ranges is not None and header.next_sequence <= ranges.low_water:
            raise StorageRefusedError(
                f"sequence {header.first_sequence} is below retention: {ranges.low_water}"
            )
        if self.gate is not None and self.gate.require(header, digest, public):
            self._require_room(self.gate, producer, len(data))
        if (stream, header.first_sequence) in self._seconds:
            raise StorageRefusedError("two other batches with this sequence are already kept as evidence")
        try:
            batch.signed.verify(public, self._verify)
            batch.verify_contents()
        except (SignatureError, BatchError) as error:
            raise StorageRefusedError(str(error)) from error
        return StoredBatch(self._append(header, digest, data), digest, again=False)

    def copy(self, header: BatchHeader, digest: bytes, data: Octets) -> int:
        """Stores an admitted batch that the party lacks, which the caller has checked; returns where."""
        if (stream_of(header), header.first_sequence) in self._seconds:
            self.settle()  # so that two batches with this number, neither admitted, do not hide it
        return self._append(header, digest, data)

    def lacks(self, stream: StreamName, first: int, digest: bytes) -> bool:
        """Whether it lacks the batch with this digest, and has not let it go for its age or size."""
        return digest not in self._digests and self._streams.get(stream, Ranges()).low_water <= first

    def _append(self, header: BatchHeader, digest: bytes, data: Octets) -> int:
        entry = BatchEntry(self._partition_of(header).end, data)
        position = self._log.append(*entry.parts())
        self._index(header, digest, entry, position)
        return position

    def _require_ours(self, header: BatchHeader, producer: str) -> None:
        if header.chain_id != self._genesis.chain_id:
            raise StorageRefusedError(f"the batch is of the chain {header.chain_id!r}")
        if header.producer != producer:
            raise StorageRefusedError(f"a batch of {header.producer!r} does not come from {producer!r}")
        if not is_name(header.topic):
            raise StorageRefusedError(f"{header.topic!r} is not a valid topic name")

    def _require_room(self, gate: Gate, producer: str, size_bytes: int) -> None:
        """Raises BehindError if too much of the producer, or of all, waits for its admission."""
        excess = self.waiting.find_excess(producer, size_bytes, gate.limits)
        if excess is not None and self._settled_height < gate.view.height:
            self.settle()  # not for each request: it looks at all streams, and only blocks change anything
        excess = self.waiting.find_excess(producer, size_bytes, gate.limits)
        if excess is not None:
            raise BehindError(f"{excess}; try again later")

    def _partition_of(self, header: BatchHeader) -> Ranges:
        return self._partitions.setdefault(PartitionName(header.topic, header.partition), Ranges())

    def _index(self, header: BatchHeader, digest: bytes, entry: BatchEntry, position: int) -> None:
        size_bytes = len(entry.data)
        self._partition_of(header).add(entry.first_offset, header.count, position, size_bytes)
        stream = stream_of(header)
        ranges = self._streams.setdefault(stream, Ranges())
        self._digests.put(digest, position)
        if not ranges.add(header.first_sequence, header.count, position, size_bytes):
            self._seconds[(stream, header.first_sequence)] = (position, size_bytes)
        if header.first_sequence >= self._settled.get(stream, 0):
            self.waiting.add(header.producer, size_bytes)

    def receipt(self, digest: bytes) -> StorageReceipt:
        """Signs the receipt of a batch. Raises NotDurableError until it is durable, StorageRefusedError."""
        position = self._digests.get(digest)
        if position is None:  # perhaps it was dropped while it waited for the disk
            raise StorageRefusedError(f"the batch {digest.hex()[:16]} is not kept")
        if position >= self._log.durable:
            raise NotDurableError(f"the batch {digest.hex()[:16]} is not durable yet")
        self.seat.require()
        return sign_storage_receipt(self._genesis.chain_id, self.seat.name, digest, self.seat)

    def absence(self, signed: SignedHeader, certificate: Certificate) -> StorageAbsence | Below:
        """Signs that the party lacks a batch at the height of the certificate.

        Raises StorageRefusedError if it has the batch or the certificate is invalid. Returns Below if the
        batch was released.
        """
        digest = signed.digest()
        if digest in self._digests:
            raise StorageRefusedError("the party has the batch")
        ranges = self._streams.get(stream_of(signed.header))
        if ranges is not None and signed.header.next_sequence <= ranges.low_water:
            return Below(ranges.low_water)
        try:
            members = self.seat.memberships.at(certificate.height)
            certificate.verify(self._genesis.chain_id, members.validator_keys, self._verify)
        except CertificateError as error:
            raise StorageRefusedError(f"the certificate does not prove the height: {error}") from error
        signer, height = self.seat.signer_at(certificate.height), certificate.height
        return sign_storage_absence(self._genesis.chain_id, self.seat.name, digest, height, signer)

    def view_digest(self, digest: bytes) -> Octets | Absent | Below:
        """Returns the batch whose header has this digest, as a view of the bytes that were read."""
        position = self._digests.get(digest)
        entry = Absent() if position is None else self._durable_batch(position)
        if isinstance(entry, Absent):
            return entry
        header = entry.signed.header
        low_water = self._streams[stream_of(header)].low_water
        return Below(low_water) if header.next_sequence <= low_water else entry.data

    def fetch_range(
        self, stream: StreamName, first_sequence: int, bytes_max: int
    ) -> tuple[bytes, ...] | Below:
        """Returns the batches from the one with a sequence number on, at least one if there is one."""
        ranges = self._streams.get(stream, Ranges())
        if first_sequence < ranges.low_water:
            return Below(ranges.low_water)
        found = self._durable_entries(ranges.covering(first_sequence), bytes_max)
        return tuple(bytes(entry.data) for entry in found if isinstance(entry, BatchEntry))

    def evidence(self, topic: str) -> list[tuple[SignedHeader, SignedHeader]]:
        """Returns the pairs of signed headers with one sequence number: evidence against producers."""
        pairs = []
        for (stream, sequence), (second, _) in self._seconds.items():
            first = self._streams[stream].position_of(sequence)
            if stream.topic == topic and first is not None and second < self._log.durable:
                pairs.append((self._batch_at(first).signed, self._batch_at(second).signed))
        return pairs

    def catch_up(self, position: int, bytes_max: int) -> Batches | Below:
        """Returns the batches of this log from a position on, for a party that was down."""
        if position < self._log.start:
            return Below(self._log.start)
        batches: list[bytes] = []
        taken = 0
        for entry in self._log.records(position, self._log.durable):
            found = decode_entry(entry.payload) if isinstance(entry, LogRecord) else None
            if isinstance(found, BatchEntry):
                if batches and taken + len(found.data) > bytes_max:
                    return Batches(entry.position, tuple(batches))
                batches.append(bytes(found.data))
                taken += len(found.data)
            position = entry.position + (entry.count if isinstance(entry, Gap) else 1)
            if len(batches) >= RANGE_BATCHES_MAX:
                break
        return Batches(position, tuple(batches))

    def _batch_at(self, position: int) -> BatchEntry:
        entry = decode_entry(self._log.read(position))
        assert isinstance(entry, BatchEntry)
        return entry

    def _durable_batch(self, position: int) -> BatchEntry | Absent:
        return self._batch_at(position) if position < self._log.durable else Absent()

    def _durable_entries(self, positions: Iterable[int], bytes_max: int) -> Iterator[Entry]:
        taken = 0
        for position in islice(positions, RANGE_BATCHES_MAX):
            if position >= self._log.durable:
                return
            data = self._log.read(position)
            if taken and taken + len(data) > bytes_max:
                return
            taken += len(data)
            yield decode_entry(data)

    # What the chain decides.

    def settle(self) -> int:
        """Removes the batches that can never be admitted any more; returns how many.

        These are batches whose sequence number was admitted with another digest, and batches under a key
        that has ended. One pair of headers with one number stays for each stream: it convicts its producer.
        """
        assert self.gate is not None, "only the chain decides"
        self._settled_height = self.gate.view.height
        dead: set[int] = set()
        for stream, ranges in self._streams.items():
            view, settled = self.gate.view, self._settled.get(stream, 0)
            has_ended = view.has_ended(stream.producer, stream.key_epoch)
            end = _NO_END if has_ended else view.next_sequence(stream)
            for first, position, size_bytes in ranges.between(settled, end) if end > settled else ():
                self.waiting.remove(stream.producer, size_bytes)
                if first >= view.marks.get(stream, 0):
                    dead |= self._settle_one(stream, first, position)
            self._settled[stream] = max(settled, end)
        self._remove(dead)
        return len(dead)

    def _settle_one(self, stream: StreamName, first: int, position: int) -> set[int]:
        """Returns the positions of the batches with this number that can never be admitted."""
        assert self.gate is not None
        digest = self.gate.view.digest_of(stream, first)
        admitted = None if digest is None else self._digests.get(digest)
        second = self._seconds.get((stream, first))
        if second is None:
            return set() if admitted == position else {position}
        self.waiting.remove(stream.producer, second[1])
        if admitted == second[0]:  # the index leads to the admitted one, and the other is evidence
            ranges = self._streams[stream]
            ((_, _, size_bytes),) = ranges.between(first, first + 1)
            ranges.replace(first, *second)
            self._seconds[stream, first] = second = (position, size_bytes)
        if stream not in self._convicted:
            self._convicted.add(stream)
            return set()
        del self._seconds[stream, first]
        return {second[0]} if admitted in (position, second[0]) else {position, second[0]}

    def _recount(self) -> None:
        """Counts anew what waits, after batches were removed that may not have been admitted."""
        self.waiting = Waiting()
        for stream, ranges in self._streams.items():
            for _, _, size_bytes in ranges.between(self._settled.get(stream, 0), _NO_END):
                self.waiting.add(stream.producer, size_bytes)
        for (stream, first), (_, size_bytes) in self._seconds.items():
            if first >= self._settled.get(stream, 0):
                self.waiting.add(stream.producer, size_bytes)

    def _remove(self, dead: set[int]) -> None:
        """Removes records from all indexes."""
        if not dead:
            return
        for ranges in self._streams.values():
            ranges.remove(dead)
        for ranges in self._partitions.values():
            ranges.remove(dead, released=True)
        self._digests.remove(dead)
        self._ends_saved = False

    # Topics that are not validated.

    def append_plain(self, append: PlainAppend) -> Appended:
        """Appends events to a partition; the same append again returns the same offset."""
        if not is_name(append.place.topic):
            raise StorageRefusedError(f"{append.place.topic!r} is not a valid topic name")
        earlier = self._sessions.get((append.place, append.session), {})
        if append.sequence in earlier:
            return earlier[append.sequence]
        if self.gate is not None:
            self.gate.require_partition(append.place)
        self.seat.require()
        expected = max(earlier, default=-1) + 1
        if append.sequence != expected:
            raise StorageRefusedError(f"append {append.sequence} out of order: {expected} is the next")
        ranges = self._partitions.setdefault(append.place, Ranges())
        entry = PlainEntry(ranges.end, append)
        position = self._log.append(entry.encode())
        return self._index_plain(entry, position)

    def _index_plain(self, entry: PlainEntry, position: int) -> Appended:
        append = entry.append
        for ranges in (self._partitions, self._plain):
            ranges.setdefault(append.place, Ranges()).add(entry.first_offset, len(append.leaves), position)
        appended = Appended(position, entry.first_offset)
        session = self._sessions.setdefault((append.place, append.session), {})
        session[append.sequence] = appended
        self._sessions.move_to_end((append.place, append.session))
        if len(session) > SESSION_APPENDS_KEPT:
            del session[min(session)]
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return appended

    def fetch_plain(self, place: PartitionName, offset: int, bytes_max: int) -> PlainSlice | Below:
        """Returns the entries of a partition from the one with this offset on; empty at the end.

        Returns a batch of a validated topic as if it were plain, without its signature.
        """
        ranges = self._partitions.get(place, Ranges())
        if offset < ranges.low_water:
            return Below(ranges.low_water)
        found = self._durable_entries(ranges.covering(offset), bytes_max)
        return PlainSlice(ranges.end_before(self._log.durable), tuple(map(show_plainly, found)))

    # Retention.

    def raise_low_water(self, name: StreamName | PartitionName, low_water: int) -> None:
        """Raises the mark below which nothing is returned. It never falls, and never passes the end."""
        ranges = self._find(name)
        if ranges is None or not ranges.low_water < low_water <= ranges.end:
            raise StorageRefusedError("the mark must lie between the last one and the end")
        checkpoint = make_checkpoint([(name, Extent(low_water, ranges.end))])
        self._checkpoints.append(self._log.append(checkpoint.encode()))
        self._extend(name, Extent(low_water, ranges.end))
        self._recount()

    def let_go(self, marks: Mapping[StreamName, int]) -> int:
        """Raises the marks of streams, at most to their ends; returns how many were raised."""
        raised = 0
        for name, low_water in marks.items():
            ranges = self._streams.get(name)
            if ranges is not None and min(low_water, ranges.end) > ranges.low_water:
                self.raise_low_water(name, min(low_water, ranges.end))
                raised += 1
        return raised

    def _extend(self, name: StreamName | PartitionName, extent: Extent) -> None:
        if isinstance(name, StreamName):
            self._streams.setdefault(name, Ranges()).extend(extent.low_water, extent.end)
            for key in [key for key in self._seconds if key[0] == name and key[1] < extent.low_water]:
                del self._seconds[key]
        else:
            for ranges in (self._partitions, self._plain):
                ranges.setdefault(name, Ranges()).extend(extent.low_water, extent.end)

    def _find(self, name: StreamName | PartitionName) -> Ranges | None:
        return self._streams.get(name) if isinstance(name, StreamName) else self._partitions.get(name)

    def retain(self, size_bytes_max: int | None = None, age_ms_max: int | None = None) -> int:
        """Removes segments whose entries are all below their marks, and the oldest past a size or age.

        It first writes the new marks and the ends of the streams, which must outlive the records. Otherwise
        offsets would start again, and released batches would be reported as absent.
        """
        self._forget_released()
        wanted = (*self._streams.values(), *self._plain.values())
        oldest = (ranges.oldest_position for ranges in wanted)
        low_water = min(oldest, default=self._log.end)
        retention = Retention(low_water, size_bytes_max, age_ms_max)
        start = self._log.start_after(retention)
        if start > self._log.start:
            self._forget_before(start)
            self._write_checkpoints()
            self._log.retain(Retention(low_water=start))
        return self._log.start

    def _live(self) -> set[int]:
        """Returns the positions of the records that somebody may still ask for."""
        wanted = (*self._streams.values(), *self._plain.values())
        seconds = {position for position, _ in self._seconds.values()}
        return seconds.union(*(ranges.positions() for ranges in wanted))

    def _forget_released(self) -> None:
        """Frees the index of batches below the low-water marks, whose records may still be on disk."""
        live = self._live()
        self._remove({position for position in self._digests.positions() if position not in live})

    def _write_checkpoints(self) -> None:
        extents = [(name, Extent(ranges.low_water, ranges.end)) for name, ranges in self._everything()]
        written = [
            self._log.append(make_checkpoint(extents[begin : begin + CHECKPOINT_STREAMS_MAX]).encode())
            for begin in range(0, len(extents), CHECKPOINT_STREAMS_MAX)
        ]
        self._log.sync(now=True)
        self._checkpoints, self._ends_saved = written, True

    def compact(self) -> int:
        """Frees space on disk between records that are wanted; returns how many bytes.

        Before that, it writes the ends of the partitions, so that no offset is used again.
        """
        if not self._ends_saved or len(self._checkpoints) > CHECKPOINTS_MAX:
            self._write_checkpoints()
        return self._log.compact(sorted((*self._live(), *self._checkpoints)))

    def _everything(self) -> Iterator[tuple[StreamName | PartitionName, Ranges]]:
        yield from self._streams.items()
        yield from self._partitions.items()

    def _forget_before(self, start: int) -> None:
        for ranges in (*self._streams.values(), *self._partitions.values(), *self._plain.values()):
            ranges.forget_before(start)
        for key in [key for key, (position, _) in self._seconds.items() if position < start]:
            del self._seconds[key]
        self._forget_released()
        self._recount()
