"""Access rules: which client may read, write or administer which topics and groups.

Admins of the genesis may do everything. On an open ledger others may read and write whatever no rule
matches; on a closed ledger they need a rule for everything. A topic that a rule has ever matched stays
restricted after the rule was revoked, so that revoking a right never gives one to somebody else. The right
to administer always needs a rule.

The state before a block decides for the whole block, so a change takes effect with the next block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from veristream.kabis.ledger.tables import KeyType, Table
from veristream.kabis.protocol.actions import (
    ANY,
    EVERYBODY,
    ROLE,
    AccessAction,
    Grant,
    Operation,
    Resource,
    Revoke,
    Right,
    Rule,
    SetClosed,
    SetRole,
    patterns_of,
)
from veristream.kabis.protocol.codec import Coded
from veristream.kabis.protocol.fields import U64
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import is_name
from veristream.kabis.protocol.outcomes import Already, Done, Outcome, Reason, require

ROLES_MAX = 16
"""How many roles a client has at most, which bounds the work of a check."""

RuleKey = tuple[int, str, int, str]


@dataclass(frozen=True, slots=True)
class Span(Coded, kind="span"):
    """The blocks in which a rule or a role is in force: above one height, up to where it ended."""

    begun_height: U64
    ended_height: U64 | None = None

    def holds_at(self, height: int) -> bool:
        """Returns whether it is in force for a block of this height."""
        return self.begun_height < height and (self.ended_height is None or height <= self.ended_height)


@dataclass(frozen=True, slots=True)
class Closing(Coded, kind="closing"):
    """Whether the ledger is closed, above the height of the change."""

    closed: bool
    changed_height: U64

    def holds_at(self, height: int) -> bool:
        """Returns whether the ledger is closed for a block of this height."""
        return self.closed if self.changed_height < height else not self.closed


class AccessTables(Protocol):
    """The tables of access rules; `guards`, `lengths` and `held` are derived from `rules` and `roles`."""

    rules: Table[RuleKey, Span]
    roles: Table[tuple[str, str], Span]
    closing: Table[tuple[()], Closing]
    guards: Table[tuple[int, str], int]
    lengths: Table[tuple[int], tuple[int, ...]]
    held: Table[str, tuple[str, ...]]


@dataclass(slots=True)
class AccessBook:
    """The access rules alone, for those who follow the chain without its whole state."""

    genesis: Genesis
    rules: Table[RuleKey, Span] = field(default_factory=Table)
    roles: Table[tuple[str, str], Span] = field(default_factory=Table)
    closing: Table[tuple[()], Closing] = field(default_factory=Table)
    guards: Table[tuple[int, str], int] = field(default_factory=Table)
    lengths: Table[tuple[int], tuple[int, ...]] = field(default_factory=Table)
    held: Table[str, tuple[str, ...]] = field(default_factory=Table)

    def __post_init__(self) -> None:
        found_access(self, self.genesis)

    def take(self, height: int, action: AccessAction) -> None:
        """Notes an action that a certified block of this height contains."""
        change_access(self, height, action)

    def copy(self, tables: AccessTables) -> None:
        """Takes over all rules of other tables; this book must be new."""
        for key, span in tables.rules.items():
            self.rules.put(key, span)
        for held, span in tables.roles.items():
            self.roles.put(held, span)
        closing = tables.closing.get(())
        if closing is not None:
            self.closing.put((), closing)
        derive_access(self)

    def dump(self) -> dict[str, Any]:
        """Returns the rules as values for JSON, for `restore`."""
        closing = self.closing.get(())
        return {
            "rules": [[*key, span.begun_height, span.ended_height] for key, span in self.rules.items()],
            "roles": [[*key, span.begun_height, span.ended_height] for key, span in self.roles.items()],
            "closing": None if closing is None else [closing.closed, closing.changed_height],
        }

    def restore(self, values: dict[str, Any]) -> None:
        """Takes over what `dump` returned, into a new book; raises ValueError, KeyError or TypeError."""
        for resource, pattern, operation, who, *heights in values["rules"]:
            self.rules.put((resource, pattern, operation, who), Span(*heights))
        for name, role, *heights in values["roles"]:
            self.roles.put((name, role), Span(*heights))
        if values["closing"] is not None:
            self.closing.put((), Closing(*values["closing"]))
        derive_access(self)

    @property
    def restricts(self) -> bool:
        """Whether anybody may lack a right to read or write."""
        return next(self.guards.items(), None) is not None or self.closing.get(()) is not None

    def may(self, height: int, name: str, right: Right) -> bool:
        """Returns whether a block of this height may hold a client's use of a right."""
        return may(self, self.genesis, height, name, right)


def found_access(tables: AccessTables, genesis: Genesis) -> None:
    """Puts what the genesis says about access."""
    if genesis.closed:
        tables.closing.put((), Closing(closed=True, changed_height=0))


def is_admin(genesis: Genesis, name: str) -> bool:
    """Returns whether a name is an admin's."""
    return any(admin.name == name for admin in genesis.admins)


