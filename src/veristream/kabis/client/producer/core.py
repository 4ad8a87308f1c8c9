"""The decisions of a producer, without a clock, a socket or a thread: inputs in, outputs out.

Events wait a few milliseconds for others of their partition and become a signed batch. F+1 storage parties
store it, then F+1 validators get it, one of them honest; other validators get it later, so that nobody is
censored. The events are acknowledged when a certified block contains the batch.

A sequence number is signed once, because two batches with one number are evidence against their producer.
A signed batch is therefore resent unchanged while the producer is open, and a restarted producer takes it
from its journal. Without a journal, the storage parties are asked for our batches before anything is
signed; after a crash that fails if one of them lies, or if the batch reached only silent ones. Whether a
topic is validated is decided by the ledger's state at the moment when a batch is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from itertools import islice

from veristream.kabis.client.authority import find_key_problem, require_writer
from veristream.kabis.client.errors import (
    BufferFullError,
    ClosedError,
    DeliveryTimeoutError,
    KeyInUseError,
    PolicyChangedError,
    UnknownTopicError,
)
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.partitioner import Partitioner
from veristream.kabis.client.producer import outputs
from veristream.kabis.client.producer.chains import decode_batches, find_continuation, is_signed
from veristream.kabis.client.producer.counters import Counters
from veristream.kabis.client.producer.outputs import Output
from veristream.kabis.client.producer.queue import NEVER_MS, Flight, PartitionQueue
from veristream.kabis.client.producer.stores import Stores
from veristream.kabis.client.producer.window import find_wait, find_window
from veristream.kabis.client.pushes import Failure, Parcel, Pushed, Settlement
from veristream.kabis.ledger.event_receipts import EventReceipt, make_receipt
from veristream.kabis.ledger.follower import Change, Followed, Follower
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.batch import Batch, Stream, build_batch
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.outcomes import Admitted
from veristream.kabis.protocol.partitions import PartitionName, StreamName
from veristream.kabis.protocol.plain import PlainAppend
from veristream.kabis.protocol.receipts import StorageReceipt
from veristream.kabis.protocol.records import Record, encode_leaf, murmur2
from veristream.kabis.protocol.transactions import Author, Signed, Submit, submit


class ProducerCore:
    """The producer of one client under one key; `session` is random for each run.

    `journal` contains the batches of earlier runs, oldest first; None if the producer has no journal.
    """

    def __init__(
        self,
        follower: Follower,
        author: Author,
        options: ProducerOptions,
        session: bytes,
        journal: Sequence[bytes] | None = None,
        guard: AbstractContextManager[object] | None = None,
    ) -> None:
        self.follower = follower
        self.counters = Counters()
        self.attention = False
        self.next_ms = NEVER_MS
        self.buffered_bytes = 0
        self._genesis = follower.genesis
        self._ledger = follower.ledger
        self._author = author
        self._options = options
        self._session = session
        self._journal = None if journal is None else tuple(map(Batch.decode, journal))
        self._guard = nullcontext() if guard is None else guard
        self._stores = Stores(self._ledger)
        self._first_validator = murmur2(author.name.encode("utf-8"))
        self._partitioners: dict[str, Partitioner[PartitionQueue]] = {}
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._started = False
        self._failure: Failure | None = None
        self._out: list[Output] = []

    # Pushing.

    def push(self, record: Record, now_ms: int) -> Pushed:
        """Takes an event; the next input returns its outputs. `attention` asks for a tick soon."""
        partitioner = self._partitioners.get(record.topic) or self._make_partitioner(record.topic)
        queue = partitioner.find(record)
        encode = encode_leaf if queue.sealer is None else queue.sealer.seal_leaf
        leaf = encode(record.key, record.value, record.headers, record.timestamp_ms)
        size = len(leaf)
        options = self._options
        if self.buffered_bytes and self.buffered_bytes + size > options.buffer_bytes:
            raise BufferFullError(self.buffered_bytes)
        parcel = queue.open
        if parcel is None or parcel.size_bytes + size > options.batch_bytes:
            parcel = self._open_parcel(queue, now_ms)
        leaves = parcel.leaves
        leaves.append(leaf)
        parcel.size_bytes += size
        self.buffered_bytes += size
        if len(leaves) >= options.batch_events:
            queue.close_open()
            self.attention = True
        return Pushed(parcel, len(leaves) - 1)

    def _make_partitioner(self, topic: str) -> Partitioner[PartitionQueue]:
        assert self._started, "events are pushed once the ledger is known"
        if self._failure is not None:
            raise self._failure
        require_writer(self._ledger, self._author, topic)
        queues = [self._queue(topic, partition) for partition in range(self.partitions_for(topic))]
        partitioner = self._partitioners[topic] = Partitioner(queues)
        return partitioner

    def _open_parcel(self, queue: PartitionQueue, now_ms: int) -> Parcel:
        queue.close_open()
        options = self._options
        due_ms = now_ms + options.linger_ms
        queue.open = Parcel(queue.topic, queue.partition, due_ms, now_ms + options.delivery_timeout_ms)
        self.attention = True
        self._note(due_ms)
        return queue.open

    def _queue(self, topic: str, partition: int) -> PartitionQueue:
        queue = self._queues.get((topic, partition))
        if queue is None:
            sealer = self._options.sealers.get(topic)
            queue = self._queues[topic, partition] = PartitionQueue(topic, partition, self._session, sealer)
            if self._journal is not None:
                self._know_chain(queue, self._journal)
        return queue

    def partitions_for(self, topic: str) -> int:
        """Returns the number of a topic's partitions."""
        known = self._ledger.topic(topic)
        if known is None:
            raise UnknownTopicError(topic)
        return known.partitions

    def parcels(self) -> list[Parcel]:
        """Returns all parcels that are not settled."""
        return [parcel for queue in self._queues.values() for parcel in queue.parcels()]

    @property
    def busy(self) -> bool:
        """Whether batches are in flight, including those that nobody waits for."""
        return any(queue.flights or queue.plain for queue in self._queues.values())

    # Inputs; each returns the outputs to perform.

    def start(self, now_ms: int) -> list[Output]:
        """The ledger has reached the validators' height: resend what was signed before a restart."""
        self._started = True
        self._stores.meet(self._ledger, ())
        self._check_key()
        if self._failure is None:
            for batch in self._journal or ():
                self._queue(batch.header.topic, batch.header.partition)
        return self.tick(now_ms)

    def tick(self, now_ms: int) -> list[Output]:
        """Time has passed, or events were pushed."""
        self.attention = False
        self.next_ms = NEVER_MS
        for queue in self._queues.values():
            self._advance(queue, now_ms)
        return self._drain()

    def flush(self, now_ms: int) -> list[Output]:
        """Sends the open parcels without waiting for further events."""
        for queue in self._queues.values():
            queue.close_open()
        return self.tick(now_ms)

    def close(self, why: Failure | None = None) -> list[Output]:
        """Fails everything that is not acknowledged, and all further pushes."""
        self._fail_all(why or ClosedError("the event was not acknowledged before"))
        return self._drain()

    def block(self, certified: CertifiedBlock, now_ms: int) -> list[Output]:
        """A block was decided. Raises FalseBlockError if it was not."""
        followed = self.follower.follow(certified, now_ms)
        if followed is None:
            return []
        touched: dict[tuple[str, int], PartitionQueue] = {}
        for change in followed.changes:
            match change:
                case Change(_, Submit(signed), Admitted(first_index)):
                    header = signed.header
                    queue = self._queues.get((header.topic, header.partition))
                    if queue is not None and header.producer == self._author.name:
                        self._admitted(queue, signed.digest(), followed, first_index)
                        touched[queue.topic, queue.partition] = queue
                case Change(_, Signed(action=SetTopic(topic))):
                    touched.update(self._policy_changed(topic))
        changed = self._stores.meet(self._ledger, self._queues.values())
        if self._started:
            self._check_key()
            for queue in (self._queues if changed else touched).values():
                self._advance(queue, now_ms)
        return self._drain()

    def journaled(self, digests: Iterable[bytes], now_ms: int) -> list[Output]:
        """These batches are durable in the journal and may be sent."""
        written = set(digests)
        for queue in self._queues.values():
            found = [flight for flight in queue.flights if flight.digest in written]
            for flight in found:
                flight.written = True
            if found:
                self._advance(queue, now_ms)
        return self._drain()

    def stored(
        self, place: PartitionName, party: str, receipt: StorageReceipt, now_ms: int
    ) -> list[Output]:
        """A party returned a receipt; one that is false or another party's counts as a failure."""
        queue, flight = self._find(place, receipt.digest)
        if flight is not None:
            try:
                self._stores.verify(party, receipt, self.follower.verify)
            except SignatureError as error:
                return self.store_failed(place, party, receipt.digest, str(error), now_ms)
            flight.attempts.answered(party)
            flight.receipts[party] = receipt
            self._advance(queue, now_ms)
        return self._drain()

    def store_failed(
        self, place: PartitionName, party: str, digest: bytes, why: str, now_ms: int
    ) -> list[Output]:
        """A party refused, lied or did not answer."""
        _, flight = self._find(place, digest)
        if flight is not None:
            flight.problem = f"{party}: {why}"
            flight.attempts.failed(party, now_ms + self._options.retry_ms)
            self._note(now_ms + self._options.retry_ms)
        return self._drain()

    def refused(self, place: PartitionName, digest: bytes, why: str, now_ms: int) -> list[Output]:
        """A validator refused or did not answer. It may lie, so others are asked soon."""
        _, flight = self._find(place, digest)
        if flight is not None:
            flight.problem = why
            wait_ms = find_wait(self._options, flight.submits)
            flight.submit_ms = min(flight.submit_ms, now_ms + wait_ms)
            self._note(flight.submit_ms)
        return self._drain()

    def appended(self, append: PlainAppend, first_offset: int, now_ms: int) -> list[Output]:
        """The storage party has appended events of a topic that is not validated."""
        queue = self._queues[append.place.topic, append.place.partition]
        if queue.plain is not None and queue.plain.append is append:
            parcel, queue.plain = queue.plain.parcel, None
            self._acknowledge(parcel, Settlement(first_offset, None, None))
            self._advance(queue, now_ms)
        return self._drain()

    def append_failed(self, append: PlainAppend, party: str, why: str, now_ms: int) -> list[Output]:
        """The storage party refused or did not answer; the same append is sent again."""
        queue = self._queues[append.place.topic, append.place.partition]
        if queue.plain is not None and queue.plain.append is append:
            queue.plain.problem = f"{party}: {why}"
            queue.plain.attempts.failed(party, now_ms + self._options.retry_ms)
            self._note(now_ms + self._options.retry_ms)
        return self._drain()

    def recovered(
        self, place: PartitionName, party: str, batches: Sequence[bytes] | None, now_ms: int
    ) -> list[Output]:
        """A party returned our earlier batches of a partition; None if it did not answer."""
        queue = self._queues[place.topic, place.partition]
        if queue.known:
            return []
        if batches is None:
            queue.attempts.failed(party, now_ms + self._options.retry_ms)
            self._note(now_ms + self._options.retry_ms)
            return []
        queue.attempts.answered(party)
        queue.answers[party] = tuple(batches)
        if self._stores.suffice(queue.answers):
            self._know_chain(queue, decode_batches(queue.answers.values()))
            queue.answers.clear()
            self._advance(queue, now_ms)
        return self._drain()

    # Consequences.

    def _drain(self) -> list[Output]:
        drained, self._out = self._out, []
        return drained

    def _note(self, when_ms: int) -> None:
        self.next_ms = min(self.next_ms, when_ms)

    def _find(self, place: PartitionName, digest: bytes) -> tuple[PartitionQueue, Flight | None]:
        queue = self._queues[place.topic, place.partition]
        return queue, queue.find(digest)

    def _advance(self, queue: PartitionQueue, now_ms: int) -> None:
        """Does everything that the queue is ready for."""
        if self._failure is not None or not self._started:
            return
        self._expire(queue, now_ms)
        topic = self._ledger.topic(queue.topic)
        validated = topic is not None and topic.validated
        if queue.open is not None:
            if queue.open.due_ms > now_ms:
                self._note(queue.open.due_ms)
            elif queue.has_room(self._options.in_flight, validated=validated):
                queue.close_open()  # otherwise it could not leave yet, and takes further events
        if validated:
            self._advance_chain(queue, now_ms)
        elif queue.plain is None and queue.ready:
            self.counters.batches += 1
            self.counters.pushed += queue.begin_plain()
        self._advance_plain(queue, now_ms)

    def _advance_chain(self, queue: PartitionQueue, now_ms: int) -> None:
        if not queue.known:
            if queue.ready:
                self._ask_chain(queue, now_ms)
            return
        while queue.ready and len(queue.flights) < self._options.in_flight:
            self._sign(queue, queue.ready.popleft())
        in_order = True
        behind: set[str] = set()
        for flight in islice(queue.flights, find_window(len(self._queues))):
            # Were the predecessor lost in a crash, another batch would be signed with its number.
            if not flight.written:
                break
            self._store(flight, behind, now_ms)
            in_order = in_order and self._submit(flight, now_ms)

    def _ask_chain(self, queue: PartitionQueue, now_ms: int) -> None:
        """Asks the storage parties for our batches, before we sign one that might contradict them."""
        author = self._author
        if not queue.attempts.asked and not queue.answers:
            cursor = self._ledger.cursor(author.name, queue.topic, queue.partition)
            queue.asked_sequence = cursor.next_sequence
        stream = StreamName(queue.topic, queue.partition, author.name, author.key_epoch)
        for party in self._stores.keys:
            if party not in queue.answers and queue.attempts.may_ask(party, now_ms):
                queue.attempts.asked.add(party)
                self._out.append(outputs.Recover(party, stream, queue.asked_sequence))
        self._note(queue.attempts.again())

    def _know_chain(self, queue: PartitionQueue, batches: Iterable[Batch]) -> None:
        """Continues the chain from the ledger, with the batches that were signed since."""
        cursor = self._ledger.cursor(self._author.name, queue.topic, queue.partition)
        queue.known, queue.next_sequence, queue.last = True, cursor.next_sequence, cursor.last
        is_ours = partial(is_signed, self._author.signer.public, self.follower.verify)
        for batch in find_continuation(self._stream(queue), batches, cursor, is_ours):
            flight = Flight(None, batch, batch.encode(), batch.digest(), written=True)
            queue.flights.append(flight)
            queue.next_sequence, queue.last = batch.header.next_sequence, flight.digest
            self.counters.recovered += 1

    def _stream(self, queue: PartitionQueue) -> Stream:
        author = self._author
        return Stream(author.chain_id, queue.topic, queue.partition, author.name, author.key_epoch)

    def _sign(self, queue: PartitionQueue, parcel: Parcel) -> None:
        leaves = parcel.take_leaves()
        batch = build_batch(
            self._stream(queue), queue.next_sequence, queue.last, leaves, self._author.signer
        )
        flight = Flight(parcel, batch, batch.encode(), batch.digest(), written=self._journal is None)
        queue.flights.append(flight)
        queue.next_sequence, queue.last = batch.header.next_sequence, flight.digest
        self.counters.batches += 1
        self.counters.pushed += batch.header.count
        if not flight.written:
            self._out.append(outputs.Write(flight.data, flight.digest))

    def _store(self, flight: Flight, behind: set[str], now_ms: int) -> None:
        """Sends a batch to the parties, except to those that failed on an earlier one (`behind`).

        So a party's log has the producer's order, on which consumers rely that do not validate.
        """
        header = flight.batch.header
        for party in self._stores.keys:
            if party in flight.receipts or party in flight.attempts.asked or party in behind:
                continue
            if flight.attempts.may_ask(party, now_ms):
                flight.attempts.asked.add(party)
                place = PartitionName(header.topic, header.partition)
                self._out.append(outputs.Store(party, place, flight.data, flight.digest))
                self.counters.stores += 1
            else:
                behind.add(party)
                self._note(flight.attempts.again_ms[party])

    def _submit(self, flight: Flight, now_ms: int) -> bool:
        """Submits a batch that enough parties have stored; returns False if later ones must wait."""
        if flight.transaction is None:
            chosen = self._stores.choose(flight.receipts)
            if chosen is None:
                return False
            flight.transaction = submit(flight.batch.signed, chosen).encode()
        if flight.submit_ms <= now_ms:
            header = flight.batch.header
            place = PartitionName(header.topic, header.partition)
            members = self._ledger.members
            for _ in range(members.faults + 1):
                validator = (self._first_validator + flight.validators_asked) % len(members.validators)
                flight.validators_asked += 1
                self._out.append(outputs.Submit(validator, place, flight.transaction, flight.digest))
                self.counters.submits += 1
            flight.submits += 1
            flight.submit_ms = now_ms + self._options.submit_timeout_ms
        self._note(flight.submit_ms)
        return True

    def _advance_plain(self, queue: PartitionQueue, now_ms: int) -> None:
        if queue.plain is None:
            return
        party = self._ledger.memberships.party_of(queue.topic)
        if queue.plain.attempts.may_ask(party, now_ms):
            queue.plain.attempts.asked.add(party)
            self._out.append(outputs.Append(party, queue.plain.append))
        self._note(queue.plain.attempts.again())

    def _expire(self, queue: PartitionQueue, now_ms: int) -> None:
        """Fails what has waited too long; signed batches stay in flight, though nobody waits for them."""
        where = f"{queue.topic}-{queue.partition}"
        for parcel, problem in queue.abandon(now_ms):
            self._fail(parcel, DeliveryTimeoutError(where, problem or "no block has it"))
        if queue.plain is not None and queue.plain.parcel.deadline_ms <= now_ms:
            plain = queue.give_up_plain()
            self._fail(plain.parcel, DeliveryTimeoutError(where, plain.problem or "no answer"))
        while queue.ready and queue.ready[0].deadline_ms <= now_ms:
            parcel = queue.ready.popleft()
            self._fail(parcel, DeliveryTimeoutError(where, "it was never sent"))
        self._note(queue.deadline_ms())

    def _admitted(self, queue: PartitionQueue, digest: bytes, followed: Followed, first_index: int) -> None:
        if not queue.known:
            return
        if not queue.flights or queue.flights[0].digest != digest:
            self._fail_all(KeyInUseError(self._author.name, f"{queue.topic}-{queue.partition}"))
            return
        flight = queue.flights.popleft()
        self._out.append(outputs.Admitted(digest))
        if flight.parcel is not None:
            prove = partial(self._prove, flight.batch, followed)
            settlement = Settlement(first_index, followed.block.header.time_ms, prove)
            self._acknowledge(flight.parcel, settlement)

    def _prove(self, batch: Batch, followed: Followed, position: int) -> EventReceipt:
        with self._guard:
            proof = self._ledger.prove_key(batch.header.producer, batch.header.key_epoch)
            made, last, handed = followed.header, self.follower.last, self._ledger.succession
        assert proof is not None and last is not None, "a batch was admitted under a key"
        return make_receipt(batch, position, followed.block, made.certificate, (proof, last), handed)

    def _policy_changed(self, name: str) -> dict[tuple[str, int], PartitionQueue]:
        """Fails the events of signed batches if the topic is no longer validated."""
        self._partitioners.pop(name, None)
        topic = self._ledger.topic(name)
        queues = {place: queue for place, queue in self._queues.items() if place[0] == name}
        for queue in queues.values() if topic is not None and not topic.validated else ():
            for flight in queue.flights:
                if flight.parcel is not None:
                    self._fail(flight.parcel, PolicyChangedError(name))
                    flight.parcel = None
        return queues

    def _check_key(self) -> None:
        problem = find_key_problem(self._ledger, self._author)
        if problem is not None:
            self._fail_all(problem)

    def _acknowledge(self, parcel: Parcel, settlement: Settlement) -> None:
        self.buffered_bytes -= parcel.size_bytes
        self.counters.acknowledged += parcel.count
        self._out.append(outputs.Settle(parcel, settlement))

    def _fail(self, parcel: Parcel, failure: Failure) -> None:
        self.buffered_bytes -= parcel.size_bytes
        self.counters.failed += parcel.count
        self._out.append(outputs.Settle(parcel, failure))

    def _fail_all(self, failure: Failure) -> None:
        if self._failure is None:
            self._failure = failure
        for parcel in self.parcels():
            self._fail(parcel, self._failure)
        self._partitioners.clear()
        for queue in self._queues.values():
            queue.open, queue.plain = None, None
            queue.ready.clear()
            queue.flights.clear()
