"""Facts for the whole audit: keys and their validity, topics, rights, low-water marks, skipped batches."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from veristream.kabis.audit.findings import Finding, Kind, Role
from veristream.kabis.audit.history import History
from veristream.kabis.ledger.access import AccessBook, is_admin
from veristream.kabis.ledger.retention import NO_RETENTION, KeptBatches
from veristream.kabis.ledger.state import Ending, Key, Topic
from veristream.kabis.protocol import actions, transactions
from veristream.kabis.protocol.batch import BatchHeader, SignedHeader
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SignatureError, Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.outcomes import Reason, RefusedError

Place = tuple[str, int]
AccessChange = tuple[int, actions.AccessAction]
"""A change of access rules, with its height."""
Conflict = tuple[str, int, str, int, int]
"""Topic, partition, producer, key epoch, and the first sequence number that was signed twice."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A transaction with lasting effect, and its place on the ledger."""

    height: int
    number: int
    transaction: bytes


@dataclass(frozen=True, slots=True)
class Limit:
    """A low-water mark or a topic's retention, and its place on the ledger."""

    height: int
    number: int
    action: actions.LowWater | actions.SetRetention


@dataclass(frozen=True, slots=True)
class Ordered:
    """An admitted batch: its place on the ledger, and how many events it adds to its partition."""

    height: int
    number: int
    time_ms: int
    topic: str
    partition: int
    count: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A skipped batch: the block of the decision, and the parties that signed that they lack it."""

    height: int
    confessed: tuple[str, ...]


class AccessHistory:
    """Who had which right at each height, asked in ascending order of heights."""

    def __init__(self, genesis: Genesis, changes: Iterable[AccessChange]) -> None:
        self._book = AccessBook(genesis)
        self._changes = deque(changes)

    def may(self, height: int, name: str, right: actions.Right) -> bool:
        """Returns whether a client had a right in the block of this height."""
        while self._changes and self._changes[0][0] <= height:
            self._book.take(*self._changes.popleft())
        return self._book.may(height, name, right)


@dataclass(slots=True)
class Registry:
    """The combined facts, sent to every task."""

    chain_id: str
    keys: dict[tuple[str, int], Key] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    marks: dict[Place, int] = field(default_factory=dict)
    limits: list[Limit] = field(default_factory=list)
    skipped: dict[bytes, Skipped] = field(default_factory=dict)
    conflicts: set[Conflict] = field(default_factory=set)
    access: list[AccessChange] = field(default_factory=list)
    genesis: Genesis | None = None

    def replay_access(self) -> AccessHistory:
        """Returns the history of access rules from its beginning."""
        assert self.genesis is not None, "a registry that was read from facts"
        return AccessHistory(self.genesis, self.access)

    def is_due(self, batch: Due) -> bool:
        """Whether parties with receipts must still have the batch: it is neither trimmed nor skipped."""
        mark = self.marks.get((batch.topic, batch.partition), 0)
        return batch.digest not in self.skipped and batch.first_index + batch.count > mark

    def limited_topics(self) -> tuple[str, ...]:
        """Returns the topics that ever had a retention."""
        set_for = {
            limit.action.topic for limit in self.limits if isinstance(limit.action, actions.SetRetention)
        }
        return tuple(sorted(set_for))

    def retain(self, batches: Iterable[Ordered]) -> None:
        """Raises the marks as the ledger did, given all batches of the topics that ever had a retention."""
        retentions: dict[str, actions.Retention] = {}
        kept: defaultdict[Place, KeptBatches] = defaultdict(KeptBatches)
        ends: defaultdict[Place, int] = defaultdict(int)
        steps: list[Ordered | Limit] = [*batches, *self.limits]
        for each in sorted(steps, key=lambda step: (step.height, step.number)):
            match each:
                case Limit(action=actions.LowWater(topic, partition, index)):
                    kept[topic, partition].let_go(index)
                case Limit(action=actions.SetRetention(topic, retention)):
                    retentions[topic] = retention
                case Ordered():
                    place = (each.topic, each.partition)
                    ends[place] += each.count
                    retention = retentions.get(each.topic, NO_RETENTION)
                    mark = kept[place].admit(ends[place], each.time_ms, retention)
                    self.marks[place] = max(mark, self.marks.get(place, 0))

    def is_signed(self, signed: SignedHeader, verify: Verify = verify_signature) -> bool:
        """Whether the producer signed the header with the key of the header's epoch."""
        key = self.keys.get((signed.header.producer, signed.header.key_epoch))
        if key is None or signed.header.chain_id != self.chain_id:
            return False
        try:
            signed.verify(key.public, verify)
        except SignatureError:
            return False
        return True


