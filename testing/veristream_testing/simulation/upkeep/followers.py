"""Simulates clients and storage parties that follow a chain by snapshots, across changes of its validators.

What they ask of validators takes no time. Beside the validators that lie, somebody may have the keys of
former ones, and listen in their places.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.client import following
from veristream.kabis.client.checkpoint import Checkpoint
from veristream.kabis.cluster.faults import ValidatorFault
from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.follower import Follower
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol.blocks import Block, CertifiedBlock
from veristream.kabis.protocol.members import MemberRole, Memberships, Party
from veristream.kabis.storage.chain import ChainView, NotNextError, catch_up
from veristream_testing.simulation.chain import START_MS, check_signature, key_of
from veristream_testing.simulation.clients import Client, Consumer, Machine, Producer
from veristream_testing.simulation.scenario import HEAL_MS
from veristream_testing.simulation.stores import Store
from veristream_testing.simulation.upkeep.former import Former, FormerSource, Knows
from veristream_testing.simulation.upkeep.moving import Moving, number_of
from veristream_testing.simulation.upkeep.offers import Asking, Honest, Liar, Source
from veristream_testing.simulation.upkeep.plan import Plan, SnapshotLie
from veristream_testing.simulation.validators import Host
from veristream_testing.simulation.world import ViolationError

REJOIN_MS = 30
KEEP_MS = 100
"""How often clients write checkpoints, and storage parties follow the chain."""
NEVER = 1 << 60

Value = TypeVar("Value")


class Loop(asyncio.SelectorEventLoop):
    """A loop whose clock is the simulation's, so that a seed determines what is asked again."""

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self._clock_ms = clock_ms
        super().__init__()

    def time(self) -> float:
        """Returns the simulated time."""
        return self._clock_ms() / 1000


@dataclass(frozen=True, slots=True)
class Asker:
    """Somebody who asks validators: what separates it from them, and which changes it knows."""

    is_cut: Callable[[int], bool]
    knows: Knows


