"""Simulated producers and consumers: the real state machines, with a simulated network and clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Generic, Protocol, TypeVar, assert_never

from veristream.kabis.client.consumed import Consumed, Place
from veristream.kabis.client.consumer import outputs as consumer_outputs
from veristream.kabis.client.consumer.core import ConsumerCore
from veristream.kabis.client.driver import Core
from veristream.kabis.client.errors import BelowLowWaterError, UnknownTopicError
from veristream.kabis.client.options import ConsumerOptions, ProducerOptions
from veristream.kabis.client.producer import outputs as producer_outputs
from veristream.kabis.client.producer.core import ProducerCore
from veristream.kabis.client.producer.queue import NEVER_MS
from veristream.kabis.client.pushes import Pushed, Settlement
from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.follower import FalseBlockError, Follower
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.outcomes import Outcome, Refused
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import SESSION_BYTES
from veristream.kabis.protocol.receipts import StorageAbsence, StorageReceipt
from veristream.kabis.protocol.records import Record
from veristream.kabis.protocol.transactions import Author
from veristream_testing.simulation.chain import CHAIN, check_signature, key_of
from veristream_testing.simulation.disk import Disk
from veristream_testing.simulation.stores import Refusal, Store
from veristream_testing.simulation.world import ViolationError

TOPIC = "orders"
PARTITIONS = 2
POLL_MS = 40
PUSH_AGAIN_MS = 30
TAKE_COUNT = 100
PRODUCER_OPTIONS = ProducerOptions(
    linger_ms=5,
    batch_events=2,
    in_flight=3,
    delivery_timeout_ms=10_000_000,
    submit_timeout_ms=200,
    retry_ms=30,
)
CONSUMER_OPTIONS = ConsumerOptions(fetch_timeout_ms=60, retry_ms=30, prefetch_batches=4)

Answer = TypeVar("Answer")
Reply = Callable[[Answer | Refusal], None]
Output = TypeVar("Output")


class Surroundings(Protocol):
    """A client's environment: clock, network, validators and storage parties."""

    now_ms: int
    genesis: Genesis
    random: Random
    stores: dict[str, Store]
    flush_ms: int

    def at(self, time_ms: int, action: Callable[[], None]) -> None:
        """Schedules an action."""

    def ask(
        self,
        client: Machine,
        target: str,
        serve: Callable[[Reply[Answer]], None],
        heard: Callable[[Answer], None],
        failed: Callable[[str], None],
    ) -> None:
        """Sends a request; calls exactly one of the last two arguments, unless the client crashes first."""

    @property
    def receipts_needed(self) -> int:
        """How many storage receipts a batch needs now."""

    def voters(self, client: Machine) -> Sequence[int]:
        """Returns the validators that a client asks, by their positions."""

    def followed(self, client: Machine, last: CertifiedHeader) -> None:
        """The last block that a client has accepted is this one."""

    def open(self, client: Machine, follower: Follower, goal: int) -> int:
        """Returns the height at which a client opens; it may skip blocks before."""

    def opened(self, client: Machine, follower: Follower) -> None:
        """A client has reached the height at which it opens."""

    def stuck(self, client: Machine, follower: Follower) -> None:
        """A client that is open does not get its next block."""

    def serve_submit(self, validator: int, transaction: bytes, reply: Reply[Outcome]) -> None:
        """Submits a transaction to a validator."""

    def serve_blocks(self, validator: int, height: int, reply: Reply[list[CertifiedBlock]]) -> None:
        """Requests decided blocks from a validator."""

    def is_liar(self, name: str) -> bool:
        """Whether a machine is Byzantine."""


def validator_name(index: int) -> str:
    """Returns the name of a validator's machine on the network."""
    return f"v{index}"


def serve_store(
    around: Surroundings, store: Store, data: bytes, producer: str, reply: Reply[StorageReceipt]
) -> None:
    """Stores a batch at a party, which replies with the receipt after its next flush."""
    digest = store.store(data, producer)
    if isinstance(digest, Refusal):
        reply(digest)
        return
    life = store.lives

    def flushed() -> None:
        if store.up and store.lives == life:
            reply(store.receipt(digest))

    around.at(around.now_ms + around.random.randint(0, around.flush_ms), flushed)


