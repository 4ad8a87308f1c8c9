"""Access rules on the ledger: rights, refusals, patterns, roles, heights, and no way around them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest

from tests.kabis.chain import Chain, batch_of, certificate_for, key_of, make_genesis, submitted
from tests.kabis.ledger.test_submit import refused
from veristream.kabis.ledger import access, rules
from veristream.kabis.ledger.access import AccessBook
from veristream.kabis.ledger.event_receipts import CertifiedHeader
from veristream.kabis.ledger.ledger import InvalidBlockError, Ledger
from veristream.kabis.ledger.snapshot import Snapshot, restore
from veristream.kabis.protocol import actions as act
from veristream.kabis.protocol import transactions as tx
from veristream.kabis.protocol.actions import (
    Operation,
    Resource,
    Rule,
    to_administer,
    to_join,
    to_read,
    to_write,
)
from veristream.kabis.protocol.blocks import Block, transactions_root
from veristream.kabis.protocol.outcomes import Already, Done, Outcome, Reason, Refused
from veristream.kabis.protocol.transactions import prove_possession

SESSION_MS = 30_000
READ, WRITE, ADMINISTER = Operation.READ, Operation.WRITE, Operation.ADMINISTER


def on_topic(pattern: str, operation: Operation, who: str) -> Rule:
    return Rule(Resource.TOPIC, pattern, operation, who)


def on_group(pattern: str, who: str) -> Rule:
    return Rule(Resource.GROUP, pattern, READ, who)


def make_chain(*, closed: bool) -> Chain:
    """A chain with the topic `orders` of two partitions."""
    chain = Chain(Ledger(replace(make_genesis(), closed=closed)))
    chain.block(chain.act("admin", act.SetTopic("orders", 2, validated=True)))
    return chain


@pytest.fixture
def opened() -> Chain:
    return make_chain(closed=False)


@pytest.fixture
def closed() -> Chain:
    return make_chain(closed=True)


def grant(chain: Chain, *granted: Rule) -> None:
    chain.block(*(chain.act("admin", act.Grant(rule)) for rule in granted))


def revoke(chain: Chain, *revoked: Rule) -> None:
    chain.block(*(chain.act("admin", act.Revoke(rule)) for rule in revoked))


def join(chain: Chain, name: str, *topics: str) -> tx.Signed:
    return chain.act(name, act.JoinGroup("readers", "one", topics or ("orders",), SESSION_MS))


def commit(chain: Chain, name: str, index: int) -> tx.Signed:
    generation = chain.ledger.group("readers").generation
    return chain.act(name, act.CommitOffsets("readers", "one", generation, (("orders", 0, index),)))


def missing(outcome: Outcome) -> str:
    """The detail of a refusal for want of a right."""
    assert isinstance(outcome, Refused) and outcome.reason is Reason.NO_RIGHT, outcome
    return outcome.detail


# The finding: a stranger in a group takes the events of the others.


def test_a_stranger_cannot_commit_the_end_of_a_group(opened: Chain) -> None:
    grant(opened, on_group("readers", "alice"))
    opened.block(submitted(batch_of(*(b"event" for _ in range(100)))))
    assert missing(opened.preview(join(opened, "bob"))) == "bob needs read on the group readers"
    opened.block(join(opened, "alice"))
    assert opened.preview(commit(opened, "bob", 100)) != Done()
    assert set(opened.ledger.assignment("readers").values()) == {("alice", "one")}
    assert opened.ledger.committed("readers", "orders", 0) is None


def test_without_rules_everybody_may_as_before(opened: Chain) -> None:
    opened.block(join(opened, "bob"), submitted(batch_of(b"a")))
    assert opened.ledger.may("bob", to_read("orders")) and opened.ledger.may("bob", to_join("readers"))
    assert not opened.ledger.is_closed and opened.ledger.rules() == {}


# Each right.


def test_only_those_with_the_right_to_write_submit(closed: Chain) -> None:
    batch = submitted(batch_of(b"a"))
    assert missing(closed.preview(batch)) == "alice needs write on the topic orders"
    grant(closed, on_topic("orders", WRITE, "bob"), on_topic("orders", READ, "alice"))
    assert missing(closed.preview(batch)) == "alice needs write on the topic orders"
    grant(closed, on_topic("orders", WRITE, "alice"))
    closed.block(batch)


def test_a_batch_that_was_admitted_stays_so_after_the_right_is_gone(opened: Chain) -> None:
    batch, rule = submitted(batch_of(b"a")), on_topic("orders", WRITE, "alice")
    grant(opened, rule)
    opened.block(batch)
    revoke(opened, rule)
    assert opened.preview(batch) == Already()


def test_a_member_needs_the_right_to_read_the_group_and_each_topic(closed: Chain) -> None:
    closed.block(closed.act("admin", act.SetTopic("payments", 1, validated=True)))
    grant(closed, on_group("readers", "bob"), on_topic("orders", READ, "bob"))
    both = join(closed, "bob", "orders", "payments")
    assert missing(closed.preview(both)) == "bob needs read on the topic payments"
    closed.block(join(closed, "bob"))


def test_who_administers_a_topic_changes_it_and_nothing_else(closed: Chain) -> None:
    grant(closed, on_topic("orders", ADMINISTER, "alice"), on_topic("orders", WRITE, "alice"))
    batch = batch_of(b"a", b"b")
    closed.block(submitted(batch))
    closed.block(closed.act("alice", act.SetTopic("orders", 3, validated=True)))
    closed.block(closed.act("alice", act.Hole("orders", 0, 0, batch.digest())))
    closed.block(closed.act("alice", act.LowWater("orders", 0, 2)))
    closed.block(closed.act("alice", act.SetRetention("orders", act.Retention(5, 0))))
    other = closed.preview(closed.act("alice", act.SetTopic("payments", 1, validated=True)))
    assert refused(other) is Reason.NOT_ADMIN
    rule = on_topic("orders", READ, "bob")
    assert refused(closed.preview(closed.act("alice", act.Grant(rule)))) is Reason.NOT_ADMIN


def test_an_open_ledger_lets_nobody_administer(opened: Chain) -> None:
    change = opened.act("alice", act.SetTopic("orders", 9, validated=True))
    assert refused(opened.preview(change)) is Reason.NOT_ADMIN


def test_admins_always_may(closed: Chain) -> None:
    closed.block(submitted(batch_of(b"a", producer="admin")))
    closed.block(join(closed, "admin"))


# Revocation.


def test_a_member_that_lost_a_right_is_refused_and_may_be_evicted_or_leave(closed: Chain) -> None:
    grant(closed, on_group("*", "bob"), on_topic("orders", READ, "bob"))
    closed.block(join(closed, "bob"))
    assert refused(closed.preview(tx.Evict("readers", "bob", "one"))) is Reason.STILL_ALIVE
    revoke(closed, on_topic("orders", READ, "bob"))
    assert missing(closed.preview(commit(closed, "bob", 0))) == "bob needs read on the topic orders"
    heartbeat = closed.act("bob", act.CommitOffsets("readers", "one", 1, ()))
    assert missing(closed.preview(heartbeat)) == "bob needs read on the topic orders"
    assert closed.preview(closed.act("bob", act.LeaveGroup("readers", "one"))) == Done()
    closed.block(tx.Evict("readers", "bob", "one"))
    assert closed.ledger.assignment("readers") == {}


def test_changes_take_effect_with_the_next_block(opened: Chain) -> None:
    rule = on_topic("orders", WRITE, "bob")
    first, second = batch_of(b"a"), batch_of(b"b", producer="bob")
    # The block of the rule still admits alice, whom it excludes.
    opened.block(opened.act("admin", act.Grant(rule)), submitted(first))
    third = submitted(batch_of(b"c", sequence=1, previous=first.digest()))
    assert missing(opened.preview(third)) == "alice needs write on the topic orders"
    # The block of the revocation still admits bob.
    opened.block(opened.act("admin", act.Revoke(rule)), submitted(second))
    fourth = submitted(batch_of(b"d", sequence=1, previous=second.digest(), producer="bob"))
    assert missing(opened.preview(fourth)) == "bob needs write on the topic orders"


def test_revoking_the_last_rule_opens_nothing(opened: Chain) -> None:
    rule = on_topic("orders", WRITE, "bob")
    grant(opened, rule)
    revoke(opened, rule)
    assert not opened.ledger.may("alice", to_write("orders"))
    grant(opened, on_topic("orders", WRITE, "*"))
    assert opened.ledger.may("alice", to_write("orders"))


def test_a_rule_that_is_revoked_and_granted_in_one_block_stays_in_force(closed: Chain) -> None:
    rule = on_topic("orders", WRITE, "alice")
    grant(closed, rule)
    batch = submitted(batch_of(b"a"))
    closed.block(closed.act("admin", act.Revoke(rule)), closed.act("admin", act.Grant(rule)), batch)
    assert closed.ledger.may("alice", to_write("orders"))
    revoke(closed, rule)
    closed.block(closed.act("admin", act.Grant(rule)), closed.act("admin", act.Revoke(rule)))
    assert not closed.ledger.may("alice", to_write("orders"))


def test_closing_and_opening(opened: Chain) -> None:
    batch = submitted(batch_of(b"a"))
    opened.block(opened.act("admin", act.SetClosed(True)), batch)
    assert opened.ledger.is_closed
    assert not opened.ledger.may("bob", to_read("orders"))
    assert opened.preview(opened.act("admin", act.SetClosed(True))) == Already()
    opened.block(opened.act("admin", act.SetClosed(False)), opened.act("admin", act.SetClosed(True)))
    assert opened.ledger.is_closed
    opened.block(opened.act("admin", act.SetClosed(False)))
    assert opened.ledger.may("bob", to_read("orders"))


# Patterns, roles, and what makes no sense.


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("orders", {"orders"}),
        ("orders*", {"orders", "orders.eu"}),
        ("ord*", {"orders", "orders.eu", "ord"}),
        ("*", {"orders", "orders.eu", "ord", "payments"}),
        ("Orders*", set()),
    ],
)
def test_patterns(closed: Chain, pattern: str, matches: set[str]) -> None:
    grant(closed, on_topic(pattern, READ, "bob"))
    names = {"orders", "orders.eu", "ord", "payments"}
    assert {name for name in names if closed.ledger.may("bob", to_read(name))} == matches
    assert not any(closed.ledger.may("bob", to_write(name)) for name in names)
    assert not closed.ledger.may("bob", to_join("orders"))


def test_roles(closed: Chain) -> None:
    grant(closed, on_topic("orders", READ, "role:auditors"))
    assert not closed.ledger.may("bob", to_read("orders"))
    closed.block(closed.act("admin", act.SetRole("bob", "auditors", held=True)))
    assert closed.ledger.may("bob", to_read("orders")) and not closed.ledger.may("alice", to_read("orders"))
    closed.block(closed.act("admin", act.SetRole("bob", "auditors", held=False)))
    assert not closed.ledger.may("bob", to_read("orders"))
    assert closed.preview(closed.act("admin", act.SetRole("bob", "auditors", held=False))) == Already()


def test_a_client_cannot_pose_as_a_role_or_as_everybody(closed: Chain) -> None:
    for name in ("role:auditors", "*"):
        key = key_of(name)
        possession = prove_possession(closed.ledger.genesis.chain_id, name, 0, key)
        registration = closed.act("admin", act.RegisterKey(name, 0, key.public, possession))
        assert refused(closed.preview(registration)) is Reason.BAD_NAME


def test_roles_have_a_limit_that_old_ones_do_not_count_for(
    closed: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "ROLES_MAX", 2)
    for role in ("a", "b"):
        closed.block(closed.act("admin", act.SetRole("bob", role, held=True)))
    third = closed.act("admin", act.SetRole("bob", "c", held=True))
    assert refused(closed.preview(third)) is Reason.TOO_MANY
    closed.block(closed.act("admin", act.SetRole("bob", "a", held=False)))
    closed.block(closed.act("admin", act.SetRole("bob", "c", held=True)))
    assert set(closed.ledger.roles()) == {("bob", "b"), ("bob", "c")}


@pytest.mark.parametrize(
    ("rule", "what"),
    [
        (on_topic("a*b", READ, "bob"), "neither a name, nor a prefix"),
        (on_topic("", READ, "bob"), "neither a name, nor a prefix"),
        (on_topic("..", READ, "bob"), "neither a name, nor a prefix"),
        (on_topic("orders", READ, ""), "neither a client"),
        (on_topic("orders", READ, "role:"), "neither a client"),
        (on_topic("orders", READ, "a b"), "neither a client"),
        (Rule(Resource.GROUP, "readers", WRITE, "bob"), "the only right on a group is to read"),
        (Rule(Resource.GROUP, "readers", ADMINISTER, "bob"), "the only right on a group is to read"),
    ],
)
def test_rules_that_make_no_sense(opened: Chain, rule: Rule, what: str) -> None:
    outcome = opened.preview(opened.act("admin", act.Grant(rule)))
    assert isinstance(outcome, Refused) and outcome.reason is Reason.BAD_RULE
    assert what in outcome.detail


def test_the_name_of_a_role_fits_into_a_transaction() -> None:
    assert "neither a client" in on_topic("orders", READ, "role:" + "x" * 245).find_problem()
    assert not on_topic("orders", READ, "role:" + "x" * 244).find_problem()


def test_granting_and_revoking_twice(opened: Chain) -> None:
    rule = on_topic("orders", READ, "bob")
    assert refused(opened.preview(opened.act("admin", act.Revoke(rule)))) is Reason.NO_SUCH_RULE
    grant(opened, rule)
    assert opened.preview(opened.act("admin", act.Grant(rule))) == Already()
    revoke(opened, rule)
    assert opened.preview(opened.act("admin", act.Revoke(rule))) == Already()


@pytest.mark.parametrize(
    "action",
    [
        act.Grant(on_topic("orders", READ, "bob")),
        act.Revoke(on_topic("orders", READ, "bob")),
        act.SetRole("bob", "auditors", held=True),
        act.SetClosed(True),
        act.SetQuota(act.Quota(1, 1, 1)),
    ],
)
def test_version_1_has_no_access_rules(action: act.Action) -> None:
    chain = Chain(Ledger(make_genesis(version=1)))
    assert refused(chain.preview(chain.act("admin", action))) is Reason.OLD_VERSION


# Other views of the same rules.


def test_a_snapshot_keeps_them_and_a_book_follows_them(closed: Chain) -> None:
    book = AccessBook(closed.ledger.genesis)
    rule = on_topic("ord*", READ, "role:auditors")
    actions = [
        act.Grant(rule),
        act.SetRole("bob", "auditors", held=True),
        act.Grant(on_topic("orders", WRITE, "alice")),
        act.Revoke(on_topic("orders", WRITE, "alice")),
        act.SetClosed(False),
    ]
    for action in actions:
        closed.block(closed.act("admin", action))
        book.take(closed.ledger.height, action)
    snapshot = Snapshot.take(closed.ledger)
    closed.block()
    chunks = list(snapshot.chunks())
    block = closed.blocks[-1]
    following = CertifiedHeader(block.header, certificate_for(block))
    manifest = snapshot.describe(following, len(chunks))
    restored = restore(closed.ledger.genesis, manifest, chunks)
    height = restored.height + 1
    for name in ("alice", "bob", "admin"):
        for right in (to_read("orders"), to_write("orders"), to_administer("orders"), to_write("logs")):
            expected = closed.ledger.may(name, right)
            assert restored.may(name, right) == book.may(height, name, right) == expected, (name, right)
    assert restored.rules() == closed.ledger.rules() and len(restored.rules()) == 2


# No way around: every kind of transaction, by somebody without any right.

FREE = {
    act.RotateKey: "a client's own key",
    act.RevokeKey: "a client's own key, or else only admins",
    act.LeaveGroup: "leaving takes nothing from others",
    tx.Skip: "all parties with receipts have signed it",
    tx.Evict: "the ledger knows that the member is silent or not entitled",
    tx.BatchConflict: "evidence proves itself",
    tx.VoteConflict: "evidence proves itself",
}
"""The kinds that need no right, and why."""


def make_attempts(chain: Chain) -> dict[type, tx.Transaction]:
    """A transaction by bob, who has no right, of every kind that needs one."""
    batch = batch_of(b"a")
    chain.block(submitted(batch))
    rule = on_topic("orders", READ, "alice")
    new = key_of("carol")
    possession = prove_possession(chain.ledger.genesis.chain_id, "carol", 0, new)
    attempts: list[act.Action] = [
        act.SetTopic("orders", 5, validated=True),
        act.RegisterKey("carol", 0, new.public, possession),
        act.JoinGroup("readers", "two", ("orders",), SESSION_MS),
        act.CommitOffsets("readers", "one", chain.ledger.group("readers").generation, ()),
        act.LowWater("orders", 0, 1),
        act.Hole("orders", 0, 0, batch.digest()),
        act.Upgrade(3, 1000),
        act.SetRetention("orders", act.Retention(1, 0)),
        act.Grant(on_topic("orders", READ, "bob")),
        act.Revoke(rule),
        act.SetRole("bob", "auditors", held=True),
        act.SetClosed(False),
        act.SetQuota(act.Quota(9, 9, 9)),
        act.SetMembers(chain.ledger.genesis.members, chain.ledger.height + 5, ()),
    ]
    signed = {type(action): chain.act("bob", action) for action in attempts}
    return {tx.Submit: submitted(batch_of(b"b", producer="bob")), **signed}


def find_ways_around() -> set[str]:
    """The kinds of transactions that take effect, or get further than the rule on rights, without any."""
    chain = make_chain(closed=True)
    granted = (on_group("readers", "bob"), on_topic("orders", READ, "bob"))
    grant(chain, *granted, on_topic("orders", WRITE, "alice"), on_topic("orders", READ, "alice"))
    chain.block(join(chain, "bob"))
    revoke(chain, *granted)
    attempts = make_attempts(chain)
    kinds = {*get_args(act.Action), *get_args(tx.Transaction)} - {tx.Signed}
    assert attempts.keys() | FREE.keys() == kinds and not attempts.keys() & FREE.keys()
    denied = (Reason.NO_RIGHT, Reason.NOT_ADMIN)
    around = set()
    for kind, attempt in attempts.items():
        outcome = chain.ledger.preview(attempt.encode(), chain.clock_ms)
        if not isinstance(outcome, Refused) or outcome.reason not in denied:
            around.add(kind.__name__)
    return around


def test_no_kind_of_transaction_gets_around_the_rules() -> None:
    assert find_ways_around() == set()


@pytest.mark.parametrize(
    ("check", "way"),
    [
        ("require_right", {"Submit"}),
        ("require_reader", {"JoinGroup"}),
        ("require_member", {"CommitOffsets"}),
        ("require_admin", {"SetTopic", "LowWater", "Hole", "SetRetention", "Grant"}),
    ],
)
def test_a_path_that_forgets_the_rules_is_found(
    check: str, way: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: Callable[..., None] = lambda *_: None  # noqa: E731
    monkeypatch.setattr(rules, check, forgotten)
    assert find_ways_around() >= way


# Quotas.


def test_quotas_limit_topics_groups_and_transactions(opened: Chain) -> None:
    opened.block(
        opened.act("admin", act.SetTopic("payments", 1, validated=True)),
        opened.act("admin", act.SetQuota(act.Quota(groups=1, topics=1, transactions=2))),
    )
    assert opened.ledger.quota == act.Quota(1, 1, 2)
    assert refused(opened.preview(join(opened, "bob", "orders", "payments"))) is Reason.TOO_MANY
    opened.block(join(opened, "bob"))
    other = opened.act("bob", act.JoinGroup("others", "one", ("orders",), SESSION_MS))
    assert refused(opened.preview(other)) is Reason.TOO_MANY
    unlimited = act.SetQuota(act.Quota(0, 0, 0))
    opened.block(opened.act("admin", unlimited))
    opened.block(join(opened, "bob", "orders", "payments"), other_number(opened, other))
    assert opened.preview(opened.act("admin", unlimited)) == Already()


def other_number(chain: Chain, transaction: tx.Signed) -> tx.Signed:
    """The same action with the next number."""
    return chain.act(transaction.author, transaction.action)


def test_a_block_holds_only_so_many_transactions_of_a_client(opened: Chain) -> None:
    opened.block(opened.act("admin", act.SetQuota(act.Quota(0, 0, transactions=2))))
    first = batch_of(b"a")
    second = batch_of(b"b", sequence=1, previous=first.digest())
    third = batch_of(b"c", sequence=2, previous=second.digest())
    alice = [submitted(batch).encode() for batch in (first, second, third)]
    bob = join(opened, "bob").encode()
    admin = [
        opened.act("admin", act.SetTopic(name, 1, validated=True)).encode() for name in ("a", "b", "c")
    ]
    block = opened.ledger.propose([*alice, *admin, bob], opened.clock_ms, "v0")
    assert block.transactions == (*alice[:2], *admin, bob), "admins have no quota"
    too_many = Block(
        replace(block.header, count=3, root=transactions_root(alice)), transactions=tuple(alice)
    )
    with pytest.raises(InvalidBlockError, match="transactions of alice in a block"):
        opened.ledger.check(too_many)
    opened.ledger.apply(block)
    assert opened.ledger.propose(alice[2:], opened.clock_ms, "v0").transactions == (alice[2],)


def test_a_path_that_does_not_count_is_found(opened: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    opened.block(opened.act("admin", act.SetQuota(act.Quota(0, 0, transactions=1))))
    paths = {
        "Submit": [submitted(batch_of(b"x", partition=number)) for number in (0, 1)],
        "Signed": [join(opened, "alice"), join(opened, "alice", "logs")],
    }

    def escaping() -> set[str]:
        proposed = {
            name: opened.ledger.propose([each.encode() for each in both], opened.clock_ms, "v0")
            for name, both in paths.items()
        }
        return {name for name, block in proposed.items() if len(block.transactions) > 1}

    assert escaping() == set()
    monkeypatch.setattr(rules, "require_turn", lambda *_: None)
    assert escaping() == set(paths)
