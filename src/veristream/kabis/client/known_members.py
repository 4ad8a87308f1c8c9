"""What a folder knows of the members of its chain, beside the genesis: `members.json`.

Whoever follows the chain with the folder's keys writes it. It has all handovers from the founding members
on, so a client that was away finds the members of today even if no founding one is left. Keys count only as
the handovers prove them, which is verified whenever the file is read. A change that is ordered but not yet
proved is in it too, so that a cluster on one machine knows which parties to start.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import replace as changed
from functools import lru_cache
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.ledger.certified import ReceiptError
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.succession import Handover, Succession
from veristream.kabis.log.disk.files import failure, replace
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.members import MemberRole, Members, Party

_LOGGER = logging.getLogger(__name__)

FILE = "members.json"
FORMAT = "members/1"


@dataclass(frozen=True, slots=True)
class Seat:
    """A party that is, was or will be a member, with the key that it has now, had last or will have.

    It is in force from the height `begin` on, and no longer from `end` on; None if it stays.
    """

    role: MemberRole
    party: Party
    begin: int
    end: int | None = None

    def is_former(self, height: int) -> bool:
        """Whether it has left at this height."""
        return self.end is not None and self.end <= height


@dataclass(frozen=True, slots=True)
class KnownMembers:
    """The members after the block of a height: each set by the height from which it is in force.

    `handovers` prove them all, except one that may be pending.
    """

    height: int
    sets: tuple[tuple[int, Members], ...]
    handovers: tuple[Handover, ...] = ()

    @property
    def in_force(self) -> Members:
        """The members in force for the block after `height`."""
        return [members for begin, members in self.sets if begin <= self.height + 1][-1]

    @property
    def pending(self) -> tuple[int, Members] | None:
        """The members that are ordered and not in force yet, and their first height."""
        begin, members = self.sets[-1]
        return (begin, members) if begin > self.height + 1 else None

    @property
    def latest(self) -> Members:
        """The members that were ordered last, in force or not."""
        return self.sets[-1][1]

    def seats(self) -> tuple[Seat, ...]:
        """Returns all parties that ever were members or will be, in the order in which they came."""
        seats: dict[tuple[MemberRole, str], Seat] = {}
        for begin, members in self.sets:
            found = {(role, party.name): party for role in MemberRole for party in members.of(role)}
            for place, seat in seats.items():
                if place not in found and seat.end is None:
                    seats[place] = changed(seat, end=begin)
            for place, party in found.items():
                known = seats.get(place)
                stays = known is not None and known.end is None
                is_early = stays and begin > self.height + 1  # a new key that does not count yet
                now = known.party if known and is_early else party
                seats[place] = Seat(place[0], now, known.begin if known and stays else begin)
        return tuple(seats.values())

    def find(self, name: str) -> Seat | None:
        """Returns the seat of a name."""
        return next((seat for seat in self.seats() if seat.party.name == name), None)


def know_founding(genesis: Genesis) -> KnownMembers:
    """Returns what the genesis alone says."""
    return KnownMembers(0, ((0, genesis.members),))


def know_ledger(ledger: Ledger) -> KnownMembers:
    """Returns what a ledger says, with the addresses of its local genesis."""
    handovers = ledger.succession.handovers
    return KnownMembers(
        ledger.height, _arrange(ledger.genesis, handovers, ledger.pending_members), handovers
    )


def _arrange(
    genesis: Genesis, handovers: tuple[Handover, ...], pending: tuple[int, Members] | None
) -> tuple[tuple[int, Members], ...]:
    sets = {0: genesis.members} | {each.height: each.members for each in handovers}
    return tuple((sets | ({pending[0]: pending[1]} if pending else {})).items())


class MembersFileError(ModelError):
    """The file does not say who the members of this chain are."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} does not belong to this chain or is damaged: {why}",
            hint="delete it: the next command that reads the ledger writes it again",
        )


