"""Random schedules of everything that can happen to a producer's and a consumer's core.

Messages are done, lost before or after they took effect, and done twice; blocks come late; the producer
crashes and comes back with its journal; one storage party misbehaves. After every run the network heals.
Then whatever was acknowledged is delivered, once, at the acknowledged index, in order; nothing else
is delivered than what was pushed; nobody has evidence against the producer; no buffer was ever exceeded.
"""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.kabis.client.world import author_of, make_cluster
from veristream.kabis.client.consumed import Consumed
from veristream.kabis.client.consumer import outputs as consumer_outputs
from veristream.kabis.client.consumer.core import EXPECTED_BYTES, ConsumerCore
from veristream.kabis.client.errors import BufferFullError
from veristream.kabis.client.options import ConsumerOptions, ProducerOptions
from veristream.kabis.client.producer import outputs as producer_outputs
from veristream.kabis.client.producer.core import ProducerCore
from veristream.kabis.client.pushes import Pushed, Settlement
from veristream.kabis.cluster.faults import StorageFault
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.protocol.receipts import StorageReceipt
from veristream.kabis.protocol.records import Record
from veristream_testing.storage_client import fetch_digest

BUFFER_BYTES = 400
Output = producer_outputs.Output | consumer_outputs.Output
FATES = ["done", "done", "unanswered", "lost", "twice"]
WRONG = [None, StorageFault.SILENT, StorageFault.GARBAGE, StorageFault.FORGE]