class Due(Protocol):
    """The attributes of an admitted batch that determine whether it must still be kept."""

    @property
    def topic(self) -> str:
        """Topic of the batch."""

    @property
    def partition(self) -> int:
        """Partition of the batch."""

    @property
    def first_index(self) -> int:
        """Index of its first event."""

    @property
    def count(self) -> int:
        """Number of its events."""

    @property
    def digest(self) -> bytes:
        """Digest of its header."""


def overlap(first: BatchHeader, second: BatchHeader) -> int | None:
    """Returns the first sequence number shared by two different batches of one key and partition."""
    sides = [(each.topic, each.partition, each.producer, each.key_epoch) for each in (first, second)]
    begin = max(first.first_sequence, second.first_sequence)
    end = min(first.next_sequence, second.next_sequence)
    return begin if sides[0] == sides[1] and first != second and begin < end else None


class _Reading:
    """Reads the facts in ledger order."""

    def __init__(self, genesis: Genesis, verify: Verify) -> None:
        self.genesis = genesis
        self.verify = verify
        self.findings: list[Finding] = []
        self.book = AccessBook(genesis)
        self.history = History(genesis)
        self.number = 0  # of the transaction in its block
        self.registry = Registry(genesis.chain_id, genesis=genesis)
        for party in genesis.admins + genesis.clients:
            self.registry.keys[party.name, 0] = Key(party.public, 0)

    def take(self, height: int, transaction: transactions.Transaction) -> None:
        match transaction:
            case transactions.Signed():
                if self._is_authentic(height, transaction):
                    self._act(height, transaction, transaction.action)
            case transactions.Skip(hole, absences):
                confessed = tuple(absence.party for absence in absences)
                self.registry.skipped[hole.digest] = Skipped(height, confessed)
            case transactions.BatchConflict(first, second):
                self._conflict(height, first, second)
            case transactions.VoteConflict():
                self._contradiction(height, transaction)
            case _:
                raise AssertionError("no fact that lasts")

    def _is_authentic(self, height: int, signed: transactions.Signed) -> bool:
        key = self.registry.keys.get((signed.author, signed.key_epoch))
        try:
            if key is None or not key.valid_at(height):
                raise SignatureError("no valid key")
            signed.verify(self.genesis.chain_id, key.public, self.verify)
        except SignatureError:
            detail = f"an action was ordered that {signed.author} did not sign"
            self._find(Kind.BAD_SIGNATURE, Role.LEDGER, "", height, detail)
            return False
        return True

    def _act(self, height: int, signed: transactions.Signed, action: actions.Action) -> None:
        registry = self.registry
        match action:
            case actions.SetTopic(topic, partitions, validated):
                registry.topics[topic] = Topic(partitions, validated)
            case actions.LowWater(topic, partition, index):
                registry.marks[topic, partition] = index
                registry.limits.append(Limit(height, self.number, action))
            case actions.SetRetention():
                registry.limits.append(Limit(height, self.number, action))
            case actions.Hole(digest=digest):
                registry.skipped[digest] = Skipped(height, ())
            case actions.RegisterKey(name, key_epoch, public):
                self._register(height, name, key_epoch, public)
            case actions.RotateKey(public):
                self._register(height, signed.author, signed.key_epoch + 1, public)
            case actions.RevokeKey(name, key_epoch):
                self._end(height, name, key_epoch, Ending.REVOKED)
            case actions.SetMembers():
                if is_admin(self.genesis, signed.author):
                    self.history = self.history.changed(action)
                else:
                    self._find(Kind.NO_RIGHT, Role.LEDGER, "", height, "no admin changed the members")
            case actions.Grant() | actions.Revoke() | actions.SetRole() | actions.SetClosed():
                self._change_access(height, signed.author, action)
            case _:
                raise AssertionError("no action that lasts")

    def _change_access(self, height: int, author: str, action: actions.AccessAction) -> None:
        try:
            if not is_admin(self.genesis, author):
                raise RefusedError(Reason.NOT_ADMIN, author)
            self.book.take(height, action)
        except RefusedError as error:
            detail = f"access rules were changed against the rules: {error.refused}"
            self._find(Kind.NO_RIGHT, Role.LEDGER, "", height, detail)
        else:
            self.registry.access.append((height, action))

    def _register(self, height: int, name: str, key_epoch: int, public: bytes) -> None:
        self._end(height, name, key_epoch - 1, Ending.REPLACED)
        self.registry.keys[name, key_epoch] = Key(public, height)

    def _end(self, height: int, name: str, key_epoch: int, ending: Ending) -> None:
        key = self.registry.keys.get((name, key_epoch))
        if key is not None and key.ended_height is None:
            self.registry.keys[name, key_epoch] = replace(key, ended_height=height, ending=ending)

    def _conflict(self, height: int, first: SignedHeader, second: SignedHeader) -> None:
        header, sequence = first.header, overlap(first.header, second.header)
        is_signed = self.registry.is_signed
        if sequence is None or not is_signed(first, self.verify) or not is_signed(second, self.verify):
            self._find(Kind.BAD_SIGNATURE, Role.LEDGER, "", height, "evidence that proves nothing")
            return
        place = (header.topic, header.partition, header.producer, header.key_epoch)
        self.registry.conflicts.add((*place, sequence))
        self._end(height, header.producer, header.key_epoch, Ending.FENCED)
        detail = f"two signed batches, shown on the ledger in block {height}"
        self.findings.append(
            Finding(Kind.EQUIVOCATION, Role.PRODUCER, header.producer, *place, sequence, 1, height, detail)
        )

    def _contradiction(self, height: int, conflict: transactions.VoteConflict) -> None:
        first, second = conflict.first, conflict.second
        validators = self.history.at(first.height).validators
        party = validators[first.validator % len(validators)]
        step = [(vote.validator, vote.kind, vote.height, vote.round_number) for vote in (first, second)]
        try:
            if step[0] != step[1] or first.block_id == second.block_id:
                raise SignatureError("no contradiction")
            for vote in (first, second):
                vote.verify(self.genesis.chain_id, party.public, self.verify)
        except SignatureError:
            self._find(Kind.BAD_SIGNATURE, Role.LEDGER, "", height, "evidence that proves nothing")
            return
        detail = f"two votes at height {first.height}, shown on the ledger in block {height}"
        self._find(Kind.EQUIVOCATION, Role.VALIDATOR, party.name, height, detail)

    def _find(self, kind: Kind, role: Role, accused: str, height: int, detail: str) -> None:
        self.findings.append(Finding(kind, role, accused, height=height, detail=detail))


def read_facts(
    genesis: Genesis, facts: Iterable[Fact], verify: Verify = verify_signature
) -> tuple[Registry, list[Finding]]:
    """Combines the facts; returns the registry and the faults of the facts."""
    reading = _Reading(genesis, verify)
    for fact in sorted(facts, key=lambda each: (each.height, each.number)):
        reading.number = fact.number
        reading.take(fact.height, transactions.decode_transaction(fact.transaction))
    return reading.registry, reading.findings