def load_members(path: Path, genesis: Genesis) -> KnownMembers:
    """Returns what the file says, or the genesis without a file; raises MembersFileError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return know_founding(genesis)
    except OSError as error:
        raise EnvironmentFailure(f"cannot read {path}: {error.strerror}") from error
    try:
        return _decode(data, genesis)
    except (ValueError, KeyError, TypeError, DecodeError, ReceiptError, RecursionError) as error:
        raise MembersFileError(path, str(error)) from error


def load_succession(path: Path, genesis: Genesis) -> Succession:
    """Returns the members that the file proves."""
    return Succession.verified(genesis, load_members(path, genesis).handovers, verify_signature)


def find_handovers(path: Path | None, genesis: Genesis) -> tuple[Handover, ...]:
    """Returns the changes that the file proves; logs a damaged file, and returns none.

    A party can do without them as long as somebody is left whom its own ledger knows.
    """
    if path is None:
        return ()
    try:
        return load_members(path, genesis).handovers
    except MembersFileError as error:
        _LOGGER.warning("%s", error.message)
        return ()


def is_known_key(path: Path, genesis: Genesis, role: MemberRole, name: str, public: bytes) -> bool:
    """Whether the file says that this is a member's present key; raises MembersFileError."""
    member = load_members(path, genesis).in_force.find(role, name)
    return member is not None and member.public == public


def note_members(path: Path, ledger: Ledger) -> KnownMembers:
    """Updates the file if the ledger knows other members than it, and later; returns the newer of both.

    There is no file until a change is ordered.
    """
    fresh, genesis = know_ledger(ledger), ledger.genesis
    if _find_older(path, genesis, fresh) is None:
        return fresh
    with _locked(path):  # another process may have written meanwhile
        known = _find_older(path, genesis, fresh)
        if known is not None and _is_news(known, fresh):
            replace(path, _encode(genesis, fresh))
    return fresh


def _find_older(path: Path, genesis: Genesis, fresh: KnownMembers) -> KnownMembers | None:
    """Returns what the file knows if that is older and differs."""
    try:
        known = load_members(path, genesis)
    except MembersFileError:  # the ledger is right
        known = know_founding(genesis)
    return known if known.height <= fresh.height and _is_news(known, fresh) else None


def _is_news(known: KnownMembers, fresh: KnownMembers) -> bool:
    return (known.sets, known.handovers, known.pending) != (fresh.sets, fresh.handovers, fresh.pending)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = path.with_name(f"{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise failure(error, lock) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _encode(genesis: Genesis, known: KnownMembers) -> bytes:
    pending = known.pending
    proved = {each.height for each in known.handovers}
    fields: dict[str, object] = {
        "kabis": FORMAT,
        "chain_id": genesis.chain_id,
        "height": known.height,
        "handovers": [each.encode().hex() for each in known.handovers],
    }
    if pending is not None and pending[0] not in proved:
        fields["pending"] = {"height": pending[0], "members": pending[1].encode().hex()}
    return json.dumps(fields, indent=1).encode() + b"\n"


@lru_cache(maxsize=4)
def _decode(data: bytes, genesis: Genesis) -> KnownMembers:
    fields = json.loads(data)
    if not isinstance(fields, Mapping) or fields["kabis"] != FORMAT:
        raise ValueError(f'it does not say "kabis": "{FORMAT}"')
    if fields["chain_id"] != genesis.chain_id:
        raise ValueError(f"it is about the chain {fields['chain_id']!r}")
    height = fields["height"]
    if type(height) is not int or height < 0:
        raise ValueError("height is not a number")
    handovers = tuple(Handover.decode(bytes.fromhex(each)) for each in fields["handovers"])
    Succession.verified(genesis, handovers, verify_signature)
    pending = fields.get("pending")
    if pending is not None:
        begin, members = pending["height"], Members.decode(bytes.fromhex(pending["members"]))
        problem = members.find_problem()
        if problem or type(begin) is not int or begin <= max([0, *(each.height for each in handovers)]):
            raise ValueError(problem or "the pending change is not after all others")
        pending = (begin, members)
    return KnownMembers(height, _arrange(genesis, handovers, pending), handovers)
