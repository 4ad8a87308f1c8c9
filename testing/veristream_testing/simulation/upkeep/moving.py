"""Simulates a system whose validators change: who leaves, who joins, and who has which key.

Validators are told apart by their names; messages name them by their positions among those of a height. A
validator that has left ends, as its process does, and may lie from then on with its old keys. A newcomer
begins with the genesis alone. One with a new key starts again under it. Machines exchange messages only if
each knows the other by the key that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import partial
from random import Random

from veristream.kabis.cluster.faults import ValidatorFault
from veristream.kabis.ledger.certified import CertifiedHeader, ReceiptError
from veristream.kabis.ordering.messages import Committee, Message, Proposal, Vote
from veristream.kabis.ordering.outbox import Outbox
from veristream.kabis.ordering.peers import PeerMessage
from veristream.kabis.ordering.seats import Me, Signers
from veristream.kabis.ordering.store import BlockStore
from veristream.kabis.ordering.validator import Committed, ValidatorCore
from veristream.kabis.protocol.members import Members, Memberships, Party
from veristream_testing.simulation import validators
from veristream_testing.simulation.byzantine import Byzantine, Saying
from veristream_testing.simulation.chain import CHAIN, Key, check_signature, key_of
from veristream_testing.simulation.clients import Machine
from veristream_testing.simulation.disk import Disk
from veristream_testing.simulation.scenario import HEAL_MS, Crash
from veristream_testing.simulation.trouble import Trouble
from veristream_testing.simulation.upkeep.oracle import Oracle
from veristream_testing.simulation.upkeep.turns import Newcomer, Turn
from veristream_testing.simulation.validators import TICK_MS, Host
from veristream_testing.simulation.whole import Whole
from veristream_testing.simulation.world import ViolationError

WATCH_MS = 20
"""How often a validator looks whether it has left, or has another key."""
LEAVE_MS = 60
"""How long a validator that has left still answers."""


@dataclass(slots=True)
class Liar(validators.Liar):
    """A Byzantine validator that knows all members; from `since` on, if it was correct before.

    Where it is not in force, it claims the last position that it had.
    """

    around: Moving = field(kw_only=True)
    since: int = field(default=0, kw_only=True)

    def hear(self, message: Message, now_ms: int) -> list[Saying]:
        """Ignores what is about heights at which it was correct."""
        if isinstance(message, Proposal | Vote) and message.height < self.since:
            return []
        return Byzantine.hear(self, message, now_ms)

    def _committee(self, height: int) -> Committee:
        return Committee(CHAIN, len(self.around.members_at(height).validators))

    def _position(self, height: int) -> int:
        return self.around.last_position_of(self.index, height)

    def _all(self) -> frozenset[int]:
        return frozenset(host.index for host in self.around.hosts.values()) - {self.index}


class Moving(Whole):
    """One run of a system whose validators change."""

    def __init__(self, trouble: Trouble, turns: Sequence[Turn]) -> None:
        self._keys: dict[int, tuple[Key, ...]] = {}
        self._known_by: dict[tuple[int, int], bytes] = {}
        self._links: dict[tuple[object, ...], bool] = {}
        self._leaving: set[tuple[int, int]] = set()
        self._left: set[int] = set()
        self._coming: set[int] = set()
        self._afterlives = {index: strategy for turn in turns for index, strategy in turn.afterlives}
        self._accepted: dict[int, bytes] = {}
        super().__init__(trouble)
        self.oracle = Oracle(self.genesis)

    # Positions

    @property
    def memberships(self) -> Memberships:
        """The members at each height, as the decided blocks say."""
        return self.oracle.memberships

    def members_at(self, height: int) -> Members:
        """Returns the members in force at a height, as far as blocks are decided."""
        return self.memberships.at(height)

    @property
    def present(self) -> Members:
        """The members in force for the next block."""
        return self.members_at(self.oracle.height + 1)

    def position_of(self, index: int, height: int) -> int | None:
        """Returns the position of a validator among those of a height; None if it is not one of them."""
        return self.members_at(height).index_of(f"v{index}")

    def validator_at(self, position: int, height: int) -> int:
        """Returns the validator at a position among those of a height."""
        return number_of(self.members_at(height).validators[position])

    def last_position_of(self, index: int, height: int) -> int:
        """Returns the position that a validator has at a height, or had last, or will have."""
        sets = [self.members_at(height), *(members for _, members in reversed(self.memberships.changes))]
        found = (members.index_of(f"v{index}") for members in (*sets, self.genesis.members))
        return next((position for position in found if position is not None), 0)

    @property
    def receipts_needed(self) -> int:
        """How many storage receipts a batch needs now."""
        return self.present.receipts_needed

    # Participants

    def _identify(self, index: int) -> tuple[Me, Signers]:
        keys = self._keys.setdefault(index, (key_of(f"v{index}"),))
        return index if index < self.scenario.size else f"v{index}", keys

    def _make_validator(self, index: int, store: BlockStore, records: Disk) -> ValidatorCore:
        """Also settles which of its keys it has, as its process does."""
        validator = super()._make_validator(index, store, records)
        named, keys = [party.public for party in validator.seats.named()], self._keys[index]
        publics = [key.public for key in keys]
        if named and named[0] in publics:
            self._keys[index] = keys[publics.index(named[0]) :]
        validator.others = self._list_others(validator)
        return validator

    @staticmethod
    def _list_others(validator: ValidatorCore) -> tuple[int, ...]:
        return tuple(sorted(int(name[1:]) for name in validator.seats.others()))

    def _make_liar(self, index: int, strategy: ValidatorFault, since: int = 0) -> Liar:
        random = Random(f"liar/{self.scenario.seed}/{index}")
        committee, sign = Committee(CHAIN, self.scenario.size), key_of(f"v{index}").sign
        return Liar(
            index, committee, sign, strategy, random, make_block=self._make_block, around=self, since=since
        )

    def add_liar(self, index: int, strategy: ValidatorFault, since: int = 0) -> None:
        """Lets a validator lie from now on."""
        self.liars |= {index}
        self.byzantine[index] = self._make_liar(index, strategy, since)

    def _begin(self) -> None:
        super()._begin()
        for host in self.hosts.values():
            self.at(WATCH_MS + host.number, partial(self._watch, host))

    def prepare(self, turn: Turn) -> Members:
        """Returns the next members, after the machines of newcomers and next keys are prepared."""
        before = self.members_at(1 << 60)
        parties = {number_of(party): party for party in before.validators}
        for newcomer in turn.joining:
            name = f"v{newcomer.index}"
            parties[newcomer.index] = Party(name, key_of(name).public, f"{name}:1")
            self._coming.add(newcomer.index)
            self.at(self.now_ms + newcomer.after_ms, partial(self._arrive, newcomer))
        for index in turn.rotating:
            keys = self._keys.setdefault(index, (key_of(f"v{index}"),))
            key = key_of(f"v{index} from {self.now_ms}")
            self._keys[index] = (*keys, key)
            parties[index] = changed(parties[index], public=key.public)
        order = turn.apply([number_of(party) for party in before.validators])
        validators = tuple(parties[index] for index in order)
        return changed(before, faults=(len(order) - 1) // 3, validators=validators)

    def _arrive(self, newcomer: Newcomer) -> None:
        """Starts the machine of a newcomer, which has the genesis and its key."""
        self._coming.discard(newcomer.index)
        if newcomer.strategy is not None:
            self.add_liar(newcomer.index, newcomer.strategy)
            return
        host = self._make_host(newcomer.index, newcomer.index)
        self.hosts[host.number] = host
        self.correct.append(host)
        self._do(host, host.validator.begin(self._clock_ms))
        self._attend(host)
        if newcomer.crash_ms is not None and self.now_ms < HEAL_MS:
            crash = Crash(self.now_ms + newcomer.crash_ms, host.number, 3, 150)
            self.at(crash.at_ms, self._doomer(crash))

    def _attend(self, host: Host) -> None:
        """Schedules what a host does again and again."""
        self.at(self.now_ms + TICK_MS, self._ticker(host))
        self.at(self.now_ms + WATCH_MS, partial(self._watch, host))

    # Leaving, and new keys

    def _watch(self, host: Host) -> None:
        """As the process of a validator does: ends once it has left, starts again under its next key."""
        if host.number in self._left:
            return
        self.at(self.now_ms + WATCH_MS, partial(self._watch, host))
        if not host.up:
            return
        seats = host.validator.seats
        if seats.left_at is not None:
            if (host.number, host.lives) not in self._leaving:
                self._leaving.add((host.number, host.lives))
                self.ring(host, LEAVE_MS, partial(self._end, host, seats.left_at))
            return
        for key in self._keys[host.index]:
            if not seats.has(key.public):
                seats.learn(key)
        known_by = self._known_by.setdefault((host.number, host.lives), seats.signer.public)
        if known_by != seats.signer.public:
            self._restart_process(host)

    def _end(self, host: Host, left_at: int) -> None:
        """Ends the process of a validator that has left; somebody else may have its key."""
        host.up, host.dies_after, host.lives = False, None, host.lives + 1
        self._left.add(host.number)
        if host not in self.correct:
            return
        self.correct.remove(host)
        strategy = self._afterlives.get(host.index)
        if strategy is not None:
            self.add_liar(host.index, strategy, left_at)

    def _restart(self, host: Host) -> None:
        if host.number not in self._left:
            super()._restart(host)

    def _restart_process(self, host: Host) -> None:
        host.records.sync()
        host.store.sync()
        host.lives, host.outbox, host.flushing = host.lives + 1, Outbox(), False
        self.revive(host)

    # Links between validators

    def _is_linked(self, host: Host, other: Host) -> bool:
        """Whether one knows the other by the key that it has, and the other admits one of its keys."""
        place = (
            host.number, host.lives, host.validator.ledger.height, self._keys[host.index],
            other.number, other.lives, other.validator.ledger.height, self._keys[other.index],
        )  # fmt: skip
        linked = self._links.get(place)
        if linked is None:
            parties = host.validator.seats.others().get(f"v{other.index}", ())
            seats = other.validator.seats
            linked = self._links[place] = any(
                party.public == seats.signer.public for party in parties
            ) and any(seats.admits(f"v{host.index}", key.public) for key in self._keys[host.index])
        return linked

    def _deliver(self, sender: int, host: Host, message: PeerMessage) -> None:
        name = f"v{sender}"
        if sender in self.byzantine and host.up:
            place = (name, host.number, host.lives, host.validator.ledger.height)
            admitted = self._links.get(place)
            if admitted is None:
                admitted = host.validator.seats.admits(name, key_of(name).public)
                self._links[place] = admitted
            if not admitted:
                return
        super()._deliver(sender, host, message)

    def _keep(self, host: Host, committed: Committed) -> None:
        super()._keep(host, committed)
        host.validator.others = self._list_others(host.validator)

    # Clients

    def voters(self, client: Machine) -> Sequence[int]:
        """Returns the validators that a client asks."""
        return [number_of(party) for party in self.present.validators]

    def _missing(self) -> list[str]:
        missing = super()._missing()
        if self.memberships.pending(self.oracle.height + 1) is not None:
            missing.append("a change of the members is pending")
        return missing + [f"v{index} has not come" for index in sorted(self._coming)]

    # Checks

    def require_decided(self, who: str, last: CertifiedHeader) -> None:
        """Checks that nobody accepts two blocks of one height, or one of those who are not in force."""
        height = last.header.height
        self.require_one(who, height, last.header.block_id())
        if height <= self.oracle.height:
            try:
                last.verify(CHAIN, self.members_at(height), check_signature)
            except ReceiptError as error:
                raise ViolationError(f"members: {who} accepts block {height}: {error}") from error

    def require_one(self, who: str, height: int, block_id: bytes) -> None:
        """Checks that nobody accepts two blocks of one height."""
        if height and self._accepted.setdefault(height, self._ids.get(height, block_id)) != block_id:
            raise ViolationError(f"agreement: {who} accepts another block {height}")

    def _check_committed(self, host: Host, committed: Committed) -> None:
        super()._check_committed(host, committed)
        if host.index not in self.liars:
            header = committed.block.header
            self.require_one(f"host {host.number}", header.height, header.block_id())


def number_of(party: Party) -> int:
    """Returns the number of a validator."""
    return int(party.name[1:])
