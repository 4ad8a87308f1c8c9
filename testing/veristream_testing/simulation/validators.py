"""Simulates whole validators under a scenario: ledgers, mempools, stored blocks, catching up.

Blocks contain transactions of clients, which submit each to F + 1 validators and repeat until it is
decided. Flushes take a while; crashes lose unflushed blocks and records, and may tear the records.
Byzantine validators see all messages and propose real blocks.

Checked during the run: agreement, every block is certified and follows the previous one, a transaction is
decided once and was submitted, no correct validator contradicts itself or is accused. Checked at the end:
after the network has healed, every correct validator has every transaction, and the chain becomes quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from random import Random
from typing import assert_never

from veristream.kabis.cluster.faults import ValidatorFault
from veristream.kabis.ledger.ledger import InvalidBlockError
from veristream.kabis.ordering.interface import Persist, Schedule, Timeout
from veristream.kabis.ordering.messages import (
    Committee,
    MessageError,
    Proposal,
    Signed,
    Value,
    Vote,
)
from veristream.kabis.ordering.outbox import Outbox, waits_for_records
from veristream.kabis.ordering.peers import PeerMessage, decode_peer_message, encode_peer_message
from veristream.kabis.ordering.seats import Me, Signers
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.ordering.tendermint import Durations
from veristream.kabis.ordering.validator import (
    Accused,
    Action,
    Committed,
    Send,
    Settings,
    ValidatorCore,
    to_commit_certificate,
)
from veristream.kabis.protocol.blocks import Block, CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.receipts import CertificateError
from veristream.kabis.protocol.transactions import VoteConflict, decode_transaction
from veristream_testing.simulation.byzantine import Byzantine
from veristream_testing.simulation.chain import (
    CHAIN,
    START_MS,
    check_signature,
    key_of,
    make_genesis,
    make_transactions,
)
from veristream_testing.simulation.disk import Disk
from veristream_testing.simulation.hosts import CrashingHost, HostWorld
from veristream_testing.simulation.scenario import HEAL_MS, Scenario
from veristream_testing.simulation.stores import FrailLog
from veristream_testing.simulation.votes import recover
from veristream_testing.simulation.world import ViolationError

TICK_MS = 100
RESUBMIT_MS = 500
LIMIT_MS = 60_000
QUIET_MS = 5_000
FLUSH_MS_MAX = 6
READ_BYTES = 1 << 22
SETTINGS = Settings(durations=Durations(40, 20, 20, 10), patience_ms=300, late_ms=20, answer_every_ms=50)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the violation, if any, and statistics."""

    violation: str | None
    height: int
    restarts: int
    lost_blocks: int
    accused: int
    refused: int
    ended_ms: int


@dataclass(slots=True)
class Host(CrashingHost):
    """A host that runs a whole validator."""

    validator: ValidatorCore
    log: FrailLog
    store: BlockStore
    records: Disk
    outbox: Outbox = field(default_factory=Outbox)
    flushing: bool = False
    published: int = 0

    @property
    def height(self) -> int:
        """The height of its last block."""
        return self.store.height

    def read(self, first: int, last: int) -> list[CertifiedBlock]:
        """Returns its blocks of these heights, as a client gets them; raises PrunedError."""
        return [CertifiedBlock.decode(encoded) for encoded in self.store.slice(first, last, READ_BYTES)]


@dataclass(slots=True)
class Liar(Byzantine):
    """A Byzantine validator that proposes blocks."""

    make_block: Callable[[int, Random], Block | None] = lambda height, random: None

    def _make_value(self, height: int, number: int) -> Value:
        block = self.make_block(height, self.random)
        if block is None:
            return Value(sha256(b"no block").digest(), b"no block")
        header = replace(block.header, proposer=f"v{self.index}")
        if self.random.random() < 0.2:
            header = replace(header, state=sha256(b"another state").digest())
        block = replace(block, header=header)
        return Value(block.block_id(), block.encode())


