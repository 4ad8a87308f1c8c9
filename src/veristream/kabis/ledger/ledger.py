"""The replicated ledger: a state machine that every validator and every follower of the chain runs.

It is pure: no clock, no file, no thread. `check` returns the effects of a block, or raises if nobody may
vote for it; `apply` applies it. A block holds only transactions that take effect, so a transaction in a
certified block is admitted: at least one correct validator among the voters has checked every rule of
`rules`.

Decisions where the paper is silent:

- A key becomes valid, and stops being valid, with the next block (`state.Key`).
- A hole is skipped when all storage parties that gave a receipt for the batch state that they do not have
  it, or when an admin orders it. Statements of any F+1 parties are not enough: F liars and one honest party
  that never received the batch could then remove a batch that an honest party has.
- A validator that voted twice is recorded once; only an admin changes the members (`membership`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Self

from veristream.kabis.ledger import group_rules
from veristream.kabis.ledger.access import AccessBook, Span, found_access, is_closed, list_rules, may
from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.context import Context, Lacking
from veristream.kabis.ledger.groups import Group, Member, MemberId
from veristream.kabis.ledger.key_proofs import KeyProof, prove_in_sections, prove_in_trie
from veristream.kabis.ledger.leaves import Leaves
from veristream.kabis.ledger.retention import NO_RETENTION
from veristream.kabis.ledger.rules import (
    EMPTY_PARTITION,
    FRESH_CURSOR,
    apply_transaction,
    find_covering,
)
from veristream.kabis.ledger.sections import Sections
from veristream.kabis.ledger.state import (
    Account,
    Accusation,
    Admission,
    Cursor,
    Key,
    Partition,
    Protocol,
    State,
    Topic,
)
from veristream.kabis.ledger.succession import Succession, make_handover
from veristream.kabis.ledger.trie import Node
from veristream.kabis.protocol.actions import LowWater, Quota, Retention, Right, Rule
from veristream.kabis.protocol.blocks import (
    BLOCK_BYTES_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTIONS_MAX,
    Block,
    BlockHeader,
    Certificate,
    transactions_root,
)
from veristream.kabis.protocol.codec import ZERO_DIGEST, DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Remembering, Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import Members, Memberships
from veristream.kabis.protocol.outcomes import Admitted, Already, Effect, Outcome, Reason, Refused
from veristream.kabis.protocol.transactions import BatchConflict, Signed, Submit, decode_transaction

_BLOCK_ROOM = BLOCK_BYTES_MAX - 4096
"""The room for transactions in a block, including four bytes for the length of each."""


class BlockFault(Enum):
    """Every reason why a block cannot follow the last one."""

    OTHER_CHAIN = "it is for another chain"
    HEIGHT = "it has another height"
    PREVIOUS = "it does not follow our last block"
    TIME = "its time is not after the last block's"
    PROPOSER = "its proposer is no validator"
    STATE = "it was made on another state"
    ROOT = "its transactions are not those under its root"
    TOO_LARGE = "it has too many transactions"
    TRANSACTION = "one of its transactions has no effect"


class InvalidBlockError(Exception):
    """Nobody may vote for the block or apply it."""

    def __init__(self, fault: BlockFault, detail: str = "") -> None:
        super().__init__(fault.value + (f": {detail}" if detail else ""))
        self.fault = fault


@dataclass(frozen=True, slots=True)
class _Applied:
    """A transaction of a block and its effect."""

    transaction: object
    effect: Effect


class Ledger:
    """The state after a number of blocks; it starts with the genesis, at height 0."""

    def __init__(
        self, genesis: Genesis, check: Verify = verify_signature, *, fixed_members: bool = False
    ) -> None:
        self.genesis = genesis
        self.succession = Succession(genesis)
        self._fixed_members = fixed_members
        self._memberships = Memberships(genesis.members)
        self.height = 0
        self.time_ms = genesis.time_ms
        self.last_id = genesis.digest()
        self.last_header: BlockHeader | None = None
        self._verify = Remembering(check)
        self._state = State()
        self._starts: dict[tuple[str, int], list[int]] = {}
        self._hash: Sections | Leaves = Sections()
        self._prove: Callable[[str, int], KeyProof | None] | None = None
        self._lacking: Lacking = {}
        for party in genesis.admins + genesis.clients:
            self._state.accounts.put(party.name, Account(0, 0, ZERO_DIGEST, 0))
            self._state.keys.put((party.name, 0), Key(party.public, 0))
            self._state.publics.put(party.public, (party.name, 0))
        found_access(self._state, genesis)
        self._hash.take(self._state, self._state.commit())
        if genesis.version > 1:
            self._activate(genesis.version)

    @classmethod
    def restore(
        cls, genesis: Genesis, header: BlockHeader, contents: tuple[State, Node], check: Verify
    ) -> Self:
        """Returns the ledger after the block with this header, from its state and the trie of it.

        The caller has verified both; see `snapshot`.
        """
        ledger = cls(genesis, check)
        ledger.height, ledger.time_ms, ledger.last_id = header.height, header.time_ms, header.block_id()
        ledger.last_header = header
        state, node = contents
        ledger._state, ledger._hash = state, Leaves(node)
        for topic, partition, index in sorted(key for key, _ in state.admissions.items()):
            ledger._starts.setdefault((topic, partition), []).append(index)
        return ledger

    def state_hash(self) -> bytes:
        """Returns the hash of the state, which the next block's header holds."""
        return self._hash.root()

    def freeze(self) -> Node:
        """Returns the trie of the state, which later blocks leave alone; raises ValueError in version 1."""
        if not isinstance(self._hash, Leaves):
            raise ValueError("a state of protocol version 1 has no trie")
        return self._hash.freeze()

    def check(self, block: Block) -> tuple[Effect, ...]:
        """Returns the effects that the block would have; raises InvalidBlockError if it may not follow."""
        try:
            return tuple(applied.effect for applied in self._try(block))
        finally:
            self._state.discard()

    def apply(self, block: Block, certificate: Certificate | None = None) -> tuple[Effect, ...]:
        """Applies the block and returns the effect of each transaction; an error changes nothing.

        With the certificate, which the caller has verified, the ledger keeps the proof of a pending change
        of the members in `succession`.
        """
        prove, pending = self._prover(), self.pending_members
        try:
            applied = self._try(block)
        except BaseException:
            self._state.discard()
            raise
        if certificate is not None and pending is not None:
            self._hand_over(CertifiedHeader(block.header, certificate), pending[0])
        self._hash.take(self._state, self._state.commit())
        self._prove, self._lacking = prove, {}
        self.height, self.time_ms = block.header.height, block.header.time_ms
        self.last_id, self.last_header = block.block_id(), block.header
        for each in applied:
            self._follow(each)
        protocol = self.protocol
        if protocol.next_version is not None and protocol.next_height == self.height + 1:
            self._activate(protocol.next_version)
        return tuple(each.effect for each in applied)

    def preview(self, encoded: bytes, time_ms: int) -> Outcome:
        """Returns the outcome of a transaction alone in the next block, for admission to a mempool."""
        try:
            return self._apply_one(self._context(time_ms), encoded)[1]
        finally:
            self._state.discard()

    def select(self, candidates: Iterable[bytes], time_ms: int) -> tuple[bytes, ...]:
        """Returns the candidates that take effect one after the other in the next block, as many as fit.

        A batch that arrives before its predecessor waits for it.
        """
        context, room = self._context(time_ms), _BLOCK_ROOM
        chosen: list[bytes] = []
        waiting: dict[tuple[str, str, int, int], bytes] = {}
        try:
            for candidate in candidates:
                following: bytes | None = candidate
                while following is not None and len(chosen) < TRANSACTIONS_MAX:
                    encoded, following = following, None
                    if len(encoded) > TRANSACTION_BYTES_MAX or len(encoded) + 4 > room:
                        break
                    transaction, outcome = self._apply_one(context, encoded)
                    if isinstance(transaction, Submit) and isinstance(outcome, Refused):
                        if outcome.reason is Reason.EARLY:
                            waiting[_sequence(transaction)] = encoded
                    elif not isinstance(outcome, Already | Refused):
                        chosen.append(encoded)
                        room -= len(encoded) + 4
                        if isinstance(transaction, Submit):
                            following = waiting.pop(_next_sequence(transaction), None)
        finally:
            self._state.discard()
        return tuple(chosen)

    def propose(self, candidates: Iterable[bytes], clock_ms: int, proposer: str) -> Block:
        """Builds the next block from the candidates that take effect; its time is later than the last."""
        time_ms = max(self.time_ms + 1, clock_ms)
        transactions = self.select(candidates, time_ms)
        return Block(self._next_header(transactions, time_ms, proposer), transactions)

    def _next_header(self, transactions: Sequence[bytes], time_ms: int, proposer: str) -> BlockHeader:
        return BlockHeader(
            chain_id=self.genesis.chain_id,
            height=self.height + 1,
            time_ms=time_ms,
            previous=self.last_id,
            proposer=proposer,
            count=len(transactions),
            root=transactions_root(transactions),
            state=self.state_hash(),
        )

    def _try(self, block: Block) -> list[_Applied]:
        self._require_next(block)
        context = self._context(block.header.time_ms)
        applied = []
        for number, encoded in enumerate(block.transactions):
            transaction, outcome = self._apply_one(context, encoded)
            if isinstance(outcome, Already | Refused):
                raise InvalidBlockError(BlockFault.TRANSACTION, f"number {number}, {outcome}")
            applied.append(_Applied(transaction, outcome))
        return applied

    def _hand_over(self, block: CertifiedHeader, height: int) -> None:
        if height not in self.succession.heights:
            self.succession.add(make_handover(self.freeze(), block, height))

    def _require_next(self, block: Block) -> None:
        header = block.header
        for fault, good in (
            (BlockFault.OTHER_CHAIN, header.chain_id == self.genesis.chain_id),
            (BlockFault.HEIGHT, header.height == self.height + 1),
            (BlockFault.PREVIOUS, header.previous == self.last_id),
            (BlockFault.TIME, header.time_ms > self.time_ms),
            (BlockFault.PROPOSER, self.members.index_of(header.proposer) is not None),
            (BlockFault.TOO_LARGE, len(block.transactions) <= TRANSACTIONS_MAX),
            (BlockFault.STATE, header.state == self.state_hash()),
        ):
            if not good:
                raise InvalidBlockError(fault)
        if header.count != len(block.transactions) or header.root != transactions_root(block.transactions):
            raise InvalidBlockError(BlockFault.ROOT)

    def _context(self, time_ms: int) -> Context:
        height, fixed = self.height + 1, self._fixed_members
        given = (self.genesis, self._state, self._verify, height, time_ms)
        return Context(*given, fixed_members=fixed, lacking=self._lacking)

    @staticmethod
    def _apply_one(context: Context, encoded: bytes) -> tuple[object, Outcome]:
        try:
            transaction = decode_transaction(encoded)
        except DecodeError as error:
            return None, Refused(Reason.MALFORMED, str(error))
        return transaction, apply_transaction(context, transaction)

    def _follow(self, applied: _Applied) -> None:
        """Updates the first indices of batches, by which an index is found."""
        match applied:
            case _Applied(Submit() as submit, Admitted(first_index)):
                place = (submit.signed.header.topic, submit.signed.header.partition)
                starts = self._starts.setdefault(place, [])
                starts.append(first_index)
                released = len(starts) - (self._state.kept.get(place) or 0)
                if 2 * released >= len(starts):  # not each time, since it moves the rest of the list
                    del starts[: bisect_right(starts, self.partition(*place).oldest - 1)]
            case _Applied(Signed(action=LowWater(topic, partition)), _):
                starts = self._starts[topic, partition]
                del starts[: bisect_right(starts, self.partition(topic, partition).oldest - 1)]

    def _activate(self, version: int) -> None:
        """Begins to hash the state and to judge transactions by a version, with the next block."""
        self._state.protocol.put((), Protocol(version))
        self._state.commit()
        self._hash = Leaves()
        self._hash.take(self._state, self._state.entries())

    def _prover(self) -> Callable[[str, int], KeyProof | None]:
        match self._hash:
            case Sections():
                return partial(prove_in_sections, self._hash.freeze())
            case Leaves():
                return partial(prove_in_trie, self._hash.freeze())

    # Queries.

    @property
    def protocol(self) -> Protocol:
        """The protocol version in force for the next block, and the one that is scheduled."""
        return self._state.protocol.get(()) or Protocol(1)

    @property
    def members(self) -> Members:
        """The members in force for the next block."""
        return self.members_at(self.height + 1)

    @property
    def memberships(self) -> Memberships:
        """The members at every height, as far as they are ordered; the same object until they change."""
        changes = tuple(self._state.memberships.items())
        if len(changes) != len(self._memberships.changes):
            self._memberships = Memberships(self.genesis.members, changes)
        return self._memberships

    def members_at(self, height: int) -> Members:
        """Returns the members in force at a height, as far as they are ordered."""
        return self._state.members_at(self.genesis, height)

    @property
    def pending_members(self) -> tuple[int, Members] | None:
        """The ordered members that the next block is too early for, and the height that they begin at."""
        ordered = self._state.memberships.items()
        return next((each for each in ordered if each[0] > self.height + 1), None)

    def may(self, name: str, right: Right) -> bool:
        """Returns whether a client has a right in the next block."""
        return may(self._state, self.genesis, self.height + 1, name, right)

    def access_book(self) -> AccessBook:
        """Returns the access rules alone, which later blocks leave alone."""
        book = AccessBook(self.genesis)
        book.copy(self._state)
        return book

    @property
    def is_closed(self) -> bool:
        """Whether clients need a rule for whatever they read and write in the next block."""
        return is_closed(self._state, self.height + 1)

    def rules(self) -> dict[Rule, Span]:
        """Returns all access rules, with those that were revoked."""
        return dict(list_rules(self._state))

    def roles(self) -> dict[tuple[str, str], Span]:
        """Returns the clients with their roles, with those that they had before."""
        return dict(sorted(self._state.roles.items()))

    @property
    def quota(self) -> Quota:
        """What each client may have; zeros are no limit but the ledger's own."""
        return self._state.quota

    def retention(self, topic: str) -> Retention:
        """Returns how much of each partition of a topic is kept; zeros are no limit."""
        return self._state.retentions.get(topic) or NO_RETENTION

    def topics(self) -> dict[str, Topic]:
        """Returns all topics by name."""
        return dict(sorted(self._state.topics.items()))

    def topic(self, name: str) -> Topic | None:
        """Returns a topic's policy, or None."""
        return self._state.topics.get(name)

    def partition(self, topic: str, partition: int) -> Partition:
        """Returns a partition; one without events starts at 0."""
        return self._state.partitions.get((topic, partition)) or EMPTY_PARTITION

    def cursor(self, producer: str, topic: str, partition: int) -> Cursor:
        """Returns the position of a producer in a partition, where it resumes after a restart."""
        return self._state.cursors.get((producer, topic, partition)) or FRESH_CURSOR

    def partitions(self) -> dict[tuple[str, int], Partition]:
        """Returns all partitions that have ever had an event, by topic and number."""
        return dict(sorted(self._state.partitions.items()))

    def cursors(self) -> dict[tuple[str, str, int], Cursor]:
        """Returns the positions of all producers, by producer, topic and partition."""
        return dict(sorted(self._state.cursors.items()))

    def key(self, name: str, key_epoch: int) -> Key | None:
        """Returns a client's or admin's key of one epoch, or None."""
        return self._state.keys.get((name, key_epoch))

    def owner(self, public: bytes) -> tuple[str, int] | None:
        """Returns whose key this is or was, and its epoch; None if nobody's."""
        return self._state.publics.get(public)

    def keys(self) -> dict[tuple[str, int], Key]:
        """Returns all keys that clients and admins ever had, by name and epoch."""
        return dict(sorted(self._state.keys.items()))

    def account(self, name: str) -> Account | None:
        """Returns the account of a client or admin, or None."""
        return self._state.accounts.get(name)

    def group(self, name: str) -> Group:
        """Returns a consumer group; one that nobody joined has no members and generation 0."""
        return self._state.group(name)

    def generation(self, group: str) -> int:
        """Returns the generation of a consumer group, without reading its members."""
        head = self._state.groups.get(group)
        return 0 if head is None else head.generation

    def member(self, group: str, member_id: MemberId) -> Member | None:
        """Returns a member of a consumer group, without reading the others; None if there is none."""
        return self._state.member(group, member_id)

    def assignment(self, name: str) -> Mapping[tuple[str, int], MemberId]:
        """Returns the member of a group that reads each partition."""
        return group_rules.assignment(self._state, name)

    def committed(self, group: str, topic: str, partition: int) -> int | None:
        """Returns the index where a group resumes, or None."""
        offset = self._state.offsets.get((group, topic, partition))
        return None if offset is None else offset.index

    def groups(self) -> dict[str, Group]:
        """Returns all consumer groups that anybody ever joined."""
        return {name: self.group(name) for name, _ in sorted(self._state.groups.items())}

    def commits(self, group: str) -> dict[tuple[str, int], int]:
        """Returns the index where a group resumes, for each partition with a commit."""
        return {
            (topic, partition): offset.index
            for (owner, topic, partition), offset in sorted(self._state.offsets.items())
            if owner == group
        }

    def accusations(self) -> dict[tuple[str, str], Accusation]:
        """Returns the accused by role and name, with the place of the evidence."""
        return dict(sorted(self._state.accusations.items()))

    def admissions(self, topic: str, partition: int, index: int) -> Iterator[Admission]:
        """Iterates over the admitted batches from the one that contains this index; holes are marked.

        Raises IndexError below the low-water mark.
        """
        if index < self.partition(topic, partition).low_water:
            raise IndexError(f"index {index} of {topic}-{partition} is below the low-water mark")
        starts = self._starts.get((topic, partition), [])
        for start in starts[max(0, bisect_right(starts, index) - 1) :]:
            admission = self._state.admissions.get((topic, partition, start))
            if admission is not None and index < admission.next_index:
                yield admission

    def find_conflict(self, submit: Submit) -> BatchConflict | None:
        """Returns evidence against a producer whose batch was refused for a conflict, or None."""
        admission = find_covering(self._state, submit.signed)
        if admission is None or admission.signed.header == submit.signed.header:
            return None
        if admission.signed.header.key_epoch != submit.signed.header.key_epoch:
            return None
        return BatchConflict(admission.signed, submit.signed)

    def prove_key(self, name: str, key_epoch: int) -> KeyProof | None:
        """Returns the proof that a key is in the state named by the last block's header, or None."""
        return None if self._prove is None else self._prove(name, key_epoch)


def _sequence(submit: Submit) -> tuple[str, str, int, int]:
    header = submit.signed.header
    return header.producer, header.topic, header.partition, header.first_sequence


def _next_sequence(submit: Submit) -> tuple[str, str, int, int]:
    header = submit.signed.header
    return header.producer, header.topic, header.partition, header.next_sequence
