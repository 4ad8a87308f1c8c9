"""Simulates the whole system while it is kept up: see `Upkeep`.

In addition to the faults of the whole system: validators take snapshots and prune their blocks, as their
`BlockStore` decides, with real files; those whose blocks are pruned everywhere, whose snapshot rots or who
lost their disk join again by the snapshot of another, and some of the others lie; clients and storage
parties begin with a snapshot; chains of version 1 are upgraded; an admin orders retention, quotas and
rights, and a client breaks all of them. The validators change (`moving`), and somebody has the keys of
former ones (`former`).

Checked in addition: who begins with a snapshot has the state that was decided (snapshot); who restarts can
restore what it has (durability); no client opens before its checkpoint (checkpoint); nobody accepts two
blocks of one height (agreement), or one of validators that are not in force (members); every decided block
and the ledgers after it are as the `Oracle` says (upgrade, quota, access, retention, members).
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import assert_never

from veristream.errors import EnvironmentFailure
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.client.consumed import Place
from veristream.kabis.cluster import rejoining
from veristream.kabis.cluster.faults import StorageFault
from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.snapshot import Snapshot
from veristream.kabis.ordering.outbox import Outbox
from veristream.kabis.ordering.peers import Offer
from veristream.kabis.ordering.snapshots import Retained, SnapshotFolder
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.ordering.validator import Committed, to_commit_certificate
from veristream.kabis.protocol.blocks import Block, transactions_root
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Party
from veristream.kabis.storage.admission import WaitingLimits
from veristream_testing.simulation.chain import START_MS, check_signature, key_of
from veristream_testing.simulation.disk import Disk
from veristream_testing.simulation.scenario import HEAL_MS
from veristream_testing.simulation.stores import FrailLog, Store
from veristream_testing.simulation.upkeep.actors import GREEDY, STEADY, WAITING_MAX, Admin, Greedy, Steady
from veristream_testing.simulation.upkeep.followers import KEEP_MS, REJOIN_MS, Followers
from veristream_testing.simulation.upkeep.plan import Absence, Decay, Loss, Mishap, Order, Plan
from veristream_testing.simulation.validators import SETTINGS, Host
from veristream_testing.simulation.whole import Outcome as WholeOutcome
from veristream_testing.simulation.world import ViolationError

LOOK_MS = 150
"""How often a validator looks whether it stands still."""
WRITE_MS_MAX = 40
BUSY_MS = HEAL_MS + 600
"""How long the chain is kept moving at least."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: the violation, if any, and how often what happened."""

    violation: str | None
    whole: WholeOutcome
    counts: tuple[tuple[str, int], ...]