class Followers(Moving):
    """One run of a plan, as far as clients and storage parties are concerned."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self._folder = folder
        self.counts: Counter[str] = Counter()
        super().__init__(plan.trouble, plan.turns)
        self._loop = Loop(lambda: self.now_ms)
        self._states: dict[int, bytes] = {}
        self._stood_at: dict[object, int] = {}
        self._checkpoints: dict[str, Checkpoint] = {}
        self._kept: dict[str, int] = {}
        self._views: dict[str, tuple[dict[str, Any], list[bytes]]] = {}
        self._askings: dict[tuple[str, int], Asking] = {}
        self._false = {index: self._make_false_source(index) for index in self.byzantine}
        self.former = Former(
            random=self.random,
            memberships=lambda: self.memberships,
            top=lambda: self.oracle.height,
            honest=self._best,
            make_block=self._make_true,
            liars=lambda: {f"v{index}" for index in self.liars | self._afterlives.keys()},
        )

    def _make_false_source(self, index: int) -> Liar:
        lie = dict(self.plan.lies).get(index, SnapshotLie.MUTE)
        return Liar(index, lie, self.random, self._best)

    def add_liar(self, index: int, strategy: ValidatorFault, since: int = 0) -> None:
        """Also lets it offer false snapshots."""
        super().add_liar(index, strategy, since)
        self._false[index] = self._make_false_source(index)

    # What is asked of validators

    def _wait(self, question: Coroutine[Any, Any, Value]) -> Value:
        """Returns the answer to a question; no time passes in the simulation."""
        return self._loop.run_until_complete(question)

    def _best(self) -> Honest | None:
        running = [host for host in self.correct if host.up]
        host = max(running, key=lambda each: each.height, default=None)
        return None if host is None else Honest(host.store, host.published, host.validator.ledger)

    def _make_true(self, height: int) -> Block | None:
        """Returns the block of a height, or one that could be the next."""
        host = max((each for each in self.correct if each.up), key=lambda each: each.height, default=None)
        if host is None or height > host.height + 1 or height < host.store.first:
            return None
        if height <= host.height:
            return host.read(height, height)[0].block
        proposer = self.members_at(height).validators[0].name
        return host.validator.ledger.propose((), START_MS + self.now_ms, proposer)

    def _reach(self, asker: Asker, party: Party, under_any_key: bool) -> Source | None:
        """Returns whoever listens for a validator, under the key that the asker knows."""
        index = number_of(party)
        host = self._host(index)
        is_lost = self.now_ms < HEAL_MS and self.random.random() < self.scenario.drop
        if is_lost or asker.is_cut(index):
            return None
        false = self._false.get(index)
        if false is not None and party.public == key_of(party.name).public:
            return FormerSource(self.former, asker.knows, false)
        is_correct = host is not None and host.index not in self.liars
        if is_correct and (under_any_key or host.validator.seats.signer.public == party.public):  # type: ignore[union-attr]
            assert host is not None
            return Honest(host.store, host.published, host.validator.ledger)
        if host is None and (self.former.listens_as(party) or self.former.poses_as(party, asker.knows())):
            return FormerSource(self.former, asker.knows, None)
        return None

    def _ask_as_host(self, host: Host) -> Asking:
        """Returns the questions of a host, which knows what its blocks say."""

        def is_cut(validator: int) -> bool:
            other = self._host(validator)
            return self.now_ms < HEAL_MS and other is not None and self._is_apart(other, host)

        def knows() -> Collection[int]:
            known = host.validator.ledger.memberships if host.up else Memberships(self.genesis.members)
            return [height for height, _ in known.changes]

        place = (f"host {host.number}", host.lives)
        if place not in self._askings:
            reach = partial(self._reach, Asker(is_cut, knows))
            self._askings[place] = Asking(self.genesis, self.random, reach, f"v{host.index}")
        return self._askings[place]

    def _is_apart(self, other: Host, host: Host) -> bool:
        raise NotImplementedError

    def _ask_as(self, machine: Machine | Store, knows: Knows) -> Asking:
        """Returns the questions of a client or storage party in its present life."""

        def is_cut(validator: int) -> bool:
            return self.now_ms < HEAL_MS and self._is_severed(machine.name, f"v{validator}")

        place = (machine.name, machine.lives)
        if place not in self._askings:
            reach = partial(self._reach, Asker(is_cut, knows))
            self._askings[place] = Asking(self.genesis, self.random, reach)
        return self._askings[place]

    def _ask_as_client(self, client: Machine, follower: Follower) -> Asking:
        """Returns the questions of a client, which knows what its checkpoint and its ledger say."""

        def knows() -> Collection[int]:
            heights = [height for height, _ in follower.ledger.memberships.changes]
            return {*follower.known.heights, *heights}

        return self._ask_as(client, knows)

    # Clients

    def voters(self, client: Machine) -> Sequence[int]:
        """Returns the validators that a client asks: those that it knows."""
        asking = self._askings.get((client.name, client.lives))
        if asking is None:
            return super().voters(client)
        return [number_of(party) for party in asking.members.validators]

    def _reaches(self, client: Machine, validator: str) -> bool:
        asking = self._askings.get((client.name, client.lives))
        known = None if asking is None else asking.members.find(MemberRole.VALIDATOR, validator)
        hosts = [host for host in self.hosts.values() if f"v{host.index}" == validator and host.up]
        if known is None or not hosts or int(validator[1:]) in self.byzantine:
            return True
        assert asking is not None
        return hosts[0].validator.seats.signer.public in asking.keys_of(known)

    def open(self, client: Machine, follower: Follower, goal: int) -> int:
        """Returns the height that the validators report, or the checkpoint's; may begin with a snapshot."""
        life = (client.name, client.lives)
        asking = self._ask_as_client(client, follower)
        try:
            if life not in self._stood_at:
                path = self._folder / client.name
                checkpoint = Checkpoint(path, self.genesis, check_signature)
                asking.know(checkpoint.succession.handovers)
                follower.known = checkpoint.succession
                asking.heed(follower.known_changes(), checkpoint.height)
                goal = max(self._wait(asking.status()).height, checkpoint.height)
                self._checkpoints[client.name] = checkpoint
                self._stood_at[life] = -1
            height = follower.ledger.height
            if self._stood_at[life] < height:
                self._stood_at[life] = height
                return goal  # it makes progress
            self._wait(following.resume(asking, follower, goal, gap=self.plan.gap))
            if follower.ledger.height > height:
                self.counts["clients opened by snapshot"] += 1
                self._check_restored(client.name, follower.ledger)
                self._checkpoints[client.name].check(follower.ledger.height, follower.ledger.last_id)
        except FAILURES:
            return goal if life in self._stood_at else NEVER
        return goal

    def opened(self, client: Machine, follower: Follower) -> None:
        """Checks that the client does not go back."""
        height, kept = follower.ledger.height, self._kept.get(client.name, 0)
        if height < kept:
            raise ViolationError(
                f"checkpoint: {client.name} opens at {height}, after it followed to {kept}"
            )

    def followed(self, client: Machine, last: CertifiedHeader) -> None:
        """Checks what a client has accepted; it asks the members that its blocks show from then on."""
        self.require_decided(client.name, last)
        asking = self._askings.get((client.name, client.lives))
        if asking is not None and isinstance(client, Client):
            asking.know(client.decides.follower.ledger.succession.handovers)

    def _keep_checkpoints(self) -> None:
        self.at(self.now_ms + KEEP_MS, self._keep_checkpoints)
        for client in self.clients:
            follower = client.decides.follower
            last = follower.last
            if client.up and last is not None and client.name in self._checkpoints:
                self._checkpoints[client.name].keep(last, follower.ledger.succession)
                self._kept[client.name] = max(self._kept.get(client.name, 0), last.header.height)

    def stuck(self, client: Machine, follower: Follower) -> None:
        """Opens a client anew if it has missed blocks for ever."""
        height, life = follower.ledger.height, (client.name, client.lives, "open")
        stands_still = self._stood_at.get(life) == height
        self._stood_at[life] = height
        with suppress(*FAILURES):
            asking = self._ask_as_client(client, follower)
            self._wait(asking.read(height + 1, height + 1))  # learns who is to be asked
            if stands_still and self._wait(following.is_pruned(asking, follower)):
                if not self._is_pruned(height + 1):
                    raise ViolationError(f"snapshot: {client.name} believes that {height + 1} is pruned")
                self.counts["clients that missed blocks"] += 1
                self._leave(client.name, REJOIN_MS)

    def _is_pruned(self, height: int) -> bool:
        """Whether some correct validator has pruned a block that was decided."""
        return any(host.store.first > height for host in (*self.hosts.values(),))

    def _leave(self, name: str, down_ms: int) -> None:
        """Stops a client or storage party for a while."""
        for machine in (*self.clients, *self.stores.values()):
            if machine.name == name and machine.up:
                machine.fall()
                self.at(self.now_ms + down_ms, partial(self._come_back, machine))

    def _come_back(self, machine: Producer | Consumer | Store) -> None:
        if not machine.up:
            self._rise(machine)

    def _make_false(self, liar: int, true: CertifiedBlock) -> CertifiedBlock:
        """Also returns blocks that former validators certify: whoever asks for them knows of the change."""
        height = true.block.header.height
        forged = None
        if self.random.random() < 0.7:
            forged = self.former.forge_block(height, [begin for begin, _ in self.memberships.changes])
        return forged or super()._make_false(liar, true)

    # Storage parties

    def _rise(self, machine: Producer | Consumer | Store) -> None:
        super()._rise(machine)
        if isinstance(machine, Store) and machine.name in self._views and machine.party.gate is not None:
            view = ChainView(self.genesis)
            view.restore(*self._views[machine.name])
            machine.party.gate.view = view

    def _follow(self, store: Store) -> None:
        """Follows the chain as a storage party does, and releases what the chain has released."""
        self.at(self.now_ms + KEEP_MS, partial(self._follow, store))
        gate = store.party.gate
        if (
            not store.up
            or gate is None
            or (gate.view.is_current and gate.view.height >= self.oracle.height)
        ):
            return
        view, before = gate.view, gate.view.height

        def knows() -> Collection[int]:
            return [height for height, _ in store.party.gate.view.memberships.changes]  # type: ignore[union-attr]

        try:
            self._wait(catch_up(view, self._ask_as(store, knows), check_signature))
        except NotNextError as error:
            raise ViolationError(f"snapshot: {store.name} follows what nobody decided: {error}") from error
        except FAILURES:
            pass
        self.require_one(store.name, view.height, view._last_id)
        self.counts["blocks followed by storage"] += view.height - before
        store.party.let_go(view.marks)
        store.party.settle()
        if self.random.random() < 0.5:
            self._views[store.name] = view.dump()

    # Checks

    def _check_restored(self, who: str, ledger: Ledger) -> None:
        height, states = ledger.height, self._states
        if height and self._ids.get(height) != ledger.last_id:
            raise ViolationError(f"snapshot: {who} begins after a block {height} that nobody decided")
        if height and states.get(height + 1, ledger.state_hash()) != ledger.state_hash():
            raise ViolationError(f"snapshot: {who} begins with a state after {height} that nobody decided")
