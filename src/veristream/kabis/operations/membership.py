"""Changes the members of a chain as its admin: makes keys, orders the change, starts who joins.

On a cluster of one machine, the new parties' keys are made here, and the supervisor starts the parties once
the change is ordered. A party of another machine makes its own key; the admin gets its public part, the
proof that the party has it, and the address.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import partial
from operator import attrgetter
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.client.administration import Replica
from veristream.kabis.client.changes import Change, plan_change
from veristream.kabis.client.following import Progress
from veristream.kabis.client.known_members import KnownMembers, know_ledger, note_members
from veristream.kabis.cluster import processes
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster, StartOptions
from veristream.kabis.cluster.folder import ADMIN, KEY, ClusterFolder, adopt_key, make_party_key
from veristream.kabis.cluster.status import ANSWER_S
from veristream.kabis.cometbft.addresses import is_cometbft
from veristream.kabis.operations.issuing import certify_newcomer
from veristream.kabis.protocol.actions import SetMembers
from veristream.kabis.protocol.codec import PUBLIC_KEY_BYTES
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import SignatureError, verify
from veristream.kabis.protocol.members import (
    MemberRole,
    Members,
    Party,
    Possession,
    is_name,
    member_possession_bytes,
)
from veristream.kabis.protocol.transactions import prove_membership
from veristream.kabis.storage.client import StorageClient
from veristream.kabis.storage.messages import Standing
from veristream.kabis.wire.handshake import Role
from veristream.kabis.wire.ports import HOST, draw_ports

MARGIN_BLOCKS = 30
"""How many blocks ahead a change is in force by default: the action itself must get into one before."""
IN_FORCE_S = 60.0
"""How long to wait for that height."""
COPIED_S, COPY_LOOK_S = 60.0, 0.5
"""How long to wait until storage parties that joined have copied what is kept; how often to look."""
STARTED_S = 5.0
"""How long a supervisor may take to start a party; after that, the command starts it."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a party's operator gives the admin: its public key, the proof of having it, its address."""

    public: bytes
    possession: bytes
    address: str = ""


@dataclass(frozen=True, slots=True)
class Joining:
    """A party with a new key, and the proof that it has it."""

    role: MemberRole
    party: Party
    possession: Possession


@dataclass(frozen=True, slots=True)
class Ordered:
    """A change on the ledger: who joins, gets a new key or leaves, and from which height on."""

    height: int
    before: Members
    after: Members

    @property
    def joining(self) -> list[str]:
        """The parties that were no members before."""
        return _names_of(self.after, self.before)

    @property
    def leaving(self) -> list[tuple[MemberRole, str]]:
        """The parties that are no members afterwards."""
        left = {*_names_of(self.before, self.after)}
        return [
            (role, party.name)
            for role in MemberRole
            for party in self.before.of(role)
            if party.name in left
        ]


def _names_of(some: Members, others: Members) -> list[str]:
    known = {party.name for role in MemberRole for party in others.of(role)}
    return [party.name for role in MemberRole for party in some.of(role) if party.name not in known]


# Keys


def find_role(name: str, role: MemberRole | None = None) -> MemberRole:
    """Returns the role that the name says unless it is given; raises ModelError if neither does."""
    if role is not None:
        return role
    for each, prefix in ((MemberRole.VALIDATOR, "validator-"), (MemberRole.STORAGE, "storage-")):
        if name.startswith(prefix):
            return each
    raise ModelError(
        f"the name {name!r} does not say what the party does",
        hint="call it validator-N or storage-N, or give --role validator or --role storage",
    )


def join_here(folder: ClusterFolder, role: MemberRole, name: str, *, is_rotation: bool = False) -> Joining:
    """Makes the folder and the key of a party of this machine; keeps a key that is there."""
    known, path = folder.members(), folder.party(name)
    seat, member = known.find(name), known.in_force.find(role, name)
    if is_rotation and member is not None:
        adopt_key(path, member.public)  # of the rotation before
    address = seat.party.address if seat is not None else f"{HOST}:{draw_ports(1)[0]}"
    made = make_key(path, folder.genesis(), role, Party(name, b"", address), is_next=is_rotation)
    certify_newcomer(Cluster(folder), made.party)
    return made


