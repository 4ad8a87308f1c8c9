"""What a decided chain must satisfy, computed from its blocks alone, independently of the ledger's rules.

It says when a version, a quota, a right or a retention is in force, and what that forbids; simulations
compare every decided block, and the ledgers after it, with that.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.protocol import actions
from veristream.kabis.protocol.actions import Quota, Retention, Right
from veristream.kabis.protocol.blocks import Block
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Members, Memberships
from veristream.kabis.protocol.transactions import Signed, Submit, decode_transaction
from veristream_testing.simulation.world import ViolationError

RELEASED_MAX = 16
"""How many batches one admission releases at most."""

_OF_VERSION_2 = (
    actions.SetRetention | actions.Grant | actions.Revoke | actions.SetQuota | actions.SetMembers
)


@dataclass(slots=True)
class _Batches:
    """The batches that a partition keeps: their first indices and times."""

    next_index: int = 0
    kept: list[tuple[int, int]] = field(default_factory=list)


class Oracle:
    """The chain as far as `take` was told; `versions` has the version in force at each height."""

    def __init__(self, genesis: Genesis) -> None:
        self._admins = {admin.name for admin in genesis.admins}
        self.height = 0
        self.upgraded = 0
        self.released = 0
        self.counts: Counter[str] = Counter()
        """How many actions of each kind took effect."""
        self._version = genesis.version
        self._next: tuple[int, int] | None = None
        self._quota = Quota(0, 0, 0)
        self._groups: defaultdict[str, set[str]] = defaultdict(set)  # created by each client
        self._created: set[str] = set()
        self._retentions: dict[str, Retention] = {}
        self._batches: defaultdict[tuple[str, int], _Batches] = defaultdict(_Batches)
        self._rules: defaultdict[tuple[str, str], list[tuple[int, bool]]] = defaultdict(list)
        self._guarded: dict[str, int] = {}
        self.memberships = Memberships(genesis.members)

    def version_after(self) -> int:
        """Returns the version that is in force for the next block."""
        if self._next is not None and self._next[1] == self.height + 1:
            return self._next[0]
        return self._version

    def take(self, block: Block) -> None:
        """Judges the next block; raises ViolationError."""
        height = block.header.height
        assert height == self.height + 1, "blocks are judged in their order"
        if self._next is not None and self._next[1] == height:
            self._version, self._next, self.upgraded = self._next[0], None, height
        if self.memberships.at(height).index_of(block.header.proposer) is None:
            raise ViolationError(f"members: block {height} is of {block.header.proposer}, who has no seat")
        turns: Counter[str] = Counter()
        for encoded in block.transactions:
            match decode_transaction(encoded):
                case Submit() as submit:
                    header = submit.signed.header
                    self._count_turn(turns, header.producer, height)
                    self._admit(header.topic, header.partition, header.count, block.header.time_ms)
                case Signed() as signed:
                    self._count_turn(turns, signed.author, height)
                    self._act(signed, height)
                case _:
                    pass
        self.height = height

    def check(self, ledger: Ledger) -> None:
        """Compares a ledger after the last block; raises ViolationError."""
        assert ledger.height == self.height, "the ledger is after another block"
        if ledger.protocol.version != self.version_after():
            found, wanted = ledger.protocol.version, self.version_after()
            raise ViolationError(f"upgrade: version {found} after block {self.height}, and not {wanted}")
        if ledger.memberships.changes != self.memberships.changes:
            raise ViolationError(f"members: others in force after block {self.height} than were ordered")
        for (topic, partition), batches in self._batches.items():
            oldest, wanted = ledger.partition(topic, partition).oldest, batches.kept[0][0]
            if oldest != wanted:
                where = f"{topic}-{partition} after block {self.height}"
                raise ViolationError(f"retention: {where} keeps what is from {oldest} on, not {wanted}")
        for name, groups in self._groups.items():
            account = ledger.account(name)
            if account is None or account.groups != len(groups):
                raise ViolationError(
                    f"quota: {name} created {len(groups)} groups, but {account} are counted"
                )

    def may_join(self, height: int, name: str, group: str) -> bool:
        """Returns whether a block of this height may let a client join a group."""
        if self._guarded.get(group, height) >= height or name in self._admins:
            return True
        changes = [gives for changed, gives in self._rules[group, name] if changed < height]
        return bool(changes) and changes[-1]

    def _count_turn(self, turns: Counter[str], name: str, height: int) -> None:
        limit = self._quota.transactions
        if limit and turns[name] >= limit and name not in self._admins:
            raise ViolationError(f"quota: block {height} has more than {limit} transactions of {name}")
        turns[name] += 1

    def _admit(self, topic: str, partition: int, count: int, time_ms: int) -> None:
        batches = self._batches[topic, partition]
        batches.kept.append((batches.next_index, time_ms))
        batches.next_index += count
        retention = self._retentions.get(topic, Retention(0, 0))
        for _ in range(RELEASED_MAX):
            too_many = 0 < retention.batches < len(batches.kept)
            too_old = 0 < retention.kept_ms < time_ms - batches.kept[0][1]
            if len(batches.kept) < 2 or not (too_many or too_old):
                break
            del batches.kept[0]
            self.released += 1

    def _act(self, signed: Signed, height: int) -> None:
        action, name = signed.action, signed.author
        self.counts[type(action).__name__] += 1
        if isinstance(action, _OF_VERSION_2) and self._version < 2:
            raise ViolationError(f"upgrade: block {height} of version 1 has {action}")
        match action:
            case actions.SetMembers(members, at):
                self._change(members, at, height)
            case actions.Upgrade(version, at):
                self._next = (version, at)
            case actions.SetQuota(quota):
                self._quota = quota
            case actions.SetRetention(topic, retention):
                self._retentions[topic] = retention
            case actions.Grant(rule):
                self._guarded.setdefault(rule.pattern, height)
                self._rules[rule.pattern, rule.who].append((height, True))
            case actions.Revoke(rule):
                self._rules[rule.pattern, rule.who].append((height, False))
            case actions.JoinGroup(group, _, topics):
                self._join(height, name, group, topics)
            case _:
                pass

    def _change(self, members: Members, at: int, height: int) -> None:
        begun = max((begin for begin, _ in self.memberships.changes), default=0)
        if begun > height or at < height + 2 or members.find_problem():
            raise ViolationError(
                f"members: block {height} sets {members} from {at} on, others from {begun}"
            )
        self.memberships = self.memberships.changed(at, members)

    def _join(self, height: int, name: str, group: str, topics: tuple[str, ...]) -> None:
        if not self.may_join(height, name, group):
            right = Right(actions.Resource.GROUP, group, actions.Operation.READ)
            raise ViolationError(f"access: block {height} lets {name} join, who needs {right}")
        if self._quota.topics and len(topics) > self._quota.topics:
            raise ViolationError(f"quota: block {height} has a member with {len(topics)} topics")
        if group not in self._created:
            self._created.add(group)
            if self._quota.groups and len(self._groups[name]) >= self._quota.groups:
                raise ViolationError(f"quota: block {height} lets {name} create one more group")
            self._groups[name].add(group)
