"""Clients of the upkeep: an admin, one that keeps the chain moving, and one that wants too much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Protocol

from veristream.kabis.ledger.membership import find_new_keys
from veristream.kabis.protocol.actions import (
    Action,
    Grant,
    JoinGroup,
    Operation,
    Quota,
    Resource,
    Retention,
    Revoke,
    Rule,
    SetMembers,
    SetQuota,
    SetRetention,
    Upgrade,
)
from veristream.kabis.protocol.batch import Stream, build_batch
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.outcomes import Outcome
from veristream.kabis.protocol.receipts import StorageReceipt
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.protocol.transactions import Author, prove_membership, sign_action
from veristream_testing.simulation.chain import CHAIN, Key, key_of
from veristream_testing.simulation.clients import (
    TOPIC,
    Machine,
    Surroundings,
    serve_store,
    validator_name,
)
from veristream_testing.simulation.upkeep.plan import Agendum, Order
from veristream_testing.simulation.upkeep.turns import Turn, faults_of
from veristream_testing.simulation.world import ViolationError

ADMIN, STEADY, GREEDY = "admin0", "steady", "greedy"
OWN = "own"
INNER = "inner"
"""A group that only some may join, once an admin has ordered so."""
ADMIN_MS, STEADY_MS, GREEDY_MS = 60, 50, 90
WAITING_MAX = 5
"""How many batches of one producer may wait at a storage party."""


class Chain(Surroundings, Protocol):
    """What an actor sees of the chain."""

    def is_decided(self, transaction: bytes) -> bool:
        """Whether a block has the transaction."""

    def top(self) -> int:
        """Returns the height of the last decided block."""

    def prepare(self, turn: Turn) -> Members:
        """Returns the next members, after the machines of newcomers and next keys are prepared."""

    def members_at(self, height: int) -> Members:
        """Returns the members in force at a height."""


class Actor(Machine):
    """A client that signs actions, numbered from `number` on."""

    def __init__(self, chain: Chain, name: str, number: int) -> None:
        super().__init__(chain, name)
        self.chain = chain
        self.number = number

    def sign(self, action: Action) -> bytes:
        """Returns the action as a transaction, under the number that is next."""
        return sign_action(Author(CHAIN, self.name, 0, key_of(self.name)), self.number, action).encode()

    def next(self, action: Action) -> bytes:
        """Returns the action as a transaction, and uses up its number."""
        encoded = self.sign(action)
        self.number += 1
        return encoded

    def submit(self, transactions: list[bytes]) -> None:
        """Submits transactions, in their order, to F + 1 validators."""

        def heard(outcome: Outcome) -> None:
            """Ignores the answer; only a block determines the outcome."""

        voters = self.around.voters(self)
        for index in self.around.random.sample(voters, faults_of(len(voters)) + 1):
            for transaction in transactions:
                serve = partial(self.around.serve_submit, index, transaction)
                self.around.ask(self, validator_name(index), serve, heard, lambda why: None)


class Admin(Actor):
    """Orders one thing after the other, each until it is decided."""

    def __init__(self, chain: Chain, topic: bytes, agenda: Sequence[Agendum]) -> None:
        super().__init__(chain, ADMIN, number=1)
        self._topic = topic
        self.waiting = list(agenda)
        self._next_members: Members | None = None
        self._sent = {topic}
        self._passed = 0  # the height at which a planned upgrade is too late

    def begin(self) -> None:
        """Begins some time after the chain."""
        self.later(2 * ADMIN_MS, self._go_on)

    @property
    def is_done(self) -> bool:
        """Whether everything is ordered."""
        return not self.waiting

    def _go_on(self) -> None:
        if any(map(self.chain.is_decided, self._sent)):
            if self._topic not in self._sent:
                del self.waiting[0]
                self._next_members = None
            self._sent.clear()
            self.number += 1
        if not self.waiting and not self._sent:
            return
        if not self._sent or 0 < self._passed <= self.chain.top() + 1:
            self._sent.add(self.sign(self._make(self.waiting[0])))
        self.submit(sorted(self._sent))
        self.later(ADMIN_MS, self._go_on)

    def _change(self, turn: Turn) -> Action:
        """Returns the change, with the signatures of new keys."""
        if self._next_members is None:
            self._next_members = self.chain.prepare(turn)
        after, top = self._next_members, self.chain.top()
        height = top + 1 + turn.ahead + self.around.random.choice((0, 2, 3))
        self._passed = height - 1
        new = find_new_keys(self.chain.members_at(top + 1), after)
        proofs = [prove_membership(CHAIN, role, party.name, Key(party.public)) for role, party in new]
        return SetMembers(after, height, tuple(sorted(proofs, key=lambda each: each.place)))

    def _make(self, order: Agendum) -> Action:
        self._passed = 0
        draw = self.around.random.choice
        match order:
            case Turn():
                return self._change(order)
            case None:
                self._passed = self.chain.top() + draw((3, 4, 6))
                return Upgrade(2, self._passed)
            case Order.RETAIN:
                return SetRetention(TOPIC, Retention(draw((1, 2, 3)), 0))
            case Order.RETAIN_BY_AGE:
                return SetRetention(TOPIC, Retention(0, draw((50, 200))))
            case Order.LIMIT:
                return SetQuota(Quota(3, 1, draw((1, 2))))
            case Order.LIMIT_LESS:
                return SetQuota(Quota(5, 0, 3))
            case Order.GUARD:
                return Grant(_to_join(STEADY))
            case Order.ADMIT:
                return Grant(_to_join(GREEDY))
            case Order.DISMISS:
                return Revoke(_to_join(GREEDY))


class Steady(Actor):
    """Orders something again and again, so that heights pass."""

    def __init__(self, chain: Chain) -> None:
        super().__init__(chain, STEADY, number=1)

    def begin(self) -> None:
        """Begins with the chain."""
        self.later(STEADY_MS, self._go_on)

    def _go_on(self) -> None:
        self.submit([self.next(JoinGroup(STEADY, "0", (TOPIC,), 1_000 + self.number))])
        self.later(STEADY_MS, self._go_on)


class Greedy(Actor):
    """Wants more groups, topics, transactions, rights and room at storage parties than anybody may have."""

    def __init__(self, chain: Chain) -> None:
        super().__init__(chain, GREEDY, number=1)
        self.refused = 0
        self.kept: dict[str, int] = {}
        self._batches = self._make_batches()

    def begin(self) -> None:
        """Begins with the chain."""
        self.later(GREEDY_MS, self._go_on)

    def wish(self) -> bytes:
        """Returns one more transaction, which may be one too many."""
        joins = (
            JoinGroup(INNER, str(self.number), (), 1_000),
            JoinGroup(f"g{self.number}", "0", (), 1_000),
            JoinGroup(INNER, "0", ("another", TOPIC), 1_000 + self.number),
        )
        return self.next(self.around.random.choice(joins))

    def excess(self) -> tuple[bytes, ...]:
        """Returns transactions of which each alone may be allowed, or one that a later block may allow."""
        if self.around.random.random() < 0.5:
            return (self.next(JoinGroup(INNER, "0", (), 1_000 + self.number)),)
        return tuple(self.next(JoinGroup(OWN, "0", (), 1_000 + self.number)) for _ in range(4))

    def _go_on(self) -> None:
        if self.number == 1:
            self.submit([self.next(JoinGroup(OWN, "0", (), 1_000))])
        self.submit([self.wish() for _ in range(self.around.random.choice((1, 2, 3)))])
        for name in self.around.stores:
            self._store(name, next(self._batches))
        self.later(GREEDY_MS, self._go_on)

    def _make_batches(self) -> Iterator[bytes]:
        """Makes batches that are never submitted, so that they wait for ever."""
        stream, last, sequence = Stream(CHAIN, TOPIC, 0, self.name, 0), ZERO_DIGEST, 0
        while True:
            batch = build_batch(stream, sequence, last, [encode_leaf(None, b"kept")], key_of(self.name))
            last, sequence = batch.digest(), sequence + 1
            yield batch.encode()

    def _store(self, name: str, data: bytes) -> None:
        around, store = self.around, self.around.stores[name]

        def heard(receipt: StorageReceipt) -> None:
            self.kept[name] = self.kept.get(name, 0) + 1
            if store.lie is None and self.kept[name] > WAITING_MAX:
                raise ViolationError(f"quota: {name} keeps {self.kept[name]} batches that wait")

        def failed(why: str) -> None:
            self.refused += 1

        around.ask(self, name, partial(serve_store, around, store, data, self.name), heard, failed)


def _to_join(who: str) -> Rule:
    return Rule(Resource.GROUP, INNER, Operation.READ, who)
