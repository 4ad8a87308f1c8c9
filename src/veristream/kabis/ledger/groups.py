"""Consumer groups: the ledger alone determines which member reads which partition.

Members, topics and partitions are on the ledger, and the assignment is a function of them, so no
coordinator can assign a partition to two members.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from heapq import heapify, heapreplace
from types import MappingProxyType
from typing import Annotated

from veristream.kabis.protocol.actions import TOPICS_MAX
from veristream.kabis.protocol.codec import Encoded
from veristream.kabis.protocol.fields import U32, U64, Name, at_most

GROUP_MEMBERS_MAX = 1000
SESSION_MS_MIN = 1_000
SESSION_MS_MAX = 3_600_000

MemberId = tuple[str, str]
"""A client's name and the instance of its consumer."""


@dataclass(frozen=True, slots=True)
class Member(Encoded, kind="member"):
    """A consumer in a group; `seen_ms` is the time of the block with its last action."""

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

    def find(self, member_id: MemberId) -> Member | None:
        """Returns the member with this id, or None."""
        return next((member for member in self.members if member.member_id == member_id), None)

    def replace(self, member: Member, generation: int) -> Group:
        """Returns the group with this member added, or replacing the one with the same id."""
        others = self.remove(member.member_id, generation).members
        return Group(generation, tuple(sorted((*others, member), key=lambda each: each.member_id)))

    def remove(self, member_id: MemberId, generation: int) -> Group:
        """Returns the group without this member."""
        return Group(generation, tuple(each for each in self.members if each.member_id != member_id))

    def reads(self, topic: str) -> bool:
        """Returns whether a member subscribes to the topic."""
        return any(topic in member.topics for member in self.members)


def assign(group: Group, partitions: Mapping[str, int]) -> Mapping[tuple[str, int], MemberId]:
    """Assigns each partition of the subscribed topics to a member.

    `partitions` is the number of partitions of each topic. Partitions are assigned in ascending order, each
    to the subscriber with the fewest so far; ties go to the lowest id.
    """
    members = tuple((member.member_id, member.topics) for member in group.members)
    subscribed = {topic for _, topics in members for topic in topics}
    counts = tuple((topic, partitions[topic]) for topic in sorted(subscribed) if topic in partitions)
    return _assign(members, counts)


@lru_cache(maxsize=256)
def _assign(
    members: tuple[tuple[MemberId, tuple[str, ...]], ...], counts: tuple[tuple[str, int], ...]
) -> Mapping[tuple[str, int], MemberId]:
    # Cached, because every commit of a member needs the assignment, which rarely changes.
    loads = {member_id: 0 for member_id, _ in members}
    assigned: dict[tuple[str, int], MemberId] = {}
    for topic, partitions in counts:
        by_load = [(loads[member_id], member_id) for member_id, topics in members if topic in topics]
        heapify(by_load)
        for partition in range(partitions):
            load, member_id = by_load[0]
            heapreplace(by_load, (load + 1, member_id))
            loads[member_id] = load + 1
            assigned[topic, partition] = member_id
    return MappingProxyType(assigned)