def join_elsewhere(genesis: Genesis, role: MemberRole, name: str, offer: Offer) -> Joining:
    """Takes a party that has made its key itself; raises ModelError if it does not prove to have it."""
    try:
        verify(offer.public, member_possession_bytes(genesis.chain_id, role, name), offer.possession)
    except SignatureError as error:
        raise ModelError(
            f"--possession of {name} does not prove that it has the key of --public",
            hint="take both from one run of `veristream kabis member key` for this chain, name and role",
        ) from error
    return Joining(role, Party(name, offer.public, offer.address), Possession(role, name, offer.possession))


def make_key(
    path: Path, genesis: Genesis, role: MemberRole, party: Party, *, is_next: bool = False
) -> Joining:
    """Makes a party's key in its folder, or the one that will replace it; keeps one that is there."""
    if not is_name(party.name):
        raise ModelError(
            f"{party.name!r} is not a valid name", hint="use letters, digits, '.', '_' and '-'"
        )
    key = make_party_key(path, is_next=is_next)
    possession = prove_membership(genesis.chain_id, role, party.name, key)
    return Joining(role, changed(party, public=key.public), possession)


# The change


@dataclass(frozen=True, slots=True)
class Wish:
    """What an admin wants: who gets a new key, and the change once these keys are known.

    `offers` are the keys that were made elsewhere; without any, all are made here.
    """

    new: Sequence[tuple[MemberRole, str]]
    build: Callable[[Sequence[Party]], Change]
    offers: Mapping[str, Offer] = field(default_factory=dict)
    is_rotation: bool = False


Decide = Callable[[Members], Wish]
"""Says what the admin wants, given the members in force."""


def check_changeable(genesis: Genesis) -> None:
    """Raises ModelError if the members of the chain never change."""
    if is_cometbft(genesis):
        raise ModelError(
            "the validators of this chain are CometBFT's, so its members do not change here",
            hint="CometBFT decides who its validators are; see its documentation",
        )


async def order_change(replica: Replica, access: Access, decide: Decide, margin: int) -> Ordered:
    """Orders a change and notes it in the folder; a change that is ordered already is only noted.

    Raises ModelError if it would break a rule; then nothing is made.
    """
    ledger, folder = replica.ledger, access.folder
    check_changeable(access.genesis)
    if ledger.protocol.version < 2:
        raise ModelError(
            f"the chain has protocol version {ledger.protocol.version}, whose members never change",
            hint="veristream kabis upgrade activates a later one, once all parties run this program",
        )
    note_members(folder.members_path, ledger)
    wish = decide(ledger.members)
    trial = [Party(name, os.urandom(PUBLIC_KEY_BYTES), f"{HOST}:1") for _, name in wish.new]
    expected, pending = plan_change(ledger.members, wish.build(trial)), ledger.pending_members
    if pending is not None and _others(pending[1], wish) != _others(expected, wish):
        raise _pending_error(pending[0])
    joining = [_join(folder, role, name, wish) for role, name in wish.new]
    planned = plan_change(ledger.members, wish.build([each.party for each in joining]))
    if pending is not None and pending[1] != planned:
        raise _pending_error(pending[0])
    before, height = ledger.members, pending[0] if pending is not None else 0
    if pending is None:
        possessions = tuple(sorted((each.possession for each in joining), key=attrgetter("place")))
        author, change = access.author(ADMIN), partial(SetMembers, planned, possessions=possessions)
        ordered = await replica.act_ahead(author, lambda at: change(height=at), margin)
        assert isinstance(ordered, SetMembers)
        height = ordered.height
    note_members(folder.members_path, ledger)
    return Ordered(height, before, planned)


def _others(members: Members, wish: Wish) -> list[object]:
    """Returns the members, of those with new keys only the names."""
    return [
        (role, party.name, None if (role, party.name) in wish.new else party)
        for role in MemberRole
        for party in members.of(role)
    ]


