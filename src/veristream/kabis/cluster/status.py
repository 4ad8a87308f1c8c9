"""The status of a cluster: members, processes, heights, evidence, suspicions, groups and disk usage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

from veristream.kabis.channels.failures import FAILURES, decode_answer
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client.administration import GroupLag, Replica, list_lags
from veristream.kabis.client.connect import open_ordering
from veristream.kabis.client.errors import RefusedClientError
from veristream.kabis.client.following import StalledError
from veristream.kabis.client.known_members import KnownMembers, Seat, note_members
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.cluster.refused import Offender, ask_refusals, list_offenders
from veristream.kabis.cluster.restarts import read_history
from veristream.kabis.cometbft.addresses import is_cometbft
from veristream.kabis.log.disk.files import replace
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.requests import Accused, Evidence, Operation, Status
from veristream.kabis.protocol.members import MemberRole, Party
from veristream.kabis.storage.client import StorageClient
from veristream.kabis.wire.endpoints import Address, connect
from veristream.kabis.wire.handshake import Identity, Peer, Role
from veristream.kabis.wire.refusals import Refusal

ANSWER_S = 2.0
LEDGER_S = 10.0
"""Time limit for reading the chain, which only the lag of groups needs."""
IN_FORCE, JOINING, FORMER = "in force", "joining", "former"
_TOO_FEW = "too few validators answered in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyStatus:
    """The status of one party; what it reports itself is None if it does not answer.

    For a validator, `height` is its last block and `lag` the number of blocks that it lacks. For a storage
    party, `records` is the number of records in its log, `lost` the number of records lost to damage, and
    `torn_bytes` the number of bytes cut off its log at the start; `missing` is how many batches it still
    copies that were admitted before the members changed. `restarts` counts what a supervisor did since
    somebody started the party, and `ended` says why it ended last. The party is in force from the
    height `begin` on, and no longer from `end` on; `membership` says whether it is now.
    """

    name: str
    role: str
    address: str
    membership: str = IN_FORCE
    begin: int = 0
    end: int | None = None
    pid: int | None
    answers: bool
    height: int | None = None
    lag: int | None = None
    records: int | None = None
    lost: int = 0
    torn_bytes: int = 0
    missing: int = 0
    restarts: int = 0
    ended: str = ""
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The status of all parties, evidence on the ledger, suspicions of consumers, and groups.

    `groups` is None if too few validators answer, or the chain cannot be read in time; `unread` says why.
    `offenders` hit limits, as the parties tell.
    """

    chain_id: str
    faults: int
    parties: tuple[PartyStatus, ...]
    evidence: tuple[Accused, ...]
    suspicions: tuple[tuple[str, str, int], ...]
    groups: tuple[GroupLag, ...] | None = None
    unread: str = ""
    offenders: tuple[Offender, ...] = ()

    @property
    def height(self) -> int:
        """The greatest height that a validator reports."""
        return max((party.height or 0 for party in self.parties), default=0)

    @property
    def answering(self) -> int:
        return self._count("validator")

    @property
    def makes_progress(self) -> bool:
        """Whether enough parties answer to admit events."""
        return self.answering >= 2 * self.faults + 1 and self._count("storage") >= self.faults + 1

    def _count(self, role: str) -> int:
        """Returns how many members in force with a role answer."""
        members = [party for party in self.parties if party.role == role and party.membership == IN_FORCE]
        return sum(party.answers for party in members)


def read_status(folder: ClusterFolder) -> ClusterStatus:
    """Asks every party with a short time limit, and reads the folder."""
    return asyncio.run(_ask_all(folder))


async def _ask_all(folder: ClusterFolder) -> ClusterStatus:
    genesis, known = folder.genesis(), folder.members()
    identity = Access(folder).identity(ADMIN, Role.ADMIN)
    seats = sorted(known.seats(), key=lambda seat: seat.role.value)
    running = Cluster(folder).find()
    pids = {name: each.pid for name, each in running.items()}
    faults = known.in_force.faults
    ordering = open_ordering(genesis, identity, ANSWER_S, known.handovers)
    try:
        asked = [_ask(identity, seat, folder, pids, ordering) for seat in seats]
        said = await asyncio.gather(*asked)
        told = await asyncio.gather(*_ask_refusals(identity, seats, pids))
        parties = [
            changed(each, membership=_say(seat, known)) for seat, (each, _) in zip(seats, said, strict=True)
        ]
        evidence = agree([each for _, each in said], faults)
        answering = sum(party.height is not None for party in parties)
        groups = await _ask_groups(folder, ordering) if answering > faults else _TOO_FEW
    finally:
        await ordering.close()
    top = max((party.height or 0 for party in parties), default=0)
    behind = tuple(_with_restarts(_with_lag(party, top), folder) for party in parties)
    suspicions = tuple(read_suspicions(folder))
    named = (genesis.chain_id, faults, behind, evidence, suspicions)
    offenders = list_offenders(zip(pids, told, strict=True))
    if isinstance(groups, str):
        return ClusterStatus(*named, None, groups, offenders)
    return ClusterStatus(*named, groups, "", offenders)


def _say(seat: Seat, known: KnownMembers) -> str:
    if seat.begin > known.height + 1:
        return JOINING
    return FORMER if seat.is_former(known.height + 1) else IN_FORCE