class Machine:
    """A client's machine, which can crash and restart."""

    def __init__(self, around: Surroundings, name: str) -> None:
        self.around = around
        self.name = name
        self.up = True
        self.lives = 1
        self.false_blocks = 0

    def fall(self) -> None:
        """Crashes the machine and loses its memory."""
        self.up = False

    def rise(self) -> None:
        """Restarts the machine."""
        self.up, self.lives = True, self.lives + 1

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Schedules an action, unless the machine crashes before."""
        life = self.lives

        def act() -> None:
            if self.up and self.lives == life:
                action()

        self.around.at(self.around.now_ms + delay_ms, act)


class Client(Machine, Generic[Output]):
    """A client's state machine with its timers, and the chain that it follows."""

    decides: Core[Output]

    def begin(self, goal: int) -> None:
        """Follows the chain up to the height that validators claim, then starts."""
        self._armed_ms = NEVER_MS
        self._goal, self._has_started = goal, False
        self._poll()

    def _poll(self) -> None:
        around, follower = self.around, self.decides.follower
        if not self._has_started:
            height = follower.ledger.height
            self._goal = around.open(self, follower, self._goal)
            if follower.ledger.height > height:
                self._start_if_caught_up()
        validator = around.random.choice(around.voters(self))
        height = follower.next_height
        around.ask(
            self,
            validator_name(validator),
            lambda reply: around.serve_blocks(validator, height, reply),
            partial(self._hear_blocks, validator),
            self._lack_blocks,
        )
        self.later(POLL_MS, self._poll)

    def _lack_blocks(self, why: str) -> None:
        if self._has_started:
            self.around.stuck(self, self.decides.follower)
        self._start_if_caught_up()

    def _hear_blocks(self, validator: int, blocks: list[CertifiedBlock]) -> None:
        for block in blocks:
            try:
                self.feed(partial(self.decides.block, block))
            except FalseBlockError as error:
                if not self.around.is_liar(validator_name(validator)):
                    raise ViolationError(
                        f"verification: v{validator} gives a false block: {error}"
                    ) from error
                self.false_blocks += 1
                return
            if self.decides.follower.last is not None:
                self.around.followed(self, self.decides.follower.last)
        self._start_if_caught_up()

    def _start_if_caught_up(self) -> None:
        if not self._has_started and self.decides.follower.ledger.height >= self._goal:
            self._has_started = True
            self.around.opened(self, self.decides.follower)
            self.feed(self.start)

    def start(self, now_ms: int) -> list[Output]:
        """Starts the state machine, after the ledger has caught up."""
        raise NotImplementedError

    def perform(self, wanted: Sequence[Output]) -> None:
        """Performs the outputs of the state machine."""
        raise NotImplementedError

    def feed(self, call: Callable[[int], list[Output]]) -> None:
        """Feeds an input to the state machine and performs its outputs."""
        self.perform(call(self.around.now_ms))
        self.arm()

    def arm(self) -> None:
        """Schedules the next tick of the state machine."""
        now_ms = self.around.now_ms
        due_ms = now_ms if self.decides.attention else max(now_ms + 1, self.decides.next_ms)
        if due_ms < min(self._armed_ms, NEVER_MS):
            self._armed_ms = due_ms
            self.later(due_ms - now_ms, partial(self._tick, due_ms))

    def _tick(self, due_ms: int) -> None:
        if self._armed_ms == due_ms:
            self._armed_ms = NEVER_MS
            self.feed(self.decides.tick)


