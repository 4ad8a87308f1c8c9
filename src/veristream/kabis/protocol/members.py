"""The members of a chain: the validators and storage parties in force at a height.

The genesis has the founding members. An admin's ordered action (`actions.SetMembers`) gives the next ones,
whole, in force from a later height on. Members in an action are encoded with their addresses, so that
clients find newcomers. The addresses of the founding members are not part of the chain: files may differ in
them, so no rule of the ledger may depend on an address.

A topic that is not validated is stored by one party. The founding storage parties share such topics by the
hash of the name, and a topic leaves its party only when that party leaves the chain, which the ledger
refuses while the party stores such topics (`ledger.membership`).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Annotated

from veristream.kabis.protocol.codec import (
    NAME_BYTES_MAX,
    PUBLIC_KEY_BYTES,
    Coded,
    Reader,
    Writer,
)
from veristream.kabis.protocol.fields import OMITTED, U16, Name, PublicKey, Signature, at_most, by
from veristream.kabis.protocol.receipts import PARTIES_MAX
from veristream.kabis.protocol.records import murmur2

ADDRESS_BYTES_MAX = 300
MEMBERS_BYTES_MAX = 1 << 20

_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{NAME_BYTES_MAX}}}")
_ADDRESS = re.compile(r"[^\s:]+:[0-9]{1,5}|\[[^\s\[\]]+\]:[0-9]{1,5}")


def is_name(name: str) -> bool:
    """Returns whether Kafka's rule for topics allows the name, as all names in Kabis must."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


class StorageMode(Enum):
    """How many storage parties there are: enough to tolerate F silent ones, or the paper's F+1."""

    TOLERANT = "2F+1"
    PAPER = "F+1"


def write_mode(writer: Writer, mode: StorageMode) -> None:
    """Appends the mode."""
    writer.flag(mode is StorageMode.PAPER)


def read_mode(reader: Reader) -> StorageMode:
    """Takes the mode."""
    return StorageMode.PAPER if reader.flag() else StorageMode.TOLERANT


@dataclass(frozen=True, slots=True)
class Party(Coded, kind="party"):
    """A validator, storage party, admin or client: name, Ed25519 key, and the address of a server.

    The address is not encoded: it is not part of the chain's identity.
    """

    name: Name
    public: PublicKey
    address: Annotated[str, OMITTED] = ""


def _write_member(writer: Writer, party: Party) -> None:
    writer.text(party.name)
    writer.public_key(party.public)
    writer.text(party.address, ADDRESS_BYTES_MAX)


def _read_member(reader: Reader) -> Party:
    return Party(reader.text(), reader.public_key(), reader.text(ADDRESS_BYTES_MAX))


Member = Annotated[Party, by(_write_member, _read_member)]
"""A party with its address in the encoding."""


class MemberRole(Enum):
    """What a member does."""

    VALIDATOR = 1
    STORAGE = 2


@dataclass(frozen=True, slots=True)
class Members(Coded, kind="members", bytes_max=MEMBERS_BYTES_MAX):
    """The validators and storage parties of a chain; votes refer to validators by their position."""

    faults: U16
    storage_mode: Annotated[StorageMode, by(write_mode, read_mode)]
    validators: Annotated[tuple[Member, ...], at_most(PARTIES_MAX)]
    storage: Annotated[tuple[Member, ...], at_most(PARTIES_MAX)]

    @property
    def validator_keys(self) -> tuple[bytes, ...]:
        """The validators' public keys, in their order."""
        return tuple(party.public for party in self.validators)

    @property
    def receipts_needed(self) -> int:
        """The number of storage receipts that a batch needs, so that one is from an honest party."""
        return self.faults + 1

    def of(self, role: MemberRole) -> tuple[Party, ...]:
        """Returns the members with a role."""
        return self.validators if role is MemberRole.VALIDATOR else self.storage

    def find(self, role: MemberRole, name: str) -> Party | None:
        """Returns the member with a role and a name, or None."""
        return next((party for party in self.of(role) if party.name == name), None)

    def index_of(self, name: str) -> int | None:
        """Returns the position of the validator with this name, or None."""
        names = (number for number, party in enumerate(self.validators) if party.name == name)
        return next(names, None)

    def find_problem(self) -> str:
        """Returns the rule that the members break, in words; empty if they break none."""
        faults, storage = self.faults, len(self.storage)
        if not 0 <= faults < PARTIES_MAX:
            return "F is out of range"
        if len(self.validators) != 3 * faults + 1:
            return f"{len(self.validators)} validators, but F = {faults} needs {3 * faults + 1}"
        if self.storage_mode is StorageMode.PAPER and storage != faults + 1:
            return f"{storage} storage parties, but F+1 is {faults + 1}"
        if self.storage_mode is StorageMode.TOLERANT and storage < 2 * faults + 1:
            return f"{storage} storage parties, but F = {faults} needs {2 * faults + 1}"
        return find_double("validators", self.validators) or find_double("storage parties", self.storage)