def _ask_refusals(
    identity: Identity, seats: Iterable[Seat], pids: dict[str, int]
) -> list[Awaitable[tuple[Refusal, ...]]]:
    """Asks the running parties who hit which limit, in the order of `pids`."""
    roles = {MemberRole.VALIDATOR: Role.VALIDATOR, MemberRole.STORAGE: Role.STORAGE}
    found = {seat.party.name: (roles[seat.role], seat.party) for seat in seats}
    return [ask_refusals(identity, *found[name], ANSWER_S) for name in pids]


async def _ask(
    identity: Identity, seat: Seat, folder: ClusterFolder, pids: dict[str, int], ordering: Validators
) -> tuple[PartyStatus, Evidence | None]:
    """Returns the status of a party, and the evidence that a validator has."""
    party = seat.party
    common = PartyStatus(
        name=party.name,
        role=seat.role.name.lower(),
        address=party.address,
        begin=seat.begin,
        end=seat.end,
        pid=pids.get(party.name),
        answers=False,
        disk_bytes=measure(folder.party(party.name)),
    )
    if seat.role is MemberRole.STORAGE:
        return await _ask_storage(identity, party, common), None
    genesis = folder.genesis()
    with suppress(*FAILURES):
        if is_cometbft(genesis):
            number = genesis.validators.index(party)
            height = (await ordering.status_of(number)).height
            return changed(common, height=height, answers=True), await ordering.evidence_of(number)
        if common.pid is not None:
            status, evidence = await ask_validator(identity, party)
            return changed(common, height=status.height, answers=True), evidence
    return common, None


async def ask_validator(identity: Identity, party: Party) -> tuple[Status, Evidence]:
    """Returns what one validator reports of itself and of others; raises one of FAILURES."""
    async with asyncio.timeout(ANSWER_S):
        server = Peer(Role.VALIDATOR, party.name, party.public)
        connection = await connect(Address.parse(party.address), identity, server)
        try:
            status = await connection.request(bytes((Operation.STATUS,)))
            evidence = await connection.request(bytes((Operation.EVIDENCE,)))
        finally:
            connection.close()
    return decode_answer(Status.decode, status), decode_answer(Evidence.decode, evidence)


async def _ask_storage(identity: Identity, party: Party, common: PartyStatus) -> PartyStatus:
    if common.pid is None:
        return common
    client, said = StorageClient(identity, party, ANSWER_S), None
    with suppress(*FAILURES):
        said = await client.status()
    await client.close()
    if said is None:
        return common
    return changed(
        common,
        answers=True,
        records=said.end - said.start,
        lost=said.lost_count,
        torn_bytes=said.torn_bytes,
        missing=said.missing,
    )


def agree(told: Iterable[Evidence | None], faults: int) -> tuple[Accused, ...]:
    """Returns the evidence that F + 1 validators agree on; one of them is correct."""
    said = [set(answer.accused) for answer in told if answer is not None]
    known = set().union(*said)
    sure = [each for each in known if sum(each in one for one in said) > faults]
    return tuple(sorted(sure, key=lambda each: (each.height, each.role, each.name)))


async def _ask_groups(folder: ClusterFolder, ordering: Validators) -> tuple[GroupLag, ...] | str:
    """Returns the progress of consumer groups on the ledger, or why it is not known."""
    replica = Replica(folder.genesis(), Channels((), ordering))
    try:
        async with asyncio.timeout(LEDGER_S):
            await replica.follow_to_end(LEDGER_S)
    except TimeoutError:
        return f"{replica.progress} within {LEDGER_S:g} s"
    except (StalledError, RefusedClientError) as error:
        return error.message
    note_members(folder.members_path, replica.ledger)
    return tuple(list_lags(replica.ledger))


def _with_lag(party: PartyStatus, top: int) -> PartyStatus:
    return changed(party, lag=None if party.height is None else top - party.height)


def _with_restarts(party: PartyStatus, folder: ClusterFolder) -> PartyStatus:
    history = read_history(folder.party(party.name))
    return changed(party, restarts=history.restarts, ended=history.reason)


def measure(folder: Path) -> int:
    """Returns the total size of all files in a folder."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue
    return total


# Suspicions of consumers. A storage party's answers are not signed, so a lie is not evidence that others
# could check; it is a note for the operator.


def note_suspicions(folder: ClusterFolder, consumer: str, counts: dict[str, int]) -> None:
    """Adds the bad answers that a consumer counted for each storage party."""
    if not any(counts.values()):
        return
    path = folder.path / "suspicions" / f"{consumer}.json"
    path.parent.mkdir(exist_ok=True)
    before = _read_counts(path)
    total = {party: before.get(party, 0) + counts.get(party, 0) for party in sorted({*before, *counts})}
    replace(path, json.dumps(total).encode() + b"\n")


def read_suspicions(folder: ClusterFolder) -> Iterable[tuple[str, str, int]]:
    """Yields consumers, the storage parties that they suspect, and the number of bad answers."""
    for path in sorted((folder.path / "suspicions").glob("*.json")):
        for party, count in _read_counts(path).items():
            yield path.stem, party, count


def _read_counts(path: Path) -> dict[str, int]:
    try:
        listed = json.loads(path.read_bytes())
        return {party: count for party, count in listed.items() if type(count) is int}
    except (OSError, ValueError, AttributeError, RecursionError):
        return {}