class Producer(Client[producer_outputs.Output]):
    """A producer that pushes numbered events; `journal` is None without a journal."""

    decides: ProducerCore

    def __init__(self, around: Surroundings, name: str, journal: Disk | None) -> None:
        super().__init__(around, name)
        self.journal = journal
        self.pushed: list[tuple[int, Place, bytes, Pushed]] = []
        self.to_push = 0
        self.recovered = 0
        self._open()

    def _open(self) -> None:
        author = Author(CHAIN, self.name, 0, key_of(self.name))
        journal = None if self.journal is None else self.journal.recover()
        session = b"%d" % self.lives
        follower = Follower(self.around.genesis, check_signature)
        self.decides = ProducerCore(
            follower, author, PRODUCER_OPTIONS, session.ljust(SESSION_BYTES), journal
        )
        self._unwritten: list[producer_outputs.Write] = []

    def fall(self) -> None:
        """Crashes the machine; the journal may be torn."""
        super().fall()
        self.recovered += self.decides.counters.recovered
        if self.journal is not None:
            self.journal.crash(self.around.random)

    def rise(self) -> None:
        """Restarts the machine from the journal."""
        super().rise()
        self._open()

    def start(self, now_ms: int) -> list[producer_outputs.Output]:
        """Starts with the batches signed before the crash."""
        return self.decides.start(now_ms)

    def plan(self, count: int) -> None:
        """Schedules `count` pushes before the network heals."""
        self.to_push += count
        for number in range(count):
            self.around.at(self.around.random.randint(1, 700), partial(self._push, number))

    def _push(self, number: int) -> None:
        value = b"%s/%d" % (self.name.encode(), number)
        place = (TOPIC, number % PARTITIONS)
        try:
            if not self.up or not self._has_started:
                raise UnknownTopicError(TOPIC)
            pushed = self.decides.push(Record(TOPIC, value, partition=place[1]), self.around.now_ms)
        except UnknownTopicError:
            self.around.at(self.around.now_ms + PUSH_AGAIN_MS, partial(self._push, number))
            return
        self.pushed.append((self.lives, place, value, pushed))
        self.arm()

    def perform(self, wanted: Sequence[producer_outputs.Output]) -> None:
        """Performs the outputs of the state machine."""
        for output in wanted:
            match output:
                case producer_outputs.Settle(parcel, fate):
                    if not isinstance(fate, Settlement):
                        raise ViolationError(f"validity: events of {self.name} fail: {fate}")
                    parcel.settle(fate)
                case producer_outputs.Write():
                    self._write(output)
                case producer_outputs.Store():
                    self._store(output)
                case producer_outputs.Submit():
                    self._submit(output)
                case producer_outputs.Recover():
                    self._recover(output)
                case producer_outputs.Admitted():
                    pass
                case producer_outputs.Append():
                    raise ViolationError("validity: events of a validated topic go out unsigned")
                case _:
                    assert_never(output)

    def _write(self, wanted: producer_outputs.Write) -> None:
        assert self.journal is not None, "only a producer with a journal writes"
        self.journal.append(wanted.data)
        self._unwritten.append(wanted)
        self.later(self.around.random.randint(0, self.around.flush_ms), self._flush)

    def _flush(self) -> None:
        assert self.journal is not None, "only a producer with a journal writes"
        self.journal.sync()
        written, self._unwritten = self._unwritten, []
        self.feed(partial(self.decides.journaled, [each.digest for each in written]))

    def _store(self, wanted: producer_outputs.Store) -> None:
        around, store = self.around, self.around.stores[wanted.party]
        place, party, digest = wanted.place, wanted.party, wanted.digest

        def heard(receipt: StorageReceipt) -> None:
            self.feed(partial(self.decides.stored, place, party, receipt))

        def failed(why: str) -> None:
            self.feed(partial(self.decides.store_failed, place, party, digest, why))

        around.ask(self, party, partial(serve_store, around, store, wanted.data, self.name), heard, failed)

    def _submit(self, wanted: producer_outputs.Submit) -> None:
        voters = self.around.voters(self)
        validator = voters[wanted.validator % len(voters)]

        def heard(outcome: Outcome) -> None:
            if isinstance(outcome, Refused):
                failed(str(outcome))

        def failed(why: str) -> None:
            self.feed(partial(self.decides.refused, wanted.place, wanted.digest, why))

        serve = partial(self.around.serve_submit, validator, wanted.transaction)
        self.around.ask(self, validator_name(validator), serve, heard, failed)

    def _recover(self, wanted: producer_outputs.Recover) -> None:
        store, stream = self.around.stores[wanted.party], wanted.stream
        place = PartitionName(stream.topic, stream.partition)

        def heard(batches: tuple[bytes, ...] | None) -> None:
            self.feed(partial(self.decides.recovered, place, wanted.party, batches))

        def serve(reply: Reply[tuple[bytes, ...] | None]) -> None:
            reply(store.fetch_range(stream, wanted.first_sequence))

        self.around.ask(self, wanted.party, serve, heard, lambda why: heard(None))

    def is_done(self) -> bool:
        """Whether everything was pushed, and all events that survived crashes are acknowledged."""
        return self.up and len(self.pushed) == self.to_push and not self.decides.busy and all(
            pushed.done() for life, _, _, pushed in self.pushed if life == self.lives
        )  # fmt: skip

    def acknowledged(self) -> list[tuple[Place, int, bytes]]:
        """Returns the places of acknowledged events, as reported to the producer."""
        return [
            (place, pushed.result(0).index, value)
            for _, place, value, pushed in self.pushed
            if pushed.done()
        ]


