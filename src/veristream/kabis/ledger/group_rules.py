"""The rules for consumer groups: joining, leaving, committing offsets, evicting silent members.

A heartbeat changes the member's `Presence` alone, whatever the number of members and topics.
"""

from __future__ import annotations

from dataclasses import replace

from veristream.kabis.ledger.groups import (
    GROUP_MEMBERS_MAX,
    SESSION_MS_MAX,
    SESSION_MS_MIN,
    Assignment,
    GroupHead,
    Presence,
    Roster,
    Subscription,
)
from veristream.kabis.ledger.state import Index, State, size_of
from veristream.kabis.protocol.actions import TOPICS_MAX, CommitOffsets, JoinGroup, LeaveGroup
from veristream.kabis.protocol.members import is_name
from veristream.kabis.protocol.outcomes import Done, Outcome, Reason, require
from veristream.kabis.protocol.transactions import Evict

GROUPS_PER_CLIENT_MAX = 1000
SUBSCRIBED_BYTES_MAX = 16 << 20
"""How much one client's members may add to the state, in all groups together, from version 2 on."""


def join_group(state: State, time_ms: int, name: str, action: JoinGroup) -> Outcome:
    """Adds or updates a member; a new member or new topics start a new generation."""
    require(is_name(action.group) and is_name(action.instance), Reason.BAD_NAME)
    require(SESSION_MS_MIN <= action.session_ms <= SESSION_MS_MAX, Reason.OUT_OF_RANGE, "session")
    require(len(action.topics) <= (state.quota.topics or TOPICS_MAX), Reason.TOO_MANY, "topics of a member")
    before = state.rosters.get(action.group)
    roster = before or Roster({})
    present = roster.subscriptions.get((name, action.instance))
    room = len(roster.subscriptions) < GROUP_MEMBERS_MAX
    require(present is not None or room, Reason.TOO_MANY, "members")
    key, subscription = (action.group, name, action.instance), Subscription(action.topics)
    if present != action.topics:
        _require_room(state, key, subscription)
    if before is None:
        _count_group(state, name)
    if present != action.topics:
        _subscribe(state, key, subscription)
        _begin_generation(state, action.group, roster.join((name, action.instance), action.topics))
    state.members.put(key, Presence(action.session_ms, time_ms))
    return Done()


def leave_group(state: State, name: str, action: LeaveGroup) -> Outcome:
    """Removes a member; its partitions go to the others."""
    key = (action.group, name, action.instance)
    require(state.members.get(key) is not None, Reason.NO_SUCH_MEMBER)
    _remove(state, key)
    return Done()


def evict(state: State, time_ms: int, transaction: Evict, *, entitled: bool) -> Outcome:
    """Removes a member that has been silent for longer than its session, or is no longer entitled."""
    key = (transaction.group, transaction.name, transaction.instance)
    member = state.members.get(key)
    require(member is not None, Reason.NO_SUCH_MEMBER)
    assert member is not None
    require(not entitled or time_ms > member.seen_ms + member.session_ms, Reason.STILL_ALIVE)
    _remove(state, key)
    return Done()


def commit_offsets(state: State, time_ms: int, name: str, action: CommitOffsets) -> Outcome:
    """Commits offsets of a member of the current generation, for partitions assigned to it."""
    key = (action.group, name, action.instance)
    member, head = state.members.get(key), state.groups.get(action.group)
    require(member is not None, Reason.NO_SUCH_MEMBER)
    assert member is not None and head is not None
    require(action.generation == head.generation, Reason.WRONG_GENERATION, str(action.generation))
    assigned = assignment(state, action.group) if action.offsets else {}
    for topic, partition, index in action.offsets:
        require(assigned.get((topic, partition)) == (name, action.instance), Reason.NOT_ASSIGNED, topic)
        require(_may_commit(state, topic, partition, index), Reason.OUT_OF_RANGE, f"{topic} {index}")
    for topic, partition, index in action.offsets:
        state.offsets.put((action.group, topic, partition), Index(index))
    state.members.put(key, replace(member, seen_ms=time_ms))
    return Done()


def topic_changed(state: State, topic: str) -> None:
    """Starts a new generation of the groups that read a topic whose number of partitions changed."""
    for name, roster in list(state.rosters.items()):
        if topic in roster.topics:
            _begin_generation(state, name, roster.renew())


def assignment(state: State, group: str) -> Assignment:
    """Returns the member of a group that reads each partition."""

    def count_partitions(topic: str) -> int | None:
        policy = state.topics.get(topic)
        return None if policy is None else policy.partitions

    roster = state.rosters.get(group)
    return {} if roster is None else roster.assign(count_partitions)


def _remove(state: State, key: tuple[str, str, str]) -> None:
    group, name, instance = key
    roster = state.rosters.get(group)
    assert roster is not None, "a member without its group"
    state.members.drop(key)
    _subscribe(state, key, None)
    _begin_generation(state, group, roster.leave((name, instance)))


def _begin_generation(state: State, group: str, roster: Roster) -> None:
    head = state.groups.get(group) or GroupHead(0)
    state.groups.put(group, GroupHead(head.generation + 1))
    state.rosters.put(group, roster)


def _may_commit(state: State, topic: str, partition: int, index: int) -> bool:
    """Returns whether the index is not past the end, which the ledger knows only for validated topics."""
    policy = state.topics.get(topic)
    if policy is not None and not policy.validated:
        return True
    known = state.partitions.get((topic, partition))
    return index <= (0 if known is None else known.next_index)


def _require_room(state: State, key: tuple[str, str, str], subscription: Subscription) -> None:
    """Refuses a subscription by which the client's members take too much of the state."""
    _, name, _ = key
    known = state.subscriptions.get(key)
    more = size_of(key, subscription) - (0 if known is None else size_of(key, known))
    # A client may have had more before version 2, which it may reduce step by step.
    fits = more <= 0 or (state.subscribed.get(name) or 0) + more <= SUBSCRIBED_BYTES_MAX
    require(state.version < 2 or fits, Reason.TOO_MANY, "bytes of subscriptions")


def _subscribe(state: State, key: tuple[str, str, str], subscription: Subscription | None) -> None:
    """Changes or removes a member's subscription, and counts it."""
    _, name, _ = key
    known, used = state.subscriptions.get(key), state.subscribed.get(name) or 0
    if known is not None:
        used -= size_of(key, known)
        state.subscriptions.drop(key)
    if subscription is not None:
        used += size_of(key, subscription)
        state.subscriptions.put(key, subscription)
    if used:
        state.subscribed.put(name, used)
    else:
        state.subscribed.drop(name)


def _count_group(state: State, name: str) -> None:
    account = state.accounts.get(name)
    assert account is not None, f"an action of {name} without an account"
    limit = min(GROUPS_PER_CLIENT_MAX, state.quota.groups or GROUPS_PER_CLIENT_MAX)
    require(account.groups < limit, Reason.TOO_MANY, "groups")
    state.accounts.put(name, replace(account, groups=account.groups + 1))