class Memberships:
    """The members of a chain at every height, as far as changes are ordered; never changes."""

    __slots__ = ("_all", "_begun", "founding")

    def __init__(self, founding: Members, changes: Iterable[tuple[int, Members]] = ()) -> None:
        ordered = sorted(changes, key=lambda each: each[0])
        self.founding = founding
        self._begun = [height for height, _ in ordered]
        self._all = [founding, *(members for _, members in ordered)]

    @property
    def changes(self) -> tuple[tuple[int, Members], ...]:
        """The changes: from which height which members are in force, ascending."""
        return tuple(zip(self._begun, self._all[1:], strict=True))

    def changed(self, height: int, members: Members) -> Memberships:
        """Returns the memberships with one more change."""
        return Memberships(self.founding, {**dict(self.changes), height: members}.items())

    def at(self, height: int) -> Members:
        """Returns the members in force at a height."""
        return self._all[bisect_right(self._begun, height)]

    def pending(self, height: int) -> Members | None:
        """Returns the ordered members that are not in force yet at a height."""
        number = bisect_right(self._begun, height) + 1
        return self._all[number] if number < len(self._all) else None

    def may_come(self, height: int, role: MemberRole) -> tuple[Party, ...]:
        """Returns the members with a role at a height, and those about to be, with their new keys."""
        pending = self.pending(height)
        now = self.at(height).of(role)
        return now if pending is None else (*now, *(each for each in pending.of(role) if each not in now))

    def storage_parties(self, height: int) -> tuple[Party, ...]:
        """Returns one party for each name: those in force at a height, those about to be, and former ones.

        A former party has the key it had last. Where a change names no address, the one before counts.
        """
        number = bisect_right(self._begun, height)
        addresses: dict[str, str] = {}
        for members in self._all:
            addresses |= {party.name: party.address for party in members.storage if party.address}
        found: dict[str, Party] = {}
        for members in (self._all[number], *self._all[number + 1 :], *reversed(self._all[:number])):
            for party in members.storage:
                found.setdefault(party.name, party)
        return tuple(replace(party, address=addresses.get(party.name, "")) for party in found.values())

    def storage_key(self, name: str, height: int) -> bytes | None:
        """Returns the key of a storage party at a height, or the last one that it had before."""
        for members in reversed(self._all[: bisect_right(self._begun, height) + 1]):
            party = members.find(MemberRole.STORAGE, name)
            if party is not None:
                return party.public
        return None

    def had_storage(self, name: str, public: bytes) -> bool:
        """Whether a storage party ever had a key, or is about to."""
        parties = (members.find(MemberRole.STORAGE, name) for members in self._all)
        return any(party is not None and party.public == public for party in parties)

    def has_joined(self, name: str) -> bool:
        """Whether a storage party, or its present key, is not among the founding ones."""
        named = [members.find(MemberRole.STORAGE, name) for members in self._all]
        keys = {party.public for party in named if party is not None}
        return named[0] is None or len(keys) > 1

    def storage_since(self, height: int | None = None) -> int:
        """Returns since when the storage parties of a height are the same, with their keys.

        Without a height, of the members that were ordered last. Founding ones are there since height 0.
        """
        parties = [{(party.name, party.public) for party in members.storage} for members in self._all]
        differ = (
            begin
            for begin, before, after in zip(self._begun, parties, parties[1:], strict=False)
            if before != after and (height is None or begin <= height)
        )
        return max(differ, default=0)

    def party_of(self, topic: str) -> str:
        """Returns the storage party of a topic that is not validated, the same for everybody."""
        turn, name = murmur2(topic.encode("utf-8")), ""
        for members in self._all:
            if members.find(MemberRole.STORAGE, name) is None:
                name = members.storage[turn % len(members.storage)].name
        return name


def find_double(role: str, parties: Iterable[Party]) -> str:
    """Returns why parties of a role cannot be told apart, in words; empty if they can."""
    parties = tuple(parties)
    wrong = next((party.name for party in parties if not is_name(party.name)), None)
    if wrong is not None:
        return f"{wrong!r} among the {role} is not a valid name; use letters, digits, '.', '_' and '-'"
    if len({party.name for party in parties}) < len(parties):
        return f"two {role} have the same name"
    if len({party.public for party in parties}) < len(parties):
        return f"two {role} have the same key"
    if any(len(party.public) != PUBLIC_KEY_BYTES for party in parties):
        return f"a key among the {role} is not {PUBLIC_KEY_BYTES} bytes long"
    return ""


def is_address(text: str) -> bool:
    """Returns whether the text is HOST:PORT or [HOST]:PORT."""
    return _ADDRESS.fullmatch(text) is not None and int(text.rpartition(":")[2]) <= 65535


@dataclass(frozen=True, slots=True)
class Possession:
    """The signature of a member's new key over `member_possession_bytes`."""

    role: MemberRole
    name: Name
    signature: Signature

    @property
    def place(self) -> tuple[int, str]:
        """What possessions ascend by."""
        return self.role.value, self.name


def member_possession_bytes(chain_id: str, role: MemberRole, name: str) -> bytes:
    """Returns the bytes that a new member's key signs, so that nobody enters another's key."""
    writer = Writer("member-possession")
    writer.text(chain_id)
    writer.u8(role.value)
    writer.text(name)
    return writer.to_bytes()
