"""Simulates the whole system from a seed: validators, storage parties, producers, consumers and faults.

The validators and their faults are those of `validators`. Producers push events to a validated topic over a
lossy network; up to F storage parties lie or decay, and up to F validators lie; consumers follow blocks and
fetch their batches. A producer may be Byzantine. Only network, clocks and disks are simulated.

Checked in addition to the validators' properties: each producer's admitted batches form one chain that only
it signed; all consumers deliver the same events in the same order, each once, and only events that their
producers pushed, in the order of the pushes; acknowledged events are delivered at the reported places;
after the network has healed, everything honest is admitted and delivered; evidence names only liars,
including an equivocating producer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import TypeVar

from veristream.kabis.client.consumed import Consumed, Place
from veristream.kabis.cluster.faults import StorageFault
from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ordering.store import PrunedError
from veristream.kabis.ordering.validator import Committed
from veristream.kabis.protocol.batch import SignedHeader
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.keys import SignatureError
from veristream.kabis.protocol.outcomes import Done
from veristream.kabis.protocol.outcomes import Outcome as Expected
from veristream.kabis.protocol.receipts import CommitCertificate, VoteKind, quorum, vote_bytes
from veristream.kabis.protocol.transactions import BatchConflict, Submit, VoteConflict, decode_transaction
from veristream_testing.simulation.chain import CHAIN, START_MS, check_signature, key_of
from veristream_testing.simulation.clients import Consumer, Machine, Producer, Reply
from veristream_testing.simulation.disk import Disk
from veristream_testing.simulation.mallory import Mallory
from veristream_testing.simulation.scenario import HEAL_MS
from veristream_testing.simulation.stores import Refusal, Store
from veristream_testing.simulation.trouble import CONSUMERS, PRODUCERS, Attack, Fall, Trouble
from veristream_testing.simulation.validators import Host, Simulation
from veristream_testing.simulation.validators import Outcome as ValidatorsOutcome
from veristream_testing.simulation.world import ViolationError

CALL_TIMEOUT_MS = 150
LOOK_MS = 50
BLOCKS_PER_ANSWER = 8
EVENTS = 6

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the violation, if any, and statistics."""

    violation: str | None
    validators: ValidatorsOutcome
    acknowledged: int
    delivered: int
    falls: int
    recovered: int
    suspicions: int
    producers_accused: int
    false_blocks: int
    torn: int
    damaged: int