class Clients(RuleBasedStateMachine):
    """A producer and a consumer whose every message is in our hands."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = make_cluster(at_once=False)
        self.now_ms = 0
        self.journal: list[bytes] = []
        self.messages: list[tuple[object, Output]] = []
        self.pushed: list[tuple[bytes, Pushed]] = []
        self.taken: list[Consumed] = []
        self.producer = self.begin()
        self.consumer = ConsumerCore(
            Follower(self.cluster.genesis),
            None,
            ConsumerOptions(prefetch_batches=3, buffer_bytes=300, fetch_timeout_ms=20, retry_ms=5),
        )
        self.consumer.subscribe(["orders"], 0)
        self.note(self.consumer, self.consumer.start(0))

    def begin(self) -> ProducerCore:
        """A producer that has only its journal and the ledger."""
        options = ProducerOptions(
            linger_ms=3,
            batch_events=2,
            buffer_bytes=BUFFER_BYTES,
            in_flight=3,
            submit_timeout_ms=20,
            retry_ms=5,
        )
        author = author_of("alice")
        core = ProducerCore(Follower(self.cluster.genesis), author, options, bytes(16), list(self.journal))
        self.producer = core
        for block in self.cluster.blocks:
            self.note(core, core.block(block, self.now_ms))
        self.note(core, core.start(self.now_ms))
        return core

    def note(
        self, core: object, outputs: list[producer_outputs.Output] | list[consumer_outputs.Output]
    ) -> None:
        """Settles what is settled, and keeps the rest for later."""
        for output in outputs:
            if isinstance(output, producer_outputs.Settle):
                assert isinstance(output.fate, Settlement), output.fate
                assert core is self.producer
                output.parcel.settle(output.fate)
            elif not isinstance(output, producer_outputs.Admitted | consumer_outputs.Ready):
                self.messages.append((core, output))

    # What may happen.

    @rule(partitions=st.lists(st.integers(0, 1), min_size=1, max_size=5))
    def push(self, partitions: list[int]) -> None:
        for partition in partitions:
            value = b"%d" % len(self.pushed)
            try:
                pushed = self.producer.push(Record("orders", value, partition=partition), self.now_ms)
            except BufferFullError:
                return
            self.pushed.append((value, pushed))
        self.wait(3)

    @rule(passed_ms=st.sampled_from([1, 3, 10, 30]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.note(self.producer, self.producer.tick(self.now_ms))
        self.note(self.consumer, self.consumer.tick(self.now_ms))

    @precondition(lambda self: self.messages)
    @rule(steps=st.lists(st.tuples(st.integers(0, 50), st.sampled_from(FATES)), min_size=1, max_size=12))
    def carry(self, steps: list[tuple[int, str]]) -> None:
        for choice, fate in steps:
            if self.messages:
                core, output = self.messages.pop(choice % len(self.messages))
                if fate == "twice":
                    self.messages.append((core, output))
                if fate == "lost":
                    self.fail(core, output)
                else:
                    self.do(core, output, answered=fate != "unanswered")
        self.wait(1)

    @precondition(lambda self: self.cluster.mempool)
    @rule()
    def decide(self) -> None:
        self.cluster.make_block()

    @precondition(lambda self: self.late(self.producer) or self.late(self.consumer))
    @rule(producer=st.booleans(), count=st.integers(1, 3))
    def follow(self, producer: bool, count: int = 1) -> None:
        core = self.producer if producer else self.consumer
        for block in self.cluster.blocks[core.follower.ledger.height :][:count]:
            self.note(core, core.block(block, self.now_ms))

    def late(self, core: ProducerCore | ConsumerCore) -> bool:
        """Whether the core does not know all blocks."""
        return core.follower.ledger.height < len(self.cluster.blocks)

    @precondition(lambda self: self.cluster.ledger.height > 2)
    @rule(count=st.integers(1, 5))
    def take(self, count: int) -> None:
        self.taken += self.consumer.take(count)
        self.note(self.consumer, self.consumer.tick(self.now_ms))

    @precondition(lambda self: self.messages)
    @rule(party=st.sampled_from(["s0", "s1", "s2"]), fault=st.sampled_from(WRONG))
    def misbehave(self, party: str, fault: StorageFault) -> None:
        for each in self.cluster.parties.values():
            each.fault = None
        self.cluster.parties[party].fault = fault

    @precondition(lambda self: self.messages)
    @rule()
    def crash(self) -> None:
        """All that the producer knew is gone; its messages are still on their way."""
        self.begin()

    # How it happens.

    def do(self, core: object, output: Output, *, answered: bool) -> None:
        now_ms = self.now_ms
        match output:
            case producer_outputs.Write(data, digest):
                if core is self.producer:
                    self.journal.append(data)
                    self.note(core, self.producer.journaled([digest], now_ms))
            case producer_outputs.Store(party, place, data, digest):
                receipt = self.store(party, data, digest)
                if receipt is None or not answered:
                    self.fail(core, output)
                elif core is self.producer:
                    self.note(core, self.producer.stored(place, party, receipt, now_ms))
            case producer_outputs.Submit(_, _, transaction, _):
                self.cluster.submit(transaction)
            case consumer_outputs.Fetch(party, _, _, digest):
                answer = fetch_digest(self.cluster.parties[party].core, digest)
                fault = self.cluster.parties[party].fault
                if fault is StorageFault.SILENT or not answered:
                    self.fail(core, output)
                else:
                    wrong = b"garbage" if fault is StorageFault.GARBAGE else answer
                    self.note(self.consumer, self.consumer.fetched(output, wrong, now_ms))
            case _:
                raise AssertionError(f"not expected here: {output}")

    def store(self, party: str, data: bytes, digest: bytes) -> StorageReceipt | None:
        kept = self.cluster.parties[party]
        match kept.fault:
            case StorageFault.SILENT:
                return None
            case StorageFault.FORGE:
                return StorageReceipt(party, digest, bytes(64))
            case _:
                kept.core.store(data, "alice", author_of("alice").signer.public)
                kept.log.sync()
                return kept.core.receipt(digest)

    def fail(self, core: object, output: Output) -> None:
        match output:
            case producer_outputs.Store(party, place, _, digest) if core is self.producer:
                self.note(core, self.producer.store_failed(place, party, digest, "lost", self.now_ms))
            case producer_outputs.Submit(_, place, _, digest) if core is self.producer:
                self.note(core, self.producer.refused(place, digest, "lost", self.now_ms))
            case producer_outputs.Write() if core is self.producer:
                self.messages.append((core, output))  # a disk is slow, but does not forget to answer
            case consumer_outputs.Fetch():
                self.note(self.consumer, self.consumer.fetch_failed(output, "lost", self.now_ms))
            case _:
                pass

    # What must hold.

    @invariant()
    def buffers_are_bounded(self) -> None:
        assert 0 <= self.producer.buffered_bytes <= BUFFER_BYTES
        batch = max([2 * EXPECTED_BYTES, *map(len, self.journal)])
        assert 0 <= self.consumer.buffered_bytes <= 300 + 2 * batch

    @invariant()
    def events_come_in_order_without_gaps(self) -> None:
        for partition in (0, 1):
            indices = [event.index for event in self.taken if event.partition == partition]
            assert indices == list(range(len(indices)))

    def teardown(self) -> None:
        for party in self.cluster.parties.values():
            party.fault = None
        for _ in range(1000):
            self.heal()
            if not self.producer.busy and not self.producer.parcels() and not self.cluster.mempool:
                break
        for _ in range(200):
            self.heal()
        ends = [self.cluster.ledger.partition("orders", partition).next_index for partition in (0, 1)]
        self.events_come_in_order_without_gaps()
        assert len(self.taken) == sum(ends)
        delivered = {event.value: event for event in self.taken}
        assert len(delivered) == len(self.taken), "an event was delivered twice"
        assert delivered.keys() <= {value for value, _ in self.pushed}
        for value, pushed in self.pushed:
            if pushed.done():
                done = pushed.result(0)
                event = delivered[value]
                assert (event.partition, event.index) == (done.partition, done.index)
        assert not self.producer.parcels() and self.producer.buffered_bytes == 0
        assert self.consumer.buffered_bytes == 0
        for party in self.cluster.parties.values():
            assert party.core.evidence("orders") == []
        assert self.cluster.ledger.accusations() == {}

    def heal(self) -> None:
        """A while in which everything is done at once and answered."""
        self.wait(30)
        self.note(self.producer, self.producer.flush(self.now_ms))
        while self.messages:
            core, output = self.messages.pop(0)
            self.do(core, output, answered=True)
        if self.cluster.mempool:
            self.decide()
        for producer in (True, False):
            self.follow(producer)
        self.take(100)


Clients.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestSchedules = Clients.TestCase


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_long_runs(seed: int) -> None:
    """The same by dice, for longer than a search for short failures goes."""
    dice, clients = Random(seed), Clients()
    for _ in range(150):
        match dice.choices(range(8), (4, 2, 8, 3, 4, 4, 1, 0.5))[0]:
            case 0:
                clients.push([dice.randrange(2) for _ in range(dice.randrange(1, 4))])
            case 1:
                clients.wait(dice.choice((1, 3, 10, 30)))
            case 2:
                clients.carry(
                    [(dice.randrange(50), dice.choice(FATES)) for _ in range(dice.randrange(1, 9))]
                )
            case 3:
                clients.decide()
            case 4:
                clients.follow(producer=dice.random() < 0.5, count=dice.randrange(1, 4))
            case 5:
                clients.take(dice.randrange(1, 6))
            case 6:
                clients.misbehave(dice.choice(("s0", "s1", "s2")), dice.choice(WRONG))
            case _:
                clients.crash()
        clients.buffers_are_bounded()
        clients.events_come_in_order_without_gaps()
    clients.teardown()