def may(tables: AccessTables, genesis: Genesis, height: int, name: str, right: Right) -> bool:
    """Returns whether a client has a right, for a block of this height."""
    resource = right.resource.value
    patterns = patterns_of(right.name, tables.lengths.get((resource,)) or ())
    guarded = [pattern for pattern in patterns if _is_guarded(tables, height, resource, pattern)]
    if not guarded and right.operation is not Operation.ADMINISTER and not is_closed(tables, height):
        return True
    if is_admin(genesis, name):
        return True
    names = (name, EVERYBODY, *_roles_at(tables, height, name))
    keys = ((resource, pattern, right.operation.value, who) for pattern in guarded for who in names)
    return any(span.holds_at(height) for span in map(tables.rules.get, keys) if span is not None)


def is_closed(tables: AccessTables, height: int) -> bool:
    """Returns whether the ledger is closed for a block of this height."""
    closing = tables.closing.get(())
    return closing is not None and closing.holds_at(height)


def change_access(tables: AccessTables, height: int, action: AccessAction) -> Outcome:
    """Grants or revokes a right, gives or takes a role, closes or opens the ledger."""
    match action:
        case Grant(rule):
            problem = rule.find_problem()
            require(not problem, Reason.BAD_RULE, problem)
            return _begin(tables.rules, _key_of(rule), height) or _guard(tables, height, rule)
        case Revoke(rule):
            require(tables.rules.get(_key_of(rule)) is not None, Reason.NO_SUCH_RULE, str(rule))
            return _end(tables.rules, _key_of(rule), height)
        case SetRole(name, role, held):
            return _set_role(tables, height, (name, role), held=held)
        case SetClosed(closed):
            return _set_closed(tables, height, closed=closed)


def list_rules(tables: AccessTables) -> Iterator[tuple[Rule, Span]]:
    """Iterates over all rules, in order, with those that were revoked."""
    for (resource, pattern, operation, who), span in sorted(tables.rules.items(), key=lambda item: item[0]):
        yield Rule(Resource(resource), pattern, Operation(operation), who), span


def derive_access(tables: AccessTables) -> None:
    """Fills the derived tables from the others."""
    for (resource, pattern, _, _), span in tables.rules.items():
        first = tables.guards.get((resource, pattern))
        height = span.begun_height if first is None else min(first, span.begun_height)
        _put_guard(tables, resource, pattern, height)
    for name, role in sorted(key for key, _ in tables.roles.items()):
        tables.held.put(name, (*(tables.held.get(name) or ()), role))


def _key_of(rule: Rule) -> RuleKey:
    return rule.resource.value, rule.pattern, rule.operation.value, rule.who


def _is_guarded(tables: AccessTables, height: int, resource: int, pattern: str) -> bool:
    first = tables.guards.get((resource, pattern))
    return first is not None and first < height


def _guard(tables: AccessTables, height: int, rule: Rule) -> Outcome:
    guarded = (rule.resource.value, rule.pattern)
    if tables.guards.get(guarded) is None:
        _put_guard(tables, *guarded, height)
    return Done()


def _put_guard(tables: AccessTables, resource: int, pattern: str, height: int) -> None:
    tables.guards.put((resource, pattern), height)
    if pattern.endswith(ANY):
        known = tables.lengths.get((resource,)) or ()
        tables.lengths.put((resource,), tuple(sorted({*known, len(pattern) - len(ANY)})))


def _roles_at(tables: AccessTables, height: int, name: str) -> Iterator[str]:
    for role in tables.held.get(name) or ():
        span = tables.roles.get((name, role))
        if span is not None and span.holds_at(height):
            yield ROLE + role


def _begin(spans: Table[KeyType, Span], key: KeyType, height: int) -> Already | None:
    """Puts a span in force from the next block on; returns Already if it is."""
    known = spans.get(key)
    if known is not None and known.ended_height is None:
        return Already()
    # Ended in this very block, it is in force before and after it.
    again = known is not None and known.ended_height == height and known.begun_height < height
    spans.put(key, replace(known, ended_height=None) if known is not None and again else Span(height))
    return None


def _end(spans: Table[KeyType, Span], key: KeyType, height: int) -> Outcome:
    known = spans.get(key)
    if known is None or known.ended_height is not None:
        return Already()
    spans.put(key, replace(known, ended_height=height))
    return Done()


def _set_role(tables: AccessTables, height: int, key: tuple[str, str], *, held: bool) -> Outcome:
    name, role = key
    require(is_name(name) and is_name(role), Reason.BAD_NAME, f"{name} {role}")
    if not held:
        return _end(tables.roles, key, height)
    current = []
    for other in tables.held.get(name) or ():
        span = tables.roles.get((name, other))
        if span is not None and (span.ended_height is None or span.ended_height >= height or other == role):
            current.append(other)
    require(role in current or len(current) < ROLES_MAX, Reason.TOO_MANY, f"roles of {name}")
    already = _begin(tables.roles, key, height)
    if already is None:
        for other in set(tables.held.get(name) or ()) - {*current, role}:
            tables.roles.drop((name, other))
        tables.held.put(name, tuple(sorted({*current, role})))
    return already or Done()


def _set_closed(tables: AccessTables, height: int, *, closed: bool) -> Outcome:
    known = tables.closing.get(()) or Closing(closed=False, changed_height=0)
    if known.closed == closed:
        return Already()
    # Changed back in the same block, it is as if nothing had changed.
    changed_height = 0 if known.changed_height == height else height
    tables.closing.put((), Closing(closed, changed_height))
    return Done()