class Simulation(HostWorld[Host]):
    """One run of a scenario."""

    settings = SETTINGS

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario, Random(f"validators/{scenario.seed}"))
        self.genesis = self._make_genesis()
        self.transactions = make_transactions(self.genesis)
        self.lost_blocks = self.accused = self.refused = 0
        self._flushes = Random(f"flushes/{scenario.seed}")
        self._ids: dict[int, bytes] = {}
        self._decided: dict[bytes, int] = {}
        self._ended_at = 0
        self._owed: set[str] = set()
        self.byzantine = {
            index: self._make_liar(index, strategy) for index, strategy in self.inventive.items()
        }
        self.hosts = {number: self._make_host(number, index) for number, index in self.list_hosts().items()}
        self.correct = [host for host in self.hosts.values() if host.index not in self.liars]

    def run(self) -> Outcome:
        """Runs until the end or the first violation."""
        violation = None
        try:
            self._begin()
            self.run_until(LIMIT_MS, self._is_complete)
            self._check_complete()
            self.run_until(self.now_ms + QUIET_MS, lambda: False)
            self._check_quiet()
        except ViolationError as found:
            violation = str(found)
        return Outcome(
            violation=violation,
            height=max(self._ids, default=0),
            restarts=self.restarts,
            lost_blocks=self.lost_blocks,
            accused=self.accused,
            refused=self.refused,
            ended_ms=self.now_ms,
        )

    # Participants

    def _make_genesis(self) -> Genesis:
        return make_genesis(self.scenario.size)

    def _make_host(self, number: int, index: int) -> Host:
        log, records = FrailLog(), Disk()
        store = self._open_store(number, log)
        return Host(number, index, self._make_validator(index, store, records), log, store, records)

    def _open_store(self, number: int, log: FrailLog) -> BlockStore:
        """Returns the blocks in the log of a host."""
        return BlockStore(log, verify=check_signature)

    def _make_validator(self, index: int, store: BlockStore, records: Disk) -> ValidatorCore:
        ledger = store.open(self.genesis, check_signature)
        memory, (me, signers) = recover(records.recover()), self._identify(index)
        return ValidatorCore(me, signers, ledger, store.load, memory, self.settings, check_signature)

    def _identify(self, index: int) -> tuple[Me, Signers]:
        """Returns who a validator is, and its keys."""
        return index, key_of(f"v{index}")

    def _make_liar(self, index: int, strategy: ValidatorFault) -> Liar:
        random = Random(f"liar/{self.scenario.seed}/{index}")
        committee = Committee(CHAIN, self.scenario.size)
        sign = key_of(f"v{index}").sign
        return Liar(index, committee, sign, strategy, random, make_block=self._make_block)

    def _make_block(self, height: int, random: Random) -> Block | None:
        """Returns a valid block for a height, with random transactions that take effect."""
        ledgers = [host.validator.ledger for host in self.correct if host.validator.height == height]
        if not ledgers:
            return None
        some = [encoded for encoded in self.transactions if random.random() < 0.5]
        return ledgers[0].propose(some, START_MS + self.now_ms + random.randint(0, 5), "v0")

    def _begin(self) -> None:
        self.plan_crashes()
        for host in self.hosts.values():
            self._do(host, host.validator.begin(START_MS))
            self.at(TICK_MS + host.number, self._ticker(host))
        for number, encoded in enumerate(self.transactions):
            self.at(self.random.randint(0, 60) + 40 * number, self._submitter(encoded))

    # Events

    def _submitter(self, encoded: bytes) -> Callable[[], None]:
        """Returns a client that submits to F + 1 validators until the transaction is decided."""

        def give() -> None:
            if encoded in self._decided:
                return
            for number in self.random.sample(sorted(self.hosts), self.genesis.faults + 1):
                host = self.hosts[number]
                if host.up:
                    self._do(host, host.validator.submit(encoded, self._clock_ms)[1])
            self.at(self.now_ms + RESUBMIT_MS, give)

        return give

    def _ticker(self, host: Host) -> Callable[[], None]:
        def tick() -> None:
            if host.up:
                host.store.sync()
                self._do(host, host.validator.tick(self._clock_ms))
            self.at(self.now_ms + TICK_MS, tick)

        return tick

    def lose(self, host: Host) -> None:
        """Loses unsynced records and some blocks that were not flushed."""
        host.records.crash(self.random)
        host.outbox, host.flushing = Outbox(), False
        before = host.log.end
        host.log.fall(self.random)
        self.lost_blocks += before - host.log.end

    def revive(self, host: Host) -> None:
        """Starts the validator from its blocks and records."""
        host.store = self._open_store(host.number, host.log)
        host.validator = self._make_validator(host.index, host.store, host.records)
        host.published = host.height
        self._do(host, host.validator.begin(self._clock_ms))

    @property
    def _clock_ms(self) -> int:
        return START_MS + self.now_ms

    def _do(self, host: Host, actions: Sequence[Action]) -> None:
        """Performs the actions of a validator, unless it crashes in between."""
        for action in actions:
            if not self.survives(host):
                return
            self._do_one(host, action)

    def _do_one(self, host: Host, action: Action) -> None:
        match action:
            case Persist():
                host.records.append(action.record)
            case Send() if waits_for_records(action.message):
                self._when_durable(host, partial(self._tell, host, action))
            case Send():
                self._post(host, action)
            case Schedule():
                self._schedule(host, action)
            case Committed():
                self._check_committed(host, action)
                self._keep(host, action)
                self._when_durable(host, partial(self._publish, host, action.block.header.height))
            case Accused():
                self._check_accused(host, action)
            case _:
                assert_never(action)

    def _keep(self, host: Host, committed: Committed) -> None:
        """Writes a decided block."""
        certificate = to_commit_certificate(committed.commit.certificate)
        host.store.append(CertifiedBlock(committed.block, certificate))

    def _when_durable(self, host: Host, effect: Callable[[], None]) -> None:
        """Runs the effect when the records are durable; the flush that it waits for takes a while."""
        records = host.records
        if host.outbox.hold(effect, end=records.end, durable=records.durable) and not host.flushing:
            host.flushing = True
            self.ring(host, self._flushes.randint(0, FLUSH_MS_MAX), partial(self._flush, host))

    def _flush(self, host: Host) -> None:
        host.flushing = False
        host.records.sync()
        host.outbox.release(host.records.durable)

    def _tell(self, host: Host, send: Send) -> None:
        self.check_consistent(host.number, host.index, send.message)
        self._post(host, send)

    def _publish(self, host: Host, height: int) -> None:
        host.published = height

    def _schedule(self, host: Host, wanted: Schedule) -> None:
        timeout = Timeout(wanted.step, wanted.height, wanted.round)

        def expire() -> None:
            self._do(host, host.validator.time_out(timeout, self._clock_ms))

        self.ring(host, wanted.duration_ms, expire)

    # The network

    def _post(self, host: Host, send: Send) -> None:
        message = decode_peer_message(encode_peer_message(send.message))
        for other in self.hosts.values():
            is_meant = other is not host and send.receiver in (None, other.index)
            if is_meant and self._is_linked(host, other):
                self._carry(host.number, other, message)
        if send.receiver is None and isinstance(message, Proposal | Vote):
            for liar in self.byzantine.values():
                self.send_to_liar(self._hearer(liar, message))

    def _is_linked(self, host: Host, other: Host) -> bool:
        """Whether two hosts know each other as validators."""
        return True

    def _hearer(self, liar: Liar, message: Signed) -> Callable[[], None]:
        def hear() -> None:
            for saying in liar.hear(message, self.now_ms):
                self.at(self.now_ms + saying.after_ms, self._sayer(liar, saying.message, saying.receivers))

        return hear

    def _sayer(self, liar: Liar, message: PeerMessage, receivers: frozenset[int]) -> Callable[[], None]:
        def say() -> None:
            for host in self.hosts.values():
                if host.index in receivers:
                    self._carry(liar.index, host, message)

        return say

    def _carry(self, sender: int, host: Host, message: PeerMessage) -> None:
        self.send(sender, host.number, message, lambda: self._deliver(sender, host, message))

    def _deliver(self, sender: int, host: Host, message: PeerMessage) -> None:
        if not host.up:
            return
        index = self.hosts[sender].index if sender in self.hosts else sender
        try:
            actions = host.validator.hear(index, message, self._clock_ms)
        except MessageError as error:
            if index not in self.liars:
                raise ViolationError(f"verification: {sender} sends what is refused: {error}") from error
            self.refused += 1
            return
        except InvalidBlockError as error:
            raise ViolationError(f"validity: host {host.number} cannot apply a block: {error}") from error
        self._do(host, actions)

    # Checks

    def _check_committed(self, host: Host, committed: Committed) -> None:
        height, block = committed.block.header.height, committed.block
        if height != host.height + 1:
            raise ViolationError(f"integrity: host {host.number} decides {height} out of turn")
        if host.index in self.liars:
            return
        if self._ids.setdefault(height, block.block_id()) != block.block_id():
            raise ViolationError(f"agreement: host {host.number} decides another block at height {height}")
        certificate = to_commit_certificate(committed.commit.certificate)
        try:  # like a client
            certificate.verify(CHAIN, self.members_at(height).validator_keys, check_signature)
        except CertificateError as error:
            raise ViolationError(f"certificate: {error}") from error
        if (certificate.height, certificate.block_id) != (height, block.block_id()):
            raise ViolationError(f"certificate: it is not of the block at height {height}")
        for encoded in block.transactions:
            self._check_transaction(encoded, height)

    def members_at(self, height: int) -> Members:
        """Returns the members in force at a height, as far as blocks are decided."""
        return self.genesis.members

    def _check_transaction(self, encoded: bytes, height: int) -> None:
        if self._decided.setdefault(encoded, height) != height:
            raise ViolationError(f"integrity: a transaction is decided at height {height} once more")
        if encoded in self.transactions:
            return
        evidence = decode_transaction(encoded)
        if not isinstance(evidence, VoteConflict) or self._convicts(evidence) not in self.liars:
            raise ViolationError(f"validity: nobody submitted {evidence}")

    def _convicts(self, evidence: VoteConflict) -> int:
        """Returns the validator that contradicted itself."""
        return self.validator_at(evidence.first.validator, evidence.first.height)

    def _check_accused(self, host: Host, accused: Accused) -> None:
        if host.index in self.liars:
            return
        self.accused += 1
        first = accused.conflict.first
        named = self.validator_at(first.sender, first.height)
        if named not in self.liars:
            raise ViolationError(f"accountability: {named} is accused")
        # Before the network heals, all that know of the conflict may crash.
        if isinstance(first, Vote) and self.now_ms >= HEAL_MS:
            self._owed.add(f"v{named}")

    def _is_complete(self) -> bool:
        return len(self._decided) >= len(self.transactions) and not self._missing()

    def _missing(self) -> list[str]:
        """Lists what is not done at the end."""
        if any(encoded not in self._decided for encoded in self.transactions):
            return ["a transaction is not decided"]
        last = max(self._ids)
        behind = [host for host in self.correct if not host.up or host.validator.ledger.height < last]
        return [f"host {host.number} is at {host.validator.ledger.height} of {last}" for host in behind]

    def _check_complete(self) -> None:
        missing = self._missing()
        if missing:
            raise ViolationError(f"termination: {LIMIT_MS} ms are over, {'; '.join(missing)}")
        self._ended_at = max(self._ids)

    def _check_quiet(self) -> None:
        """Checks that after the end there are no blocks except those with evidence."""
        host = self.correct[0]
        late = host.read(max(self._ended_at + 1, host.store.first), host.height)
        empty = [each for each in late if not each.block.transactions]
        if empty and not self.liars:
            raise ViolationError(f"quiet: {len(empty)} empty blocks with nothing to order")
        accused = {name for role, name in host.validator.ledger.accusations() if role == "validator"}
        if not self._owed <= accused:
            raise ViolationError(f"accountability: {self._owed - accused} are not on the ledger")


def run(scenario: Scenario) -> Outcome:
    """Runs a scenario."""
    return Simulation(scenario).run()
