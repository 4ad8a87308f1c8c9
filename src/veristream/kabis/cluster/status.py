"""The status of a cluster: processes, heights, evidence, suspicions, consumer groups and disk usage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client.administration import GroupLag, Replica, list_lags
from veristream.kabis.client.connect import open_ordering
from veristream.kabis.client.errors import RefusedClientError
from veristream.kabis.client.following import StalledError
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.cluster.refused import Offender, ask_refusals, list_offenders
from veristream.kabis.cluster.restarts import read_history
from veristream.kabis.cometbft.addresses import is_cometbft
from veristream.kabis.log.disk.files import replace
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.requests import Accused
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import Party
from veristream.kabis.storage.client import StorageClient
from veristream.kabis.wire.handshake import Identity, Role
from veristream.kabis.wire.refusals import Refusal

ANSWER_S = 2.0
LEDGER_S = 10.0
"""Time limit for reading the chain, which only the lag of groups needs."""
_TOO_FEW = "too few validators answered in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartyStatus:
    """The status of one party; what it reports itself is None if it does not answer.

    For a validator, `height` is its last block and `lag` the number of blocks that it lacks. For a storage
    party, `records` is the number of records in its log, `lost` the number of records lost to damage, and
    `torn_bytes` the number of bytes cut off its log at the start. `restarts` counts what a supervisor did
    since somebody started the party, and `ended` says why it ended last.
    """

    name: str
    role: str
    address: str
    pid: int | None
    answers: bool
    height: int | None = None
    lag: int | None = None
    records: int | None = None
    lost: int = 0
    torn_bytes: int = 0
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
        return sum(party.answers for party in self.parties if party.role == "validator")

    @property
    def makes_progress(self) -> bool:
        """Whether enough parties answer to admit events."""
        storage = sum(party.answers for party in self.parties if party.role == "storage")
        return self.answering >= 2 * self.faults + 1 and storage >= self.faults + 1


def read_status(folder: ClusterFolder) -> ClusterStatus:
    """Asks every party with a short time limit, and reads the folder."""
    return asyncio.run(_ask_all(folder))


async def _ask_all(folder: ClusterFolder) -> ClusterStatus:
    genesis = folder.genesis()
    identity = Access(folder).identity(ADMIN, Role.ADMIN)
    running = Cluster(folder).find()
    pids = {name: each.pid for name, each in running.items()}
    ordering = open_ordering(genesis, identity, ANSWER_S)
    try:
        asked = [
            _ask_validator(ordering, number, folder, pids) for number in range(len(genesis.validators))
        ]
        stored = [_ask_storage(identity, party, folder, pids) for party in genesis.storage]
        parties = await asyncio.gather(*asked, *stored)
        told = await asyncio.gather(*_ask_refusals(identity, genesis, pids))
        evidence = await _ask_evidence(ordering, len(genesis.validators), genesis.faults)
        answering = sum(party.height is not None for party in parties)
        groups = await _ask_groups(genesis, ordering) if answering > genesis.faults else _TOO_FEW
    finally:
        await ordering.close()
    top = max((party.height or 0 for party in parties), default=0)
    behind = tuple(_with_restarts(_with_lag(party, top), folder) for party in parties)
    suspicions = tuple(read_suspicions(folder))
    named = (genesis.chain_id, genesis.faults, behind, evidence, suspicions)
    offenders = list_offenders(zip(pids, told, strict=True))
    if isinstance(groups, str):
        return ClusterStatus(*named, None, groups, offenders)
    return ClusterStatus(*named, groups, "", offenders)


def _ask_refusals(
    identity: Identity, genesis: Genesis, pids: dict[str, int]
) -> list[Awaitable[tuple[Refusal, ...]]]:
    """Asks the running parties who hit which limit, in the order of `pids`."""
    parties = {party.name: (Role.VALIDATOR, party) for party in genesis.validators}
    parties |= {party.name: (Role.STORAGE, party) for party in genesis.storage}
    return [ask_refusals(identity, *parties[name], ANSWER_S) for name in pids]


async def _ask_validator(
    ordering: Validators, number: int, folder: ClusterFolder, pids: dict[str, int]
) -> PartyStatus:
    party = folder.genesis().validators[number]
    height = None
    if party.name in pids or is_cometbft(folder.genesis()):
        with suppress(*FAILURES):
            height = (await ordering.status_of(number)).height
    return PartyStatus(
        name=party.name,
        role="validator",
        address=party.address,
        pid=pids.get(party.name),
        answers=height is not None,
        height=height,
        disk_bytes=measure(folder.party(party.name)),
    )


async def _ask_storage(
    identity: Identity, party: Party, folder: ClusterFolder, pids: dict[str, int]
) -> PartyStatus:
    said, pid = None, pids.get(party.name)
    if pid is not None:
        client = StorageClient(identity, party, ANSWER_S)
        with suppress(*FAILURES):
            said = await client.status()
        await client.close()
    return PartyStatus(
        name=party.name,
        role="storage",
        address=party.address,
        pid=pid,
        answers=said is not None,
        records=None if said is None else said.end - said.start,
        lost=0 if said is None else said.lost_count,
        torn_bytes=0 if said is None else said.torn_bytes,
        disk_bytes=measure(folder.party(party.name)),
    )


async def _ask_evidence(ordering: Validators, validators: int, faults: int) -> tuple[Accused, ...]:
    """Returns the evidence that F + 1 validators agree on; one of them is correct."""
    answers = await asyncio.gather(
        *(ordering.evidence_of(number) for number in range(validators)), return_exceptions=True
    )
    said = [set(answer.accused) for answer in answers if not isinstance(answer, BaseException)]
    known = set().union(*said)
    sure = [each for each in known if sum(each in one for one in said) > faults]
    return tuple(sorted(sure, key=lambda each: (each.height, each.role, each.name)))


async def _ask_groups(genesis: Genesis, ordering: Validators) -> tuple[GroupLag, ...] | str:
    """Returns the progress of consumer groups on the ledger, or why it is not known."""
    replica = Replica(genesis, Channels((), ordering))
    try:
        async with asyncio.timeout(LEDGER_S):
            await replica.follow_to_end(LEDGER_S)
    except TimeoutError:
        return f"{replica.progress} within {LEDGER_S:g} s"
    except (StalledError, RefusedClientError) as error:
        return error.message
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
