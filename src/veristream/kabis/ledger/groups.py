"""Consumer groups: the ledger alone determines which member reads which partition.

Members, topics and partitions are on the ledger, and the assignment is a function of them, so no
coordinator can assign a partition to two members.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heapify, heapreplace
from types import MappingProxyType
from typing import Annotated

from veristream.kabis.protocol.actions import TOPICS_MAX
from veristream.kabis.protocol.codec import Coded, Encoded
from veristream.kabis.protocol.fields import U32, U64, Name, at_most

GROUP_MEMBERS_MAX = 1000
SESSION_MS_MIN = 1_000
SESSION_MS_MAX = 3_600_000

MemberId = tuple[str, str]
"""A client's name and the instance of its consumer."""


@dataclass(frozen=True, slots=True)
class Member(Encoded, kind="member"):
    """A consumer in a group; `seen_ms` is the time of the block with its last action.

    Protocol version 1 hashes the encoding; version 2 has the parts in leaves of their own.
    """

    name: Name
    instance: Name
    topics: Annotated[tuple[Name, ...], at_most(TOPICS_MAX)]
    session_ms: U32
    seen_ms: U64

    @property
    def member_id(self) -> MemberId:
        """The member's identity within its group."""
        return self.name, self.instance


@dataclass(frozen=True, slots=True)
class Group(Encoded, kind="group"):
    """Members in ascending order of id; the generation grows whenever the assignment may change."""

    generation: U64
    members: Annotated[tuple[Member, ...], at_most(GROUP_MEMBERS_MAX)]


@dataclass(frozen=True, slots=True)
class GroupHead(Coded, kind="group-head"):
    """A group apart from its members; the generation grows whenever the assignment may change."""

    generation: U64


@dataclass(frozen=True, slots=True)
class Presence(Coded, kind="presence"):
    """A member's session, and the time of the block with its last action: all that a heartbeat changes."""

    session_ms: U32
    seen_ms: U64


@dataclass(frozen=True, slots=True)
class Subscription(Coded, kind="subscription"):
    """The topics that a member reads."""

    topics: Annotated[tuple[Name, ...], at_most(TOPICS_MAX)]


Assignment = Mapping[tuple[str, int], MemberId]


class Roster:
    """Who reads which topics in one generation of a group; it computes the assignment once.

    It stays the same object until members, their topics or the partitions of these topics change.
    """

    __slots__ = ("_assignment", "_topics", "subscriptions")

    def __init__(self, subscriptions: Mapping[MemberId, tuple[str, ...]]) -> None:
        self.subscriptions = subscriptions
        self._topics: frozenset[str] | None = None
        self._assignment: Assignment | None = None

    @property
    def topics(self) -> frozenset[str]:
        """All topics that a member reads."""
        if self._topics is None:
            self._topics = frozenset().union(*self.subscriptions.values())
        return self._topics

    def join(self, member_id: MemberId, topics: tuple[str, ...]) -> Roster:
        """Returns the roster with this member, or with other topics for it."""
        return Roster({**self.subscriptions, member_id: topics})

    def leave(self, member_id: MemberId) -> Roster:
        """Returns the roster without this member."""
        return Roster({each: topics for each, topics in self.subscriptions.items() if each != member_id})

    def renew(self) -> Roster:
        """Returns the same members, with an assignment that is yet to be computed."""
        return Roster(self.subscriptions)

    def assign(self, count_partitions: Callable[[str], int | None]) -> Assignment:
        """Returns the member that reads each partition, given the number of partitions of a topic."""
        if self._assignment is None:
            counted = {topic: count_partitions(topic) for topic in self.topics}
            partitions = {topic: count for topic, count in counted.items() if count is not None}
            self._assignment = _share_out(self.subscriptions, partitions)
        return self._assignment


def assign(group: Group, partitions: Mapping[str, int]) -> Assignment:
    """Assigns each partition of the subscribed topics to a member.

    `partitions` is the number of partitions of each topic. Partitions are assigned in ascending order, each
    to the subscriber with the fewest so far; ties go to the lowest id.
    """
    return _share_out({member.member_id: member.topics for member in group.members}, partitions)


def _share_out(
    subscriptions: Mapping[MemberId, tuple[str, ...]], partitions: Mapping[str, int]
) -> Assignment:
    readers: dict[str, list[MemberId]] = {}
    for member_id, topics in subscriptions.items():
        for topic in topics:
            if topic in partitions:
                readers.setdefault(topic, []).append(member_id)
    loads = dict.fromkeys(subscriptions, 0)
    assigned: dict[tuple[str, int], MemberId] = {}
    for topic in sorted(readers):
        by_load = [(loads[member_id], member_id) for member_id in readers[topic]]
        heapify(by_load)
        for partition in range(partitions[topic]):
            load, member_id = by_load[0]
            heapreplace(by_load, (load + 1, member_id))
            loads[member_id] = load + 1
            assigned[topic, partition] = member_id
    return MappingProxyType(assigned)
