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

from veristream.kabis.channels.interfaces import party_of
from veristream.kabis.client.authority import find_key_problem
from veristream.kabis.client.errors import (
    BufferFullError,
    ClosedError,
    DeliveryTimeoutError,
    KeyInUseError,
    PolicyChangedError,
    UnknownTopicError,
)
from veristream.kabis.client.producer import outputs
from veristream.kabis.client.producer.chains import decode_batches, find_continuation, is_signed
from veristream.kabis.client.producer.lanes import NEVER_MS, Flight, Lane
from veristream.kabis.client.producer.outputs import Output
from veristream.kabis.client.producer.routes import Counters, ProducerOptions, Route
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
    """The producer of one client under one key; `session` is drawn at random for each run.

    `journal` are the batches of earlier runs, oldest first; None if the producer keeps no journal.
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
        self._parties = {party.name: party.public for party in self._genesis.storage}
        self._first_validator = murmur2(author.name.encode("utf-8")) % len(self._genesis.validators)
        self._routes: dict[str, Route] = {}
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._started = False
        self._failure: Failure | None = None
        self._out: list[Output] = []

    # Pushing.

    def push(self, record: Record, now_ms: int) -> Pushed:
        """Takes an event; what it sets off comes out with the next input, soon if `attention` is set."""
        route = self._routes.get(record.topic) or self._make_route(record.topic)
        key, partition = record.key, record.partition
        if partition is None:
            partition = route.choose(key)
        elif not 0 <= partition < len(route.lanes):
            raise UnknownTopicError(record.topic, f"there is no partition {partition}")
        encode = encode_leaf if route.sealer is None else route.sealer.seal_leaf
        leaf = encode(key, record.value, record.headers, record.timestamp_ms)
        size = len(leaf)
        options = self._options
        if self.buffered_bytes and self.buffered_bytes + size > options.buffer_bytes:
            raise BufferFullError(self.buffered_bytes)
        lane = route.lanes[partition]
        parcel = lane.open
        if parcel is None or parcel.size_bytes + size > options.batch_bytes:
            parcel = self._open_parcel(lane, now_ms)
        leaves = parcel.leaves
        leaves.append(leaf)
        parcel.size_bytes += size
        self.buffered_bytes += size
        if len(leaves) >= options.batch_events:
            lane.close_open()
            self.attention = True
        return Pushed(parcel, len(leaves) - 1)

    def _make_route(self, name: str) -> Route:
        assert self._started, "events are pushed once the ledger is known"
        if self._failure is not None:
            raise self._failure
        lanes = [self._lane(name, partition) for partition in range(self.partitions_for(name))]
        route = self._routes[name] = Route(lanes, self._options.sealers.get(name))
        return route

    def _open_parcel(self, lane: Lane, now_ms: int) -> Parcel:
        lane.close_open()
        options = self._options
        due_ms = now_ms + options.linger_ms
        lane.open = Parcel(lane.topic, lane.partition, due_ms, now_ms + options.delivery_timeout_ms)
        self.attention = True
        self._note(due_ms)
        return lane.open

    def _lane(self, topic: str, partition: int) -> Lane:
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[topic, partition] = Lane(topic, partition, self._session)
            if self._journal is not None:
                self._know_chain(lane, self._journal)
        return lane

    def partitions_for(self, topic: str) -> int:
        """How many partitions a topic has."""
        known = self._ledger.topic(topic)
        if known is None:
            raise UnknownTopicError(topic)
        return known.partitions

    def parcels(self) -> list[Parcel]:
        """All parcels that somebody waits for."""
        return [parcel for lane in self._lanes.values() for parcel in lane.parcels()]

    @property
    def busy(self) -> bool:
        """Whether signed batches are on their way, also such that nobody waits for."""
        return any(lane.flights or lane.plain for lane in self._lanes.values())

    # Inputs; each gives what is to be done.

    def start(self, now_ms: int) -> list[Output]:
        """The ledger is as new as the validators say: go on with what was signed before a restart."""
        self._started = True
        self._check_key()
        if self._failure is None:
            for batch in self._journal or ():
                self._lane(batch.header.topic, batch.header.partition)
        return self.tick(now_ms)

    def tick(self, now_ms: int) -> list[Output]:
        """Time has passed, or events were pushed."""
        self.attention = False
        self.next_ms = NEVER_MS
        for lane in self._lanes.values():
            self._advance(lane, now_ms)
        return self._drain()

    def flush(self, now_ms: int) -> list[Output]:
        """Nothing waits for company any more."""
        for lane in self._lanes.values():
            lane.close_open()
        return self.tick(now_ms)

    def close(self) -> list[Output]:
        """Fails everything that is not acknowledged, and all pushes to come."""
        self._fail_all(ClosedError("the event was not acknowledged before"))
        return self._drain()

    def block(self, certified: CertifiedBlock, now_ms: int) -> list[Output]:
        """A block was decided; raises FalseBlockError if it is none."""
        followed = self.follower.follow(certified, now_ms)
        if followed is None:
            return []
        touched: dict[tuple[str, int], Lane] = {}
        for change in followed.changes:
            match change:
                case Change(_, Submit(signed), Admitted(first_index)):
                    header = signed.header
                    lane = self._lanes.get((header.topic, header.partition))
                    if lane is not None and header.producer == self._author.name:
                        self._admitted(lane, signed.digest(), followed, first_index)
                        touched[lane.topic, lane.partition] = lane
                case Change(_, Signed(action=SetTopic(topic))):
                    touched.update(self._policy_changed(topic))
        if self._started:
            self._check_key()
            for lane in touched.values():
                self._advance(lane, now_ms)
        return self._drain()

    def journaled(self, digests: Iterable[bytes], now_ms: int) -> list[Output]:
        """These batches are durable in the journal, so that they may leave."""
        written = set(digests)
        for lane in self._lanes.values():
            found = [flight for flight in lane.flights if flight.digest in written]
            for flight in found:
                flight.written = True
            if found:
                self._advance(lane, now_ms)
        return self._drain()

    def stored(
        self, place: PartitionName, party: str, receipt: StorageReceipt, now_ms: int
    ) -> list[Output]:
        """A party gave a receipt; a false one, or another's, is as good as none."""
        lane, flight = self._find(place, receipt.digest)
        if flight is not None:
            try:
                if receipt.party != party:
                    raise SignatureError(f"a receipt of {receipt.party!r}")
                receipt.verify(self._genesis.chain_id, self._parties[party], self.follower.verify)
            except SignatureError as error:
                return self.store_failed(place, party, receipt.digest, str(error), now_ms)
            flight.attempts.answered(party)
            flight.receipts[party] = receipt
            self._advance(lane, now_ms)
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
        """A validator refused or did not answer. It may lie, so that we only ask others, and soon."""
        _, flight = self._find(place, digest)
        if flight is not None:
            flight.problem = why
            flight.submit_ms = min(flight.submit_ms, now_ms + self._options.retry_ms)
            self._note(flight.submit_ms)
        return self._drain()

    def appended(self, append: PlainAppend, first_offset: int, now_ms: int) -> list[Output]:
        """The storage party has written events of a topic that is not validated."""
        lane = self._lanes[append.place.topic, append.place.partition]
        if lane.plain is not None and lane.plain.append is append:
            parcel, lane.plain = lane.plain.parcel, None
            self._acknowledge(parcel, Settlement(first_offset, None, None))
            self._advance(lane, now_ms)
        return self._drain()

    def append_failed(self, append: PlainAppend, party: str, why: str, now_ms: int) -> list[Output]:
        """The storage party refused or did not answer; the same append goes out again."""
        lane = self._lanes[append.place.topic, append.place.partition]
        if lane.plain is not None and lane.plain.append is append:
            lane.plain.problem = f"{party}: {why}"
            lane.plain.attempts.failed(party, now_ms + self._options.retry_ms)
            self._note(now_ms + self._options.retry_ms)
        return self._drain()

    def recovered(
        self, place: PartitionName, party: str, batches: Sequence[bytes] | None, now_ms: int
    ) -> list[Output]:
        """What a party has of our lane from before; None if it did not answer."""
        lane = self._lanes[place.topic, place.partition]
        if lane.known:
            return []
        if batches is None:
            lane.attempts.failed(party, now_ms + self._options.retry_ms)
            self._note(now_ms + self._options.retry_ms)
            return []
        lane.attempts.answered(party)
        lane.answers[party] = tuple(batches)
        if len(lane.answers) >= len(self._parties) - self._genesis.faults:
            self._know_chain(lane, decode_batches(lane.answers.values()))
            lane.answers.clear()
            self._advance(lane, now_ms)
        return self._drain()

    # What follows from them.

    def _drain(self) -> list[Output]:
        drained, self._out = self._out, []
        return drained

    def _note(self, when_ms: int) -> None:
        self.next_ms = min(self.next_ms, when_ms)

    def _find(self, place: PartitionName, digest: bytes) -> tuple[Lane, Flight | None]:
        lane = self._lanes[place.topic, place.partition]
        return lane, lane.find(digest)

    def _advance(self, lane: Lane, now_ms: int) -> None:
        """Does whatever the lane is ready for."""
        if self._failure is not None or not self._started:
            return
        self._expire(lane, now_ms)
        topic = self._ledger.topic(lane.topic)
        validated = topic is not None and topic.validated
        if lane.open is not None:
            if lane.open.due_ms > now_ms:
                self._note(lane.open.due_ms)
            elif lane.has_room(self._options.in_flight, validated=validated):
                lane.close_open()  # else it would wait in any case, and so takes in what comes
        if validated:
            self._advance_chain(lane, now_ms)
        elif lane.plain is None and lane.ready:
            self.counters.batches += 1
            self.counters.pushed += lane.begin_plain()
        self._advance_plain(lane, now_ms)

    def _advance_chain(self, lane: Lane, now_ms: int) -> None:
        if not lane.known:
            if lane.ready:
                self._ask_chain(lane, now_ms)
            return
        while lane.ready and len(lane.flights) < self._options.in_flight:
            self._sign(lane, lane.ready.popleft())
        in_order = True
        behind: set[str] = set()
        for flight in lane.flights:
            # A batch whose predecessor is not in the journal would be lost with it, and signed anew.
            if not flight.written:
                break
            self._store(flight, behind, now_ms)
            in_order = in_order and self._submit(flight, now_ms)

    def _ask_chain(self, lane: Lane, now_ms: int) -> None:
        """Asks the storage parties what they have of us, before we sign what might contradict it."""
        author = self._author
        if not lane.attempts.asked and not lane.answers:
            cursor = self._ledger.cursor(author.name, lane.topic, lane.partition)
            lane.asked_sequence = cursor.next_sequence
        stream = StreamName(lane.topic, lane.partition, author.name, author.key_epoch)
        for party in self._parties:
            if party not in lane.answers and lane.attempts.may_ask(party, now_ms):
                lane.attempts.asked.add(party)
                self._out.append(outputs.Recover(party, stream, lane.asked_sequence))
        self._note(lane.attempts.again())

    def _know_chain(self, lane: Lane, batches: Iterable[Batch]) -> None:
        """Takes up the chain where the ledger has it, with what was signed since."""
        cursor = self._ledger.cursor(self._author.name, lane.topic, lane.partition)
        lane.known, lane.next_sequence, lane.last = True, cursor.next_sequence, cursor.last
        is_ours = partial(is_signed, self._author.signer.public, self.follower.verify)
        for batch in find_continuation(self._stream(lane), batches, cursor, is_ours):
            flight = Flight(None, batch, batch.encode(), batch.digest(), written=True)
            lane.flights.append(flight)
            lane.next_sequence, lane.last = batch.header.next_sequence, flight.digest
            self.counters.recovered += 1

    def _stream(self, lane: Lane) -> Stream:
        author = self._author
        return Stream(author.chain_id, lane.topic, lane.partition, author.name, author.key_epoch)

    def _sign(self, lane: Lane, parcel: Parcel) -> None:
        leaves = parcel.take_leaves()
        batch = build_batch(self._stream(lane), lane.next_sequence, lane.last, leaves, self._author.signer)
        flight = Flight(parcel, batch, batch.encode(), batch.digest(), written=self._journal is None)
        lane.flights.append(flight)
        lane.next_sequence, lane.last = batch.header.next_sequence, flight.digest
        self.counters.batches += 1
        self.counters.pushed += batch.header.count
        if not flight.written:
            self._out.append(outputs.Write(flight.data, flight.digest))

    def _store(self, flight: Flight, behind: set[str], now_ms: int) -> None:
        """Has parties keep a batch; one that failed on an earlier one is `behind`, and gets that first.

        So a party's log keeps the producer's order, which is all that consumers have who do not validate.
        """
        header = flight.batch.header
        for party in self._parties:
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
        """Submits a batch that enough parties have; False if they have not, so that later ones wait."""
        if flight.transaction is None:
            needed = self._genesis.receipts_needed
            if len(flight.receipts) < needed:
                return False
            chosen = list(flight.receipts.values())[:needed]
            flight.transaction = submit(flight.batch.signed, chosen).encode()
        if flight.submit_ms <= now_ms:
            header = flight.batch.header
            place = PartitionName(header.topic, header.partition)
            for _ in range(self._genesis.faults + 1):
                validator = self._first_validator + flight.validators_asked
                validator %= len(self._genesis.validators)
                flight.validators_asked += 1
                self._out.append(outputs.Submit(validator, place, flight.transaction, flight.digest))
                self.counters.submits += 1
            flight.submit_ms = now_ms + self._options.submit_timeout_ms
        self._note(flight.submit_ms)
        return True

    def _advance_plain(self, lane: Lane, now_ms: int) -> None:
        if lane.plain is None:
            return
        party = party_of(self._genesis, lane.topic)
        if lane.plain.attempts.may_ask(party, now_ms):
            lane.plain.attempts.asked.add(party)
            self._out.append(outputs.Append(party, lane.plain.append))
        self._note(lane.plain.attempts.again())

    def _expire(self, lane: Lane, now_ms: int) -> None:
        """Fails what has waited too long; what is signed stays on its way, though nobody waits for it."""
        where = f"{lane.topic}-{lane.partition}"
        for flight in lane.flights:
            if flight.parcel is not None and flight.parcel.deadline_ms <= now_ms:
                detail = flight.problem or "no block has it"
                self._fail(flight.parcel, DeliveryTimeoutError(where, detail))
                flight.parcel = None
        if lane.plain is not None and lane.plain.parcel.deadline_ms <= now_ms:
            plain = lane.give_up_plain()
            self._fail(plain.parcel, DeliveryTimeoutError(where, plain.problem or "no answer"))
        while lane.ready and lane.ready[0].deadline_ms <= now_ms:
            parcel = lane.ready.popleft()
            self._fail(parcel, DeliveryTimeoutError(where, "it was never sent"))
        for parcel in lane.parcels()[:1]:
            self._note(parcel.deadline_ms)

    def _admitted(self, lane: Lane, digest: bytes, followed: Followed, first_index: int) -> None:
        if not lane.known:
            return
        if not lane.flights or lane.flights[0].digest != digest:
            self._fail_all(KeyInUseError(self._author.name, f"{lane.topic}-{lane.partition}"))
            return
        flight = lane.flights.popleft()
        self._out.append(outputs.Admitted(digest))
        if flight.parcel is not None:
            prove = partial(self._prove, flight.batch, followed)
            settlement = Settlement(first_index, followed.block.header.time_ms, prove)
            self._acknowledge(flight.parcel, settlement)

    def _prove(self, batch: Batch, followed: Followed, position: int) -> EventReceipt:
        with self._guard:
            proof = self._ledger.prove_key(batch.header.producer, batch.header.key_epoch)
            last = self.follower.last
        assert proof is not None and last is not None, "a batch was admitted under a key"
        return make_receipt(batch, position, followed.block, followed.header.certificate, (proof, last))

    def _policy_changed(self, name: str) -> dict[tuple[str, int], Lane]:
        """Batches that were signed for a validated topic wait, without anybody, if it no longer is."""
        self._routes.pop(name, None)
        topic = self._ledger.topic(name)
        lanes = {place: lane for place, lane in self._lanes.items() if place[0] == name}
        for lane in lanes.values() if topic is not None and not topic.validated else ():
            for flight in lane.flights:
                if flight.parcel is not None:
                    self._fail(flight.parcel, PolicyChangedError(name))
                    flight.parcel = None
        return lanes

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
        self._routes.clear()
        for lane in self._lanes.values():
            lane.open, lane.plain = None, None
            lane.ready.clear()
            lane.flights.clear()