class Consumer(Client[consumer_outputs.Output]):
    """A validating consumer; after a crash it reads from the beginning."""

    decides: ConsumerCore

    def __init__(self, around: Surroundings, name: str) -> None:
        super().__init__(around, name)
        self._open()

    def _open(self) -> None:
        self.taken: dict[Place, list[Consumed]] = {}
        follower = Follower(self.around.genesis, check_signature)
        self.decides = ConsumerCore(follower, None, CONSUMER_OPTIONS)
        self.decides.subscribe([TOPIC], self.around.now_ms)

    def rise(self) -> None:
        """Restarts the machine without memory."""
        super().rise()
        self._open()

    def start(self, now_ms: int) -> list[consumer_outputs.Output]:
        """Starts reading."""
        return self.decides.start(now_ms)

    def perform(self, wanted: Sequence[consumer_outputs.Output]) -> None:
        """Performs the outputs of the state machine."""
        for output in wanted:
            match output:
                case consumer_outputs.Fetch():
                    self._fetch(output)
                case consumer_outputs.AskAbsence():
                    self._ask_absence(output)
                case consumer_outputs.Submit(validator, transaction):
                    self._submit(validator, transaction)
                case consumer_outputs.Ready():
                    self._take()
                case consumer_outputs.FetchPlain() | consumer_outputs.Settle():
                    raise ViolationError("validity: a validating consumer reads what is not validated")
                case _:
                    assert_never(output)

    def _take(self) -> None:
        """Takes events; those that were released before are left out."""
        try:
            for event in self.decides.take(TAKE_COUNT):
                self.taken.setdefault((event.topic, event.partition), []).append(event)
        except BelowLowWaterError:
            for place in self.decides.assignment():
                low_water = self.decides.follower.ledger.partition(*place).low_water
                if (self.decides.position(place) or 0) < low_water:
                    self.feed(partial(self.decides.seek, place, low_water))

    def _fetch(self, wanted: consumer_outputs.Fetch) -> None:
        store = self.around.stores[wanted.party]

        def serve(reply: Reply[bytes | Absent | Below]) -> None:
            reply(store.fetch(wanted.digest))

        def heard(answer: bytes | Absent | Below) -> None:
            self.feed(partial(self.decides.fetched, wanted, answer))

        def failed(why: str) -> None:
            self.feed(partial(self.decides.fetch_failed, wanted, why))

        # The type checker cannot distinguish the answer's union from the one with a refusal.
        self.around.ask(self, wanted.party, serve, heard, failed)  # type: ignore[misc]

    def _ask_absence(self, wanted: consumer_outputs.AskAbsence) -> None:
        store = self.around.stores[wanted.party]

        def serve(reply: Reply[StorageAbsence]) -> None:
            answer = store.absence(wanted.signed, wanted.certificate)
            reply(Refusal("below retention") if isinstance(answer, Below) else answer)

        def heard(statement: StorageAbsence | None) -> None:
            self.feed(lambda now_ms: self.decides.absent(wanted, statement))

        self.around.ask(self, wanted.party, serve, heard, lambda why: heard(None))

    def _submit(self, position: int, transaction: bytes) -> None:
        voters = self.around.voters(self)
        validator = voters[position % len(voters)]

        def heard(outcome: Outcome) -> None:
            """Ignores the answer; only a block determines the outcome."""

        serve = partial(self.around.serve_submit, validator, transaction)
        self.around.ask(self, validator_name(validator), serve, heard, lambda why: None)

    def is_done(self) -> bool:
        """Whether all events that it knows to be admitted are delivered."""
        ledger = self.decides.follower.ledger
        return self.up and all(
            place in self.decides.assignment()
            and self.decides.position(place) == ledger.partition(*place).next_index
            for place in ((TOPIC, partition) for partition in range(PARTITIONS))
        )