def _pending_error(height: int) -> ModelError:
    return ModelError(
        f"another change of the members is ordered, from block {height} on",
        hint="wait until it is in force: `veristream kabis member list` shows it",
    )


def _join(folder: ClusterFolder, role: MemberRole, name: str, wish: Wish) -> Joining:
    offer = wish.offers.get(name)
    if offer is not None:
        return join_elsewhere(folder.genesis(), role, name, offer)
    if not folder.has_parties() or (wish.is_rotation and not (folder.party(name) / KEY).is_file()):
        raise ModelError(
            f"the key of {name} is not made here, because {folder.path} does not run it",
            hint=f"run `veristream kabis member key` on its machine and give what it prints for {name}",
        )
    return join_here(folder, role, name, is_rotation=wish.is_rotation)


async def wait_in_force(replica: Replica, access: Access, height: int) -> KnownMembers:
    """Follows the chain until the members of this height are in force, and notes them in the folder."""
    ledger = replica.ledger
    try:
        async with asyncio.timeout(IN_FORCE_S):
            while ledger.height < height - 1:
                await replica.follow(ledger.height + 1)
                replica.shown(Progress(ledger.height, height - 1))
    except TimeoutError:
        raise EnvironmentFailure(
            f"the change is ordered, but block {height} is not reached within {IN_FORCE_S:.0f} s",
            "start the parties that join; `veristream kabis member list` shows whether it is in force",
        ) from None
    note_members(access.folder.members_path, ledger)
    return know_ledger(ledger)


# Processes of this machine


def start_newcomers(cluster: Cluster, names: Iterable[str]) -> list[str]:
    """Has our parties run, by a supervisor if there is one; returns those that systemd must start."""
    ours, running = [name for name in names if cluster.has_key(name)], cluster.find()
    if any("--note" in each.command for each in running.values()):
        return [name for name in ours if name not in running]
    if not running:
        return []
    deadline_s = time.monotonic() + STARTED_S
    while time.monotonic() < deadline_s and not all(name in cluster.find() for name in ours):
        time.sleep(processes.POLL_S)
    alone = [name for name in ours if name not in cluster.find()]
    cluster.launch(StartOptions(attended=False), alone)
    cluster.running.clear()  # they outlive this command
    return []


def settle(cluster: Cluster, known: KnownMembers) -> list[str]:
    """Completes on this machine what is in force; returns the parties that it stopped.

    New keys become the keys of parties that are down; those that run find them themselves. Validators that
    left stop, and so do storage parties once all others have copied what they need.
    """
    former, running = cluster.former(), cluster.find()
    for seat in cluster.seats():
        member = known.in_force.find(seat.role, seat.party.name)
        if member is not None and member.name not in running:
            adopt_key(cluster.folder_of(member.name), member.public)
    left = [seat for seat in cluster.seats() if seat.party.name in former and seat.party.name in running]
    if any(seat.role is MemberRole.STORAGE for seat in left) and not is_copied(cluster, known):
        left = [seat for seat in left if seat.role is MemberRole.VALIDATOR]
    return cluster.stop([seat.party.name for seat in left])


def is_copied(cluster: Cluster, known: KnownMembers) -> bool:
    """Whether all storage parties in force say that they have what was admitted before they joined."""
    identity = Access(cluster.folder).identity(ADMIN, Role.ADMIN)

    async def ask(party: Party) -> bool:
        client = StorageClient(identity, party, ANSWER_S)
        try:
            said = await client.status()
        except FAILURES:
            return False
        finally:
            await client.close()
        return said.standing is Standing.MEMBER and not said.missing

    async def ask_all() -> bool:
        return all(await asyncio.gather(*map(ask, known.in_force.storage)))

    return asyncio.run(ask_all())


def settle_patiently(cluster: Cluster, known: KnownMembers) -> list[str]:
    """Settles; waits a while for storage parties that copy. Returns former parties that still run."""
    deadline_s = time.monotonic() + COPIED_S
    while True:
        settle(cluster, known)
        rest = [name for name in cluster.former() if name in cluster.find()]
        if not rest or time.monotonic() > deadline_s:
            return rest
        time.sleep(COPY_LOOK_S)
