"""The input of a rule, and who may do what according to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from veristream.kabis.ledger.access import is_admin, may
from veristream.kabis.ledger.state import State
from veristream.kabis.protocol.actions import Right, to_administer, to_join, to_read
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Verify
from veristream.kabis.protocol.members import Members
from veristream.kabis.protocol.outcomes import Reason, RefusedError, require
from veristream.kabis.protocol.transactions import Evict

MemberKey = tuple[str, str, str]
Lacking = dict[MemberKey, tuple[tuple[str, ...], Right | None]]
"""The topics of members, and the first right that each lacks, if any."""


@dataclass(frozen=True, slots=True)
class Context:
    """The input of a rule: the state, and the block that holds the transaction."""

    genesis: Genesis
    state: State
    verify: Verify
    height: int
    time_ms: int
    fixed_members: bool = False
    """Whether no action may change the members."""
    counts: Counter[str] = field(default_factory=Counter)
    """How many transactions of each client took effect in this block so far."""
    lacking: Lacking = field(default_factory=dict)
    """What members of groups were found to lack; it holds for all blocks of this height."""

    @property
    def members(self) -> Members:
        """The members in force for the block."""
        return self.state.members_at(self.genesis, self.height)


def require_turn(context: Context, name: str) -> None:
    """Requires that a client, unless it is an admin, has a transaction left in this block."""
    limit = context.state.quota.transactions
    within = not limit or context.counts[name] < limit or is_admin(context.genesis, name)
    require(within, Reason.TOO_MANY, f"transactions of {name} in a block")


def has_right(context: Context, name: str, right: Right) -> bool:
    """Returns whether a client has a right in this block."""
    return may(context.state, context.genesis, context.height, name, right)


def require_admin(context: Context, name: str, topic: str | None = None) -> None:
    """Requires an admin, or somebody with the right to administer the topic."""
    if topic is None:
        require(is_admin(context.genesis, name), Reason.NOT_ADMIN, name)
    else:
        require(has_right(context, name, to_administer(topic)), Reason.NOT_ADMIN, name)


def require_right(context: Context, name: str, right: Right) -> None:
    """Requires that a client has a right in this block."""
    if not has_right(context, name, right):
        raise RefusedError(Reason.NO_RIGHT, f"{name} needs {right}")


def require_reader(context: Context, name: str, group: str, topics: Iterable[str]) -> None:
    """Requires the rights of a client that joins a group and reads these topics."""
    for right in _rights_of_member(group, topics):
        require_right(context, name, right)


def require_member(context: Context, member: MemberKey) -> None:
    """Requires that a member of a group still has the rights that it needs."""
    right = _find_lacking(context, member)
    if right is not None:
        raise RefusedError(Reason.NO_RIGHT, f"{member[1]} needs {right}")


def is_entitled(context: Context, evicted: Evict) -> bool:
    """Returns whether a member of a group still has the rights that it needs."""
    return _find_lacking(context, (evicted.group, evicted.name, evicted.instance)) is None


def _find_lacking(context: Context, member: MemberKey) -> Right | None:
    """Returns the first right that a member lacks, or None.

    A member may read many topics, and heartbeats are frequent. Rights change only from block to block, so
    they are looked up once for each block.
    """
    group, name, _ = member
    subscription = context.state.subscriptions.get(member)
    topics = () if subscription is None else subscription.topics
    known = context.lacking.get(member)
    if known is None or known[0] is not topics:
        rights = _rights_of_member(group, topics)
        known = topics, next((right for right in rights if not has_right(context, name, right)), None)
        if subscription is not None:
            context.lacking[member] = known
    return known[1]


def _rights_of_member(group: str, topics: Iterable[str]) -> Iterator[Right]:
    yield to_join(group)
    yield from map(to_read, topics)