class Whole(Simulation):
    """One run of the whole system."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.validators)
        self.trouble = trouble
        self.transactions = self.transactions[:1]  # only the topic; producers submit the rest
        self.falls = 0
        self.flush_ms = trouble.flush_ms
        lies = dict(trouble.storage)
        self.stores = {
            party.name: self._make_store(party.name, lies.get(party.name)) for party in self.genesis.storage
        }
        journals = [Disk() if has_journal else None for has_journal in trouble.journals]
        honest = PRODUCERS if trouble.attack is None else PRODUCERS - 1
        self.producers = [Producer(self, f"client{number}", journals[number]) for number in range(honest)]
        self.mallory = None if trouble.attack is None else Mallory(self, f"client{honest}", trouble.attack)
        self.consumers = [Consumer(self, f"consumer{number}") for number in range(CONSUMERS)]
        self.clients: list[Producer | Consumer] = [*self.producers, *self.consumers]
        self._complete = False
        self._submitted: set[bytes] = set(self.transactions)
        self._chains: dict[tuple[str, str, int], tuple[int, bytes]] = {}
        self._order: dict[Place, list[SignedHeader]] = {}

    def _make_store(self, name: str, lie: StorageFault | None) -> Store:
        return Store(name, self.genesis, Random(f"{name}/{self.trouble.seed}"), lie)

    def run_whole(self) -> Outcome:
        """Runs until the end or the first violation."""
        validators = self.run()
        return Outcome(
            violation=validators.violation,
            validators=validators,
            acknowledged=sum(len(producer.acknowledged()) for producer in self.producers),
            delivered=sum(len(events) for events in self.consumers[0].taken.values()),
            falls=self.falls,
            recovered=sum(each.recovered + each.decides.counters.recovered for each in self.producers),
            suspicions=sum(sum(each.decides.standing.counts.values()) for each in self.consumers),
            producers_accused=sum(role == "producer" for role, _ in self._accusations()),
            false_blocks=sum(each.false_blocks for each in self.clients),
            torn=sum(store.log.torn_count for store in self.stores.values()),
            damaged=sum(store.log.damaged_count for store in self.stores.values()),
        )

    # Events

    def _begin(self) -> None:
        super()._begin()
        for producer in self.producers:
            producer.begin(0)
            producer.plan(EVENTS)
        for consumer in self.consumers:
            consumer.begin(0)
        if self.mallory is not None:
            self.mallory.begin()
        machines: list[Producer | Consumer | Store] = [*self.clients, *self.stores.values()]
        for fall in self.trouble.falls:
            for machine in machines:
                if machine.name == fall.name:
                    self.at(fall.at_ms, partial(self._fall, machine, fall))
        self.at(HEAL_MS, self._look)

    def _fall(self, machine: Producer | Consumer | Store, fall: Fall) -> None:
        if machine.up:
            self.falls += 1
            machine.fall()
            self.at(min(self.now_ms + fall.down_ms, HEAL_MS), partial(self._rise, machine))

    def _rise(self, machine: Producer | Consumer | Store) -> None:
        machine.rise()
        if not isinstance(machine, Store):
            machine.begin(self._claimed_height())

    def _claimed_height(self) -> int:
        """Returns the height that F + 1 validators have reached."""
        heights = sorted((host.height for host in self.correct), reverse=True)
        return heights[self.genesis.faults]

    # The network of clients and storage parties

    def is_liar(self, name: str) -> bool:
        """Whether a validator or client is Byzantine."""
        is_mallory = self.mallory is not None and name == self.mallory.name
        return is_mallory or name in {f"v{index}" for index in self.liars}

    def ask(
        self,
        client: Machine,
        target: str,
        serve: Callable[[Reply[Answer]], None],
        heard: Callable[[Answer], None],
        failed: Callable[[str], None],
    ) -> None:
        """Sends a request; calls exactly one of the last two arguments, unless the client crashes first."""
        life, waiting = client.lives, [True]

        def settle(act: Callable[[], None]) -> None:
            if waiting and client.up and client.lives == life:
                waiting.clear()
                act()

        def reply(answer: Answer | Refusal) -> None:
            act = partial(failed, answer.why) if isinstance(answer, Refusal) else partial(heard, answer)
            self._bring(target, client.name, partial(settle, act))

        def arrive() -> None:
            store = self.stores.get(target)
            if store is None:
                is_reached = self._reaches(client, target)
            else:
                is_reached = store.up and store.lie is not StorageFault.SILENT
            if is_reached:
                serve(reply)

        self._bring(client.name, target, arrive)
        self.at(self.now_ms + CALL_TIMEOUT_MS, lambda: settle(partial(failed, "no answer")))

    def _reaches(self, client: Machine, validator: str) -> bool:
        """Whether a client knows the key under which a validator listens."""
        return True

    def _bring(self, sender: str, receiver: str, act: Callable[[], None]) -> None:
        """Delivers a message between two machines."""
        self.carry(act, is_cut_off=self._is_severed(sender, receiver))

    def _is_severed(self, sender: str, receiver: str) -> bool:
        for cut in self.trouble.cuts:
            if cut.begin_ms <= self.now_ms < cut.end_ms and cut.name in (sender, receiver):
                other = receiver if cut.name == sender else sender
                if other not in cut.reached:
                    return True
        return False

    def open(self, client: Machine, follower: Follower, goal: int) -> int:
        """Returns the height at which a client opens; here all blocks before are there."""
        return goal

    def opened(self, client: Machine, follower: Follower) -> None:
        """A client has reached the height at which it opens."""

    def stuck(self, client: Machine, follower: Follower) -> None:
        """A client that is open does not get its next block; here it does with the next validator."""

    def followed(self, client: Machine, last: CertifiedHeader) -> None:
        """The last block that a client has accepted is this one."""

    @property
    def receipts_needed(self) -> int:
        """How many storage receipts a batch needs now."""
        return self.genesis.receipts_needed

    def voters(self, client: Machine) -> Sequence[int]:
        """Returns the validators that a client asks."""
        return range(len(self.genesis.validators))

    # Validators as seen by clients

    def _host(self, index: int) -> Host | None:
        """Returns a running machine of the validator; twins answer in turn."""
        hosts = [host for host in self.hosts.values() if host.index == index and host.up]
        return self.random.choice(hosts) if hosts else None

    def serve_submit(self, validator: int, transaction: bytes, reply: Reply[Expected]) -> None:
        """Submits a transaction to a validator; a Byzantine one accepts and drops it."""
        if transaction not in self._submitted:
            self._submitted.add(transaction)
            self.transactions.append(transaction)
        host = self._host(validator)
        if validator in self.byzantine:
            reply(Done())
        elif host is not None:
            outcome, actions = host.validator.submit(transaction, START_MS + self.now_ms)
            self._do(host, actions)
            reply(outcome)

    def serve_blocks(self, validator: int, height: int, reply: Reply[list[CertifiedBlock]]) -> None:
        """Requests decided blocks from a validator; a Byzantine one invents some."""
        host = self._host(validator)
        if validator in self.byzantine:
            known = max(self.correct, key=lambda each: each.height)
            true = known.read(height, height) if known.store.first <= height else []
            reply([self._make_false(validator, each) for each in true])
        elif host is not None:
            last = min(host.published, height - 1 + BLOCKS_PER_ANSWER)
            try:
                reply(host.read(height, last))
            except PrunedError as error:
                reply(Refusal(str(error)))

    def _make_false(self, liar: int, true: CertifiedBlock) -> CertifiedBlock:
        """Returns a block that was never decided, with the true votes or with the liar's own."""
        header = replace(true.block.header, time_ms=true.block.header.time_ms + 1)
        block, certificate = replace(true.block, header=header), true.certificate
        if self.random.random() < 0.5:
            return CertifiedBlock(block, certificate)
        message = vote_bytes(CHAIN, VoteKind.PRECOMMIT, header.height, 0, block.block_id())
        signature = key_of(f"v{liar}").sign(message)
        votes = tuple((index, signature) for index in range(quorum(len(self.genesis.validators))))
        if self.random.random() < 0.5:
            votes = ((liar, signature),)
        return CertifiedBlock(block, CommitCertificate(header.height, 0, block.block_id(), votes))

    # Checks while it runs

    def _check_committed(self, host: Host, committed: Committed) -> None:
        is_new = committed.block.header.height not in self._ids
        super()._check_committed(host, committed)
        if is_new and host.index not in self.liars:
            for encoded in committed.block.transactions:
                transaction = decode_transaction(encoded)
                if isinstance(transaction, Submit):
                    self._check_admitted(transaction.signed)

    def _check_transaction(self, encoded: bytes, height: int) -> None:
        """Checks that a transaction is decided once, and was submitted or is evidence against a liar."""
        if self._decided.setdefault(encoded, height) != height:
            raise ViolationError(f"integrity: a transaction is decided at height {height} once more")
        match decode_transaction(encoded):
            case VoteConflict() as conflict:
                named = f"v{self._convicts(conflict)}"
            case BatchConflict(signed):
                named = signed.header.producer
            case transaction:
                if encoded not in self._submitted:
                    raise ViolationError(f"validity: nobody submitted {transaction}")
                return
        if not self.is_liar(named):
            raise ViolationError(f"accountability: there is evidence against {named}")

    def _check_admitted(self, signed: SignedHeader) -> None:
        """Checks that a batch continues its producer's chain and that its producer signed it."""
        header = signed.header
        chain = (header.producer, header.topic, header.partition)
        sequence, last = self._chains.get(chain, (0, ZERO_DIGEST))
        if (header.first_sequence, header.previous) != (sequence, last):
            raise ViolationError(f"chain: batch {header.first_sequence} of {chain} does not follow")
        try:
            signed.verify(key_of(header.producer).public, check_signature)
        except SignatureError as error:
            raise ViolationError(f"forgery: {chain} admitted, which nobody signed") from error
        self._chains[chain] = (header.next_sequence, signed.digest())
        self._order.setdefault((header.topic, header.partition), []).append(signed)

    # Checks at the end

    def _is_complete(self) -> bool:
        return self._complete

    def _look(self) -> None:
        self._complete = not self._missing()
        self.at(self.now_ms + LOOK_MS, self._look)

    def _missing(self) -> list[str]:
        """Lists what is not done at the end."""
        if not self._ids:
            return ["nothing is decided"]
        last = max(self._ids)
        missing = [
            f"host {host.number} is at {host.height} of {last}"
            for host in self.correct
            if not host.up or host.validator.ledger.height < last
        ]
        missing += [f"{each.name} is not done" for each in self.producers if not each.is_done()]
        for consumer in self.consumers:
            height = consumer.decides.follower.ledger.height
            if height < last or not consumer.is_done():
                missing.append(f"{consumer.name} is not done, at {height} of {last}")
        is_accused = any(role == "producer" for role, _ in self._accusations())
        if self.trouble.attack is Attack.EQUIVOCATE and not is_accused and self._must_accuse():
            missing.append("nobody accuses the equivocating producer")
        return missing

    def _must_accuse(self) -> bool:
        """Whether a producer that equivocates cannot remain undetected."""
        return True

    def _accusations(self) -> list[tuple[str, str]]:
        return list(self.correct[0].validator.ledger.accusations())

    def _check_quiet(self) -> None:
        super()._check_quiet()
        missing = self._missing()
        if missing:
            raise ViolationError(f"quiet: {'; '.join(missing)}")
        self._check_acknowledged()
        for place in sorted(self._order):
            self._check_order(place)
        self._check_evidence()

    def _kept_from(self, place: Place) -> int:
        """Returns the index from which on a partition is kept; what is before may be missed."""
        return 0

    def _check_order(self, place: Place) -> None:
        """Checks that all consumers deliver the same, in ledger order, and only what was pushed."""
        admitted: list[str] = []
        for signed in self._order.get(place, []):
            admitted += [signed.header.producer] * signed.header.count
        expected = dict(enumerate(admitted))
        views = [consumer.taken.get(place, []) for consumer in self.consumers]
        delivered: dict[int, Consumed] = {}
        for view in views:
            indices = [event.index for event in view]
            is_whole = expected.keys() - set(indices) <= set(range(self._kept_from(place)))
            if indices != sorted(set(indices)) or not is_whole:
                raise ViolationError(f"order: {place} is delivered otherwise than it was admitted")
            if any(event.producer != expected.get(event.index) for event in view):
                raise ViolationError(f"order: {place} is delivered otherwise than it was admitted")
            if any(delivered.setdefault(event.index, event).value != event.value for event in view):
                raise ViolationError(f"agreement: consumers deliver different events of {place}")
        events = [delivered[index] for index in sorted(delivered)]
        for producer in self.producers:
            pushed = [value for _, where, value, _ in producer.pushed if where == place]
            given = [event.value for event in events if event.producer == producer.name]
            if given != [value for value in pushed if value in given]:
                raise ViolationError(f"order: {place} has {given} of {producer.name}, who pushed {pushed}")
        if self.mallory is not None:
            for event in events:
                if event.producer == self.mallory.name and event.value not in self.mallory.values:
                    raise ViolationError(f"forgery: {event.value!r} of {event.producer}")

    def _check_acknowledged(self) -> None:
        """Checks that all consumers deliver the acknowledged events at the reported places."""
        for consumer in self.consumers:
            found = {
                (place, event.index, event.value)
                for place in consumer.taken
                for event in consumer.taken[place]
            }
            for producer in self.producers:
                acknowledged = {
                    each for each in producer.acknowledged() if each[1] >= self._kept_from(each[0])
                }
                lost = acknowledged - found
                if lost:
                    raise ViolationError(f"loss: {consumer.name} misses {sorted(lost)}")

    def _check_evidence(self) -> None:
        """Checks that evidence on the ledger and at storage parties names only liars."""
        storage_liars = {name for name, _ in self.trouble.storage}
        for role, name in self._accusations():
            if not (name in storage_liars if role == "storage" else self.is_liar(name.split("/")[0])):
                raise ViolationError(f"accountability: the ledger accuses the {role} {name}")
        for store in self.stores.values():
            for first, _ in store.party.evidence("orders") if store.lie is None else ():
                if not self.is_liar(first.header.producer):
                    raise ViolationError(f"accountability: {store.name} accuses {first.header.producer}")


def run(trouble: Trouble) -> Outcome:
    return Whole(trouble).run_whole()
