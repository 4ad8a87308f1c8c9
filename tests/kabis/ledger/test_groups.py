"""Consumer groups on the ledger: one owner for each partition, commits by owners only, silent ones go."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kabis.chain import Chain, batch_of, chain_with_topic, submitted
from tests.kabis.ledger.test_submit import refused
from tests.kabis.strategies import patient
from veristream.kabis.ledger import group_rules
from veristream.kabis.ledger.groups import Group, Member, assign
from veristream.kabis.protocol.actions import CommitOffsets, JoinGroup, LeaveGroup, SetTopic, Upgrade
from veristream.kabis.protocol.outcomes import Done, Reason
from veristream.kabis.protocol.transactions import Evict

SESSION_MS = 30_000


def join(
    instance: str = "one", topics: tuple[str, ...] = ("orders",), session_ms: int = SESSION_MS
) -> JoinGroup:
    return JoinGroup("readers", instance, topics, session_ms)


def commit(*offsets: tuple[str, int, int], instance: str = "one", generation: int = 2) -> CommitOffsets:
    return CommitOffsets("readers", instance, generation, offsets)


@pytest.fixture
def chain() -> Chain:
    """Three events in partition 0 of `orders`; alice reads partition 0, bob partition 1; generation 2."""
    chain = chain_with_topic()
    chain.block(submitted(batch_of(b"a", b"b", b"c")))
    chain.block(chain.act("alice", join()), chain.act("bob", join()))
    return chain


def test_partitions_are_shared_out(chain: Chain) -> None:
    assert chain.ledger.group("readers").generation == 2
    assert chain.ledger.assignment("readers") == {
        ("orders", 0): ("alice", "one"),
        ("orders", 1): ("bob", "one"),
    }
    assert chain.ledger.assignment("nobody") == {}


def test_one_member_is_what_the_whole_group_says(chain: Chain) -> None:
    ledger = chain.ledger
    group = ledger.group("readers")
    assert [member.member_id for member in group.members] == [("alice", "one"), ("bob", "one")]
    for member in group.members:
        assert ledger.member("readers", member.member_id) == member
    assert ledger.generation("readers") == group.generation == 2
    assert ledger.member("readers", ("alice", "two")) is None
    assert (ledger.generation("nobody"), ledger.member("nobody", ("alice", "one"))) == (0, None)


def test_members_come_and_go(chain: Chain) -> None:
    chain.block(chain.act("alice", LeaveGroup("readers", "one")))
    assert chain.ledger.group("readers").generation == 3
    assert set(chain.ledger.assignment("readers").values()) == {("bob", "one")}
    chain.block(chain.act("bob", join("two")))
    assert set(chain.ledger.assignment("readers").values()) == {("bob", "one"), ("bob", "two")}


def test_the_generation_grows_only_when_something_changes(chain: Chain) -> None:
    chain.block(chain.act("alice", join()))
    assert chain.ledger.group("readers").generation == 2
    chain.block(chain.act("alice", join(topics=("logs", "orders"))))
    assert chain.ledger.group("readers").generation == 3
    chain.block(chain.act("admin", SetTopic("logs", 2, validated=False)))
    assert chain.ledger.group("readers").generation == 4
    chain.block(chain.act("admin", SetTopic("logs", 2, validated=True)))
    chain.block(chain.act("admin", SetTopic("unread", 2, validated=True)))
    assert chain.ledger.group("readers").generation == 4


def test_commits_are_kept_and_may_go_back(chain: Chain) -> None:
    chain.block(chain.act("alice", commit(("orders", 0, 3))))
    assert chain.ledger.committed("readers", "orders", 0) == 3
    chain.block(chain.act("alice", commit(("orders", 0, 1))))
    assert chain.ledger.committed("readers", "orders", 0) == 1
    assert chain.ledger.committed("readers", "orders", 1) is None
    chain.block(
        chain.act("alice", LeaveGroup("readers", "one")), chain.act("bob", LeaveGroup("readers", "one"))
    )
    assert chain.ledger.committed("readers", "orders", 0) == 1


@pytest.mark.parametrize(
    ("action", "reason"),
    [
        (commit(("orders", 1, 0)), Reason.NOT_ASSIGNED),
        (commit(("orders", 2, 0)), Reason.NOT_ASSIGNED),
        (commit(("logs", 0, 0)), Reason.NOT_ASSIGNED),
        (commit(("orders", 0, 4)), Reason.OUT_OF_RANGE),
        (commit(("orders", 0, 1), generation=1), Reason.WRONG_GENERATION),
        (commit(("orders", 0, 1), instance="two"), Reason.NO_SUCH_MEMBER),
        (LeaveGroup("readers", "two"), Reason.NO_SUCH_MEMBER),
        (LeaveGroup("others", "one"), Reason.NO_SUCH_MEMBER),
        (JoinGroup("re/aders", "one", (), SESSION_MS), Reason.BAD_NAME),
        (join("o n e"), Reason.BAD_NAME),
        (join(session_ms=999), Reason.OUT_OF_RANGE),
        (join(session_ms=3_600_001), Reason.OUT_OF_RANGE),
    ],
)
def test_what_a_member_may_not_do(
    chain: Chain, action: CommitOffsets | LeaveGroup | JoinGroup, reason: Reason
) -> None:
    assert refused(chain.preview(chain.act("alice", action))) is reason


def test_a_commit_is_refused_whole(chain: Chain) -> None:
    assert refused(chain.preview(chain.act("alice", commit(("orders", 0, 1), ("orders", 1, 0))))) is (
        Reason.NOT_ASSIGNED
    )
    assert chain.ledger.committed("readers", "orders", 0) is None


def test_nobody_acts_for_another_member(chain: Chain) -> None:
    chain.block(chain.act("alice", join("two")))
    generation = chain.ledger.group("readers").generation
    owner = chain.ledger.assignment("readers")["orders", 0]
    assert owner == ("alice", "one")
    theft = chain.act("alice", commit(("orders", 0, 1), instance="two", generation=generation))
    assert refused(chain.preview(theft)) is Reason.NOT_ASSIGNED


def test_an_unvalidated_topic_is_committed_to_whatever_index(chain: Chain) -> None:
    chain.block(chain.act("bob", join(topics=("logs",))))
    chain.block(chain.act("bob", commit(("logs", 0, 1 << 40), generation=3)))
    assert chain.ledger.committed("readers", "logs", 0) == 1 << 40


def test_a_silent_member_is_evicted_by_the_blocks_time(chain: Chain) -> None:
    joined_ms = chain.ledger.time_ms
    chain.block(chain.act("bob", commit()), clock_ms=joined_ms + 20_000)
    chain.block(chain.act("admin", SetTopic("a", 1, validated=True)), clock_ms=joined_ms + SESSION_MS - 10)
    assert chain.clock_ms == joined_ms + SESSION_MS
    assert refused(chain.preview(Evict("readers", "alice", "one"))) is Reason.STILL_ALIVE
    assert refused(chain.preview(Evict("readers", "alice", "two"))) is Reason.NO_SUCH_MEMBER
    assert chain.block(Evict("readers", "alice", "one"), clock_ms=joined_ms + SESSION_MS + 1) == (Done(),)
    assert refused(chain.preview(Evict("readers", "bob", "one"))) is Reason.STILL_ALIVE
    assert set(chain.ledger.assignment("readers").values()) == {("bob", "one")}


def test_groups_and_members_have_limits(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_rules, "GROUPS_PER_CLIENT_MAX", 1)
    monkeypatch.setattr(group_rules, "GROUP_MEMBERS_MAX", 2)
    another = JoinGroup("another", "one", (), SESSION_MS)
    assert refused(chain.preview(chain.act("alice", another))) is Reason.TOO_MANY
    assert chain.preview(chain.act("bob", another)) == Done()
    assert refused(chain.preview(chain.act("alice", join("two")))) is Reason.TOO_MANY
    assert chain.preview(chain.act("alice", join(topics=()))) == Done()


LARGE = tuple(f"{number:03}" + "x" * 197 for number in range(100))
"""Topics of 20,000 bytes, and some more for their lengths."""


def test_the_members_of_a_client_have_room_in_all_groups_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_rules, "SUBSCRIBED_BYTES_MAX", 50_000)
    chain = chain_with_topic()
    for group in ("first", "second"):
        chain.block(chain.act("alice", JoinGroup(group, "one", LARGE, SESSION_MS)))
    third = JoinGroup("third", "one", LARGE, SESSION_MS)
    for refusing in (third, JoinGroup("first", "two", LARGE, SESSION_MS)):
        assert refused(chain.preview(chain.act("alice", refusing))) is Reason.TOO_MANY
    assert chain.preview(chain.act("bob", third)) == Done(), "each client has its own room"
    assert chain.preview(chain.act("alice", JoinGroup("first", "one", LARGE, 60_000))) == Done()
    for action in (LeaveGroup("first", "one"), JoinGroup("second", "one", LARGE[:1], SESSION_MS)):
        chain.block(chain.act("alice", action))
        assert chain.preview(chain.act("alice", third)) == Done(), "there is room again"
        chain.block(chain.act("alice", JoinGroup("first", "one", LARGE, SESSION_MS)))


def test_members_without_topics_need_room_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_rules, "SUBSCRIBED_BYTES_MAX", 1_000)
    chain = chain_with_topic()
    chain.block(*(chain.act("alice", JoinGroup("g", f"i{number}", (), SESSION_MS)) for number in range(5)))
    sixth = JoinGroup("g", "i5", (), SESSION_MS)
    assert refused(chain.preview(chain.act("alice", sixth))) is Reason.TOO_MANY
    chain.block(chain.act("alice", LeaveGroup("g", "i0")))
    assert chain.preview(chain.act("alice", sixth)) == Done()


def test_a_client_that_had_more_before_version_2_may_have_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_rules, "SUBSCRIBED_BYTES_MAX", 10_000)
    chain = chain_with_topic(version=1)
    for instance in ("one", "two"):
        assert chain.block(chain.act("alice", join(instance, LARGE))) == (Done(),)
    chain.block(chain.act("admin", Upgrade(2, chain.ledger.height + 2)))
    chain.block()
    assert refused(chain.preview(chain.act("alice", join("three")))) is Reason.TOO_MANY
    assert chain.block(chain.act("alice", join("one", LARGE[1:]))) == (Done(),)
    assert chain.block(chain.act("alice", LeaveGroup("readers", "one"))) == (Done(),)


MEMBERS = st.dictionaries(
    st.tuples(st.sampled_from("abc"), st.sampled_from("12")), st.sets(st.sampled_from("xyz")), max_size=5
)


@given(MEMBERS, st.dictionaries(st.sampled_from("xyz"), st.integers(1, 9)))
@patient
def test_every_partition_has_one_subscriber_and_loads_are_even(
    members: dict[tuple[str, str], set[str]], partitions: dict[str, int]
) -> None:
    listed = tuple(
        Member(*member_id, tuple(sorted(topics)), SESSION_MS, 0)
        for member_id, topics in sorted(members.items())
    )
    assigned = assign(Group(1, listed), partitions)
    read = {topic for topics in members.values() for topic in topics} & set(partitions)
    assert set(assigned) == {(topic, number) for topic in read for number in range(partitions[topic])}
    assert all(topic in members[owner] for (topic, _), owner in assigned.items())
    if len({frozenset(topics) for topics in members.values()}) == 1 and assigned:
        loads = Counter(assigned.values())
        spread = sorted(loads[member.member_id] for member in listed)
        assert (
            all(later - earlier <= 1 for earlier, later in pairwise(spread)) and spread[-1] - spread[0] <= 1
        )
