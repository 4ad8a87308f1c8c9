"""The rules for consumer groups: joining, leaving, committing offsets, evicting silent members."""

from __future__ import annotations

from dataclasses import replace

from veristream.kabis.ledger.groups import (
    GROUP_MEMBERS_MAX,
    SESSION_MS_MAX,
    SESSION_MS_MIN,
    Group,
    Member,
    assign,
)
from veristream.kabis.ledger.state import Index, State
from veristream.kabis.protocol.actions import CommitOffsets, JoinGroup, LeaveGroup
from veristream.kabis.protocol.genesis import is_name
from veristream.kabis.protocol.outcomes import Done, Outcome, Reason, require
from veristream.kabis.protocol.transactions import Evict

GROUPS_PER_CLIENT_MAX = 1000
NO_GROUP = Group(0, ())


def join_group(state: State, time_ms: int, name: str, action: JoinGroup) -> Outcome:
    """Adds or updates a member; a new member or new topics start a new generation."""
    require(is_name(action.group) and is_name(action.instance), Reason.BAD_NAME)
    require(SESSION_MS_MIN <= action.session_ms <= SESSION_MS_MAX, Reason.OUT_OF_RANGE, "session")
    before = state.groups.get(action.group)
    group = before or NO_GROUP
    present = group.find((name, action.instance))
    require(present is not None or len(group.members) < GROUP_MEMBERS_MAX, Reason.TOO_MANY, "members")
    if before is None:
        _count_group(state, name)
    changed = present is None or present.topics != action.topics
    member = Member(name, action.instance, action.topics, action.session_ms, time_ms)
    state.groups.put(action.group, group.replace(member, group.generation + changed))
    return Done()


def leave_group(state: State, name: str, action: LeaveGroup) -> Outcome:
    """Removes a member; its partitions go to the others."""
    group = state.groups.get(action.group) or NO_GROUP
    require(group.find((name, action.instance)) is not None, Reason.NO_SUCH_MEMBER)
    state.groups.put(action.group, group.remove((name, action.instance), group.generation + 1))
    return Done()


def evict(state: State, time_ms: int, transaction: Evict) -> Outcome:
    """Removes a member that has been silent for longer than its session."""
    group = state.groups.get(transaction.group) or NO_GROUP
    member = group.find((transaction.name, transaction.instance))
    require(member is not None, Reason.NO_SUCH_MEMBER)
    assert member is not None
    require(time_ms > member.seen_ms + member.session_ms, Reason.STILL_ALIVE)
    state.groups.put(transaction.group, group.remove(member.member_id, group.generation + 1))
    return Done()


def commit_offsets(state: State, time_ms: int, name: str, action: CommitOffsets) -> Outcome:
    """Commits offsets of a member of the current generation, for partitions assigned to it."""
    group = state.groups.get(action.group) or NO_GROUP
    member = group.find((name, action.instance))
    require(member is not None, Reason.NO_SUCH_MEMBER)
    assert member is not None
    require(action.generation == group.generation, Reason.WRONG_GENERATION, str(action.generation))
    assigned = assign(group, topic_partitions(state, group))
    for topic, partition, index in action.offsets:
        require(assigned.get((topic, partition)) == member.member_id, Reason.NOT_ASSIGNED, topic)
        require(_may_commit(state, topic, partition, index), Reason.OUT_OF_RANGE, f"{topic} {index}")
    for topic, partition, index in action.offsets:
        state.offsets.put((action.group, topic, partition), Index(index))
    state.groups.put(action.group, group.replace(replace(member, seen_ms=time_ms), group.generation))
    return Done()


def topic_changed(state: State, topic: str) -> None:
    """Starts a new generation of the groups that read a topic whose number of partitions changed."""
    for name, group in list(state.groups.items()):
        if group.reads(topic):
            state.groups.put(name, replace(group, generation=group.generation + 1))


def topic_partitions(state: State, group: Group) -> dict[str, int]:
    """Returns the number of partitions of each topic that the group reads."""
    named = {topic for member in group.members for topic in member.topics}
    found = {name: state.topics.get(name) for name in named}
    return {name: topic.partitions for name, topic in found.items() if topic is not None}


def _may_commit(state: State, topic: str, partition: int, index: int) -> bool:
    """Returns whether the index is not past the end, which the ledger knows only for validated topics."""
    policy = state.topics.get(topic)
    if policy is not None and not policy.validated:
        return True
    known = state.partitions.get((topic, partition))
    return index <= (0 if known is None else known.next_index)


def _count_group(state: State, name: str) -> None:
    account = state.accounts.get(name)
    assert account is not None, f"an action of {name} without an account"
    require(account.groups < GROUPS_PER_CLIENT_MAX, Reason.TOO_MANY, "groups")
    state.accounts.put(name, replace(account, groups=account.groups + 1))
