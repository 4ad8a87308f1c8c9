"""Plans a change of the members: the whole next membership, from what an admin wants. Pure.

One change is one ordered action, so everything that must change together is planned together: to tolerate
one more faulty party, three validators are added at once, and the storage parties that they need.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import assert_never

from veristream.errors import ModelError, suggest
from veristream.kabis.protocol.members import (
    MemberRole,
    Members,
    Party,
    StorageMode,
    is_address,
    is_name,
)

ROLES = {MemberRole.VALIDATOR: "validator", MemberRole.STORAGE: "storage party"}


@dataclass(frozen=True, slots=True)
class Replacement:
    """A new party takes the place of one in force, in the same role."""

    old: str
    new: Party


@dataclass(frozen=True, slots=True)
class Addition:
    """New parties join."""

    newcomers: tuple[tuple[MemberRole, Party], ...]


@dataclass(frozen=True, slots=True)
class Removal:
    """Parties leave."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rotation:
    """A party gets a new key."""

    name: str
    public: bytes


Change = Replacement | Addition | Removal | Rotation


def plan_change(members: Members, change: Change) -> Members:
    """Returns the next members; raises ModelError with what to do if they would break a rule."""
    match change:
        case Replacement(old, new):
            role, before = find_member(members, old)
            _require_new(members, [(role, new)])
            parties = {role: _exchange(members.of(role), before, new)}
        case Addition(newcomers):
            _require_new(members, newcomers)
            parties = {role: members.of(role) + _with_role(role, newcomers) for role in MemberRole}
        case Removal(names):
            leaving = [find_member(members, name) for name in dict.fromkeys(names)]
            parties = {role: _without(members.of(role), _with_role(role, leaving)) for role in MemberRole}
        case Rotation(name, public):
            role, before = find_member(members, name)
            _require_new_key(members, role, name, public)
            parties = {role: _exchange(members.of(role), before, changed(before, public=public))}
        case _:
            assert_never(change)
    validators = parties.get(MemberRole.VALIDATOR, members.validators)
    storage = parties.get(MemberRole.STORAGE, members.storage)
    planned = Members(_count_faults(members, validators), members.storage_mode, validators, storage)
    _require_storage(members, planned)
    problem = planned.find_problem()
    if problem:
        raise ModelError(problem, hint="veristream kabis member list shows the members in force")
    return planned


def find_member(members: Members, name: str) -> tuple[MemberRole, Party]:
    """Returns the role and the party of a member; raises ModelError if there is none of this name."""
    for role in MemberRole:
        party = members.find(role, name)
        if party is not None:
            return role, party
    names = [party.name for role in MemberRole for party in members.of(role)]
    raise ModelError(
        f"{name!r} is not a member of the chain",
        hint=suggest(name, names, f"the members are {', '.join(names)}"),
    )


def _exchange(parties: tuple[Party, ...], old: Party, new: Party) -> tuple[Party, ...]:
    return tuple(new if party == old else party for party in parties)


def _without(parties: tuple[Party, ...], leaving: tuple[Party, ...]) -> tuple[Party, ...]:
    return tuple(party for party in parties if party not in leaving)


def _with_role(role: MemberRole, parties: Iterable[tuple[MemberRole, Party]]) -> tuple[Party, ...]:
    return tuple(party for its, party in parties if its is role)


def _require_new(members: Members, newcomers: Iterable[tuple[MemberRole, Party]]) -> None:
    """Names are unique among all members, since each party has a folder of its name."""
    names = {party.name for role in MemberRole for party in members.of(role)}
    for role, party in newcomers:
        if not is_name(party.name):
            raise ModelError(
                f"{party.name!r} is not a valid name", hint="use letters, digits, '.', '_' and '-'"
            )
        if party.name in names:
            raise ModelError(
                f"there is a member {party.name} already",
                hint="choose another name; `veristream kabis member rotate` replaces the key of a member",
            )
        if not is_address(party.address):
            raise ModelError(
                f"the address of {party.name} is not HOST:PORT: {party.address!r}",
                hint="give the address at which all others reach it",
            )
        _require_new_key(members, role, party.name, party.public)
        names.add(party.name)


def _require_new_key(members: Members, role: MemberRole, name: str, public: bytes) -> None:
    owner = next((party.name for party in members.of(role) if party.public == public), None)
    if owner is not None:
        raise ModelError(
            f"{owner} has this key already",
            hint=f"make a new one for {name}: veristream kabis member key --help says how",
        )


def _count_faults(members: Members, validators: tuple[Party, ...]) -> int:
    """Returns F of the next members; raises ModelError unless there are 3F + 1 validators."""
    count, faults = len(validators), members.faults
    if count and not (count - 1) % 3:
        return (count - 1) // 3
    raise ModelError(
        f"the number of validators must be 3F + 1, not {count}",
        hint="replace one with `veristream kabis member replace`;"
        f" or go from {3 * faults + 1} to {3 * faults + 4}, which tolerate {_say(faults + 1)},"
        " by adding three in one command" + _say_fewer(faults),
    )


def _say_fewer(faults: int) -> str:
    if not faults:
        return ""
    return f"; or to {3 * faults - 2}, which tolerate {_say(faults - 1)}, by removing three"


def _say(faults: int) -> str:
    return {0: "no faulty one", 1: "one faulty one"}.get(faults, f"{faults} faulty ones")


def _require_storage(before: Members, planned: Members) -> None:
    faults, count = planned.faults, len(planned.storage)
    is_paper = planned.storage_mode is StorageMode.PAPER
    needed, rule = (faults + 1, "F + 1") if is_paper else (2 * faults + 1, "at least 2F + 1")
    if count == needed or (count > needed and not is_paper):
        return
    difference = needed - count
    if difference < 0:
        do = f"remove {-difference} in the same command"
    elif planned.faults > before.faults:
        do = f"add {difference} more in the same command, such as storage-{count + 1}"
    else:
        do = "add or replace one instead"
    raise ModelError(
        f"{len(planned.validators)} validators need {rule} storage parties, that is {needed}, not {count}",
        hint=do,
    )