class Upkeep(Followers):
    """One run of a plan."""

    settings = replace(SETTINGS, recent_commits=2)

    def __init__(self, plan: Plan, folder: Path) -> None:
        super().__init__(plan, folder)
        self.admin = Admin(self, self.transactions[0], plan.agenda)
        self.steady, self.greedy = Steady(self), Greedy(self)
        self._writing: set[int] = set()
        self._decayed: set[int] = set()
        self._rejoining: dict[int, rejoining.Rejoining] = {}

    def run_upkeep(self) -> Outcome:
        """Runs until the end or the first violation."""
        try:
            whole = self.run_whole()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()
        self.counts += self.oracle.counts
        self.counts["upgrades"] = int(self.oracle.upgraded > 0)
        self.counts["batches released"] = self.oracle.released
        self.counts["false snapshots offered"] = sum(liar.lies for liar in self._false.values())
        self.counts["wishes refused by storage"] = self.greedy.refused
        self.counts["forged by former validators"] = self.former.forged
        return Outcome(whole.violation, whole, tuple(sorted(self.counts.items())))

    # Participants

    def _make_genesis(self) -> Genesis:
        genesis = super()._make_genesis()
        more = tuple(Party(name, key_of(name).public) for name in (STEADY, GREEDY))
        storage = tuple(Party(name, key_of(name).public) for name in self._list_stores())
        version, clients = self.plan.version, (*genesis.clients, *more)
        return replace(genesis, version=version, clients=clients, storage=storage)

    def _list_stores(self) -> list[str]:
        """Returns as many storage parties as the largest set of validators needs."""
        return [f"s{number}" for number in range(2 * self.plan.faults_most + 1)]

    def _make_store(self, name: str, lie: StorageFault | None) -> Store:
        random = Random(f"{name}/{self.trouble.seed}")
        return Store(name, self.genesis, random, lie, WaitingLimits(producer_batches=WAITING_MAX))

    def _open_store(self, number: int, log: FrailLog) -> BlockStore:
        snapshots = SnapshotFolder(self._snapshots_of(number), check_signature)
        retained = Retained(self.plan.every_blocks, self.plan.keep_blocks)
        return BlockStore(log, snapshots, retained, check_signature)

    def _snapshots_of(self, number: int) -> Path:
        return self._folder / f"host{number}"

    def _begin(self) -> None:
        super()._begin()
        for actor in (self.admin, self.steady, self.greedy):
            actor.begin()
        for host in self.hosts.values():
            self.at(LOOK_MS + host.number, partial(self._look_at, host))
        for number, store in enumerate(self.stores.values()):
            self.at(KEEP_MS + number, partial(self._follow, store))
        self.at(KEEP_MS, self._keep_checkpoints)
        for mishap in self.plan.mishaps:
            self.at(mishap.at_ms, partial(self._befall, mishap))
        self.at(BUSY_MS, self._calm_down)

    def _attend(self, host: Host) -> None:
        super()._attend(host)
        self.at(self.now_ms + LOOK_MS, partial(self._look_at, host))

    def _calm_down(self) -> None:
        """Ends what keeps the chain moving, once nothing more is to happen."""
        if self.admin.is_done and not self._rejoining:
            self.steady.fall()
            self.greedy.fall()
        else:
            self.at(self.now_ms + KEEP_MS, self._calm_down)

    def is_decided(self, transaction: bytes) -> bool:
        """Whether a block has the transaction."""
        return transaction in self._decided

    def top(self) -> int:
        """Returns the height of the last decided block."""
        return max(self._ids, default=0)

    def _missing(self) -> list[str]:
        missing = super()._missing()
        if self.steady.up:
            missing.append(f"the admin waits for {self.admin.waiting}, {sorted(self._rejoining)} rejoin")
        return missing

    def _is_apart(self, other: Host, host: Host) -> bool:
        return self._is_cut_off(other.number, host.number, Offer(()))

    # Snapshots of validators

    def _keep(self, host: Host, committed: Committed) -> None:
        super()._keep(host, committed)
        certificate = to_commit_certificate(committed.commit.certificate)
        header = CertifiedHeader(committed.block.header, certificate)
        due = host.store.decided(host.validator.ledger, header)
        if due is not None and host.number not in self._writing:
            self._writing.add(host.number)
            self.ring(host, self._flushes.randint(0, WRITE_MS_MAX), partial(self._write, host, *due))

    def _write(self, host: Host, snapshot: Snapshot, following: CertifiedHeader) -> None:
        height = host.store.write(snapshot, following)
        self.counts["snapshots taken"] += 1
        self.ring(host, self._flushes.randint(0, WRITE_MS_MAX), partial(self._prune, host, height))

    def _prune(self, host: Host, height: int) -> None:
        self._writing.discard(host.number)
        before = host.store.first
        host.store.prune(height)
        self.counts["blocks pruned"] += host.store.first - before

    def lose(self, host: Host) -> None:
        """Also leaves a snapshot unfinished that was being written."""
        super().lose(host)
        if host.number in self._writing:
            self._writing.discard(host.number)
            unfinished = self._snapshots_of(host.number) / "next-1.new"
            unfinished.mkdir(exist_ok=True)
            (unfinished / "chunk-000000").write_bytes(b"torn")

    def revive(self, host: Host) -> None:
        """Also moves away what cannot be used, as an operator does where a snapshot has rotted."""
        try:
            super().revive(host)
        except EnvironmentFailure as failure:
            if host.number not in self._decayed:
                raise ViolationError(
                    f"durability: host {host.number} cannot restore: {failure.message}"
                ) from failure
            self.counts["folders moved away"] += 1
            self._clear(host)
            super().revive(host)
        if host.index not in self.liars:
            self._check_restored(f"host {host.number}", host.validator.ledger)

    def _clear(self, host: Host) -> None:
        """Removes blocks and snapshots, and keeps the votes."""
        shutil.rmtree(self._snapshots_of(host.number))
        host.log = FrailLog()

    # Joining

    def _look_at(self, host: Host) -> None:
        """Joins by a snapshot where a validator does not go on, as its process does."""
        if host.number in self._left:
            return
        self.at(self.now_ms + LOOK_MS, partial(self._look_at, host))
        height = host.validator.ledger.height
        stands_still = self._stood_at.get(host.number) == height
        self._stood_at[host.number] = height
        if not host.up or not stands_still or (height >= self.top() and self.random.random() < 0.9):
            return
        asking = self._ask_as_host(host)
        with suppress(*FAILURES):
            ledger = host.validator.ledger
            if self._wait(rejoining.find_snapshot(ledger, host.store, asking)) is not None:
                self.counts["validators joined by snapshot"] += 1
                self._restart_process(host)

    def _restart_process(self, host: Host) -> None:
        self._writing.discard(host.number)
        super()._restart_process(host)

    def _befall(self, mishap: Mishap) -> None:
        match mishap:
            case Decay(_, number) if number in self.hosts.keys() - self._left:
                self._decay(self.hosts[number])
            case Loss(_, number, down_ms) if number in self.hosts.keys() - self._left:
                self._lose_disk(self.hosts[number], down_ms)
            case Absence(_, name, down_ms):
                self._leave(name, down_ms)
            case Decay() | Loss():
                pass  # of a host that has left, or that a simpler plan does not have
            case _:
                assert_never(mishap)

    def _decay(self, host: Host) -> None:
        heights = host.store.snapshots.heights() if host.store.snapshots is not None else []
        if not host.up or host.dies_after is not None or not heights:
            return
        path = self._snapshots_of(host.number) / str(heights[-1]) / "chunk-000000"
        data = bytearray(path.read_bytes())
        data[self.random.randrange(len(data))] ^= 1
        path.write_bytes(data)
        self._decayed.add(host.number)
        self.counts["snapshots decayed"] += 1
        # It stops cleanly. After a crash its last votes, never sent, may be lost with a block that it
        # decided by them; nobody has seen either, but here a block counts as soon as one host decides it.
        host.records.sync()
        host.store.sync()
        host.up = False
        self.lose(host)
        self.at(self.now_ms + REJOIN_MS, partial(self._restart, host))

    def _lose_disk(self, host: Host, down_ms: int) -> None:
        if not host.up:
            return
        self.counts["disks lost"] += 1
        self._clear(host)
        self._writing.discard(host.number)
        host.up, host.dies_after, host.lives = False, None, host.lives + 1
        host.records, host.outbox, host.flushing = Disk(), Outbox(), False
        host.store = self._open_store(host.number, host.log)
        asking = self._ask_as_host(host)
        self._rejoining[host.number] = rejoining.Rejoining(host.store, asking, self.genesis)
        self.at(self.now_ms + down_ms, partial(self._rejoin, host))

    def _rejoin(self, host: Host) -> None:
        """Fetches what others have, and takes part again at a height at which it cannot have voted."""
        rejoin = self._rejoining[host.number]
        with suppress(*FAILURES):
            if rejoin.until is None:
                self._wait(rejoin.ask())
            elif not rejoin.may_vote() and rejoin.until is not None:
                first = host.store.first
                self._wait(rejoin.go_on())
                self.counts["validators joined by snapshot"] += host.store.first > first
        if not rejoin.may_vote():
            self.at(self.now_ms + REJOIN_MS, partial(self._rejoin, host))
            return
        del self._rejoining[host.number]
        self.counts["validators rejoined"] += 1
        host.store.sync()
        host.up, host.lives = True, host.lives + 1
        self.revive(host)

    # Blocks

    def _make_block(self, height: int, random: Random) -> Block | None:
        """Returns a block of a liar: in random order, and perhaps with more than a client may have."""
        ledgers = [host.validator.ledger for host in self.correct if host.validator.height == height]
        if not ledgers:
            return None
        some = [each for each in self.transactions if each not in self._decided and random.random() < 0.7]
        random.shuffle(some)
        block = ledgers[0].propose(some, START_MS + self.now_ms + random.randint(0, 5), "v0")
        if random.random() < 0.5:
            return block
        wishes = self.greedy.excess()
        self._submitted.update(wishes)
        transactions = (*block.transactions, *wishes)
        header = replace(block.header, count=len(transactions), root=transactions_root(transactions))
        return Block(header, transactions)

    def _let_liars_propose(self, height: int) -> None:
        """Lets liars propose in time; otherwise they wait for others, who go on without them."""
        for liar in self.byzantine.values():
            for saying in liar.begin(height):
                self.at(self.now_ms + saying.after_ms, self._sayer(liar, saying.message, saying.receivers))

    def _check_committed(self, host: Host, committed: Committed) -> None:
        block, ledger = committed.block, host.validator.ledger
        is_new = block.header.height not in self._ids
        super()._check_committed(host, committed)
        if host.index in self.liars:
            return
        if is_new:
            self._states[block.header.height] = block.header.state
            self.oracle.take(block)
            self.at(self.now_ms, partial(self._let_liars_propose, block.header.height + 1))
        if ledger.height == self.oracle.height == block.header.height:
            self.oracle.check(ledger)

    def _must_accuse(self) -> bool:
        """Whether both batches were submitted; a storage party refuses one after the other is admitted."""
        assert self.mallory is not None, "somebody equivocates"
        receipts = (len(self.mallory.receipts.get(each.digest(), ())) for each in self.mallory.batches)
        is_forgotten = {Order.RETAIN, Order.RETAIN_BY_AGE} & set(self.plan.orders)
        return not is_forgotten and min(receipts) > self.plan.faults_most

    def _kept_from(self, place: Place) -> int:
        return self.correct[0].validator.ledger.partition(*place).low_water


def run(plan: Plan) -> Outcome:
    """Runs a plan; its files are in memory where the machine has a folder for that."""
    memory = Path("/dev/shm")
    where = memory if memory.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="veristream-upkeep-", dir=where) as folder:
        return Upkeep(plan, Path(folder)).run_upkeep()
