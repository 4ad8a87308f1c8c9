"""The input of a rule, and who may do what according to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from veristream.kabis.ledger.access import is_admin, may
from veristream.kabis.ledger.state import State
from veristream.kabis.protocol.actions import Right, to_administer, to_join, to_read
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Verify
from veristream.kabis.protocol.outcomes import Reason, require
from veristream.kabis.protocol.transactions import Evict


@dataclass(frozen=True, slots=True)
class Context:
    """The input of a rule: the state, and the block that holds the transaction."""

    genesis: Genesis
    state: State
    verify: Verify
    height: int
    time_ms: int
    counts: Counter[str] = field(default_factory=Counter)
    """How many transactions of each client took effect in this block so far."""


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
    require(has_right(context, name, right), Reason.NO_RIGHT, f"{name} needs {right}")


def require_reader(context: Context, name: str, group: str, topics: Iterable[str]) -> None:
    """Requires the rights of a member of a group that reads these topics."""
    for right in _rights_of_member(group, topics):
        require_right(context, name, right)


def is_entitled(context: Context, evicted: Evict) -> bool:
    """Returns whether a member of a group still has the rights that it needs."""
    topics = topics_of(context.state, (evicted.group, evicted.name, evicted.instance))
    rights = _rights_of_member(evicted.group, topics)
    return all(has_right(context, evicted.name, right) for right in rights)


def topics_of(state: State, member: tuple[str, str, str]) -> tuple[str, ...]:
    """Returns the topics that a member of a group reads; none if there is no such member."""
    subscription = state.subscriptions.get(member)
    return () if subscription is None else subscription.topics


def _rights_of_member(group: str, topics: Iterable[str]) -> tuple[Right, ...]:
    return (to_join(group), *map(to_read, topics))
