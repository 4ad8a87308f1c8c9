"""Checks a running cluster: parties answer, heights and blocks agree, certificates hold, clocks agree."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.client.connect import open_ordering
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ADMIN
from veristream.kabis.cluster.rejoining import is_restored
from veristream.kabis.cluster.restarts import read_history
from veristream.kabis.cluster.status import ANSWER_S, ask_validator
from veristream.kabis.cometbft.addresses import is_cometbft
from veristream.kabis.operations.findings import Finding, warn
from veristream.kabis.ordering.asking import Validators
from veristream.kabis.ordering.requests import Status
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.members import MemberRole, Party
from veristream.kabis.storage.client import StorageClient
from veristream.kabis.wire.handshake import Identity, Role

BEHIND_WARNED = 10
"""A validator that lacks more blocks than this has a problem; one that has just started lacks a few."""
SKEW_WARNED_S = 5.0


def check_cluster(cluster: Cluster) -> list[Finding]:
    """Returns what is wrong with a cluster of which at least one party runs."""
    if not cluster.find():
        return []
    return asyncio.run(_check(cluster))


async def _check(cluster: Cluster) -> list[Finding]:
    genesis, known = cluster.genesis, cluster.folder.members()
    identity = Access(cluster.folder).identity(ADMIN, Role.ADMIN)
    findings = [*check_down(cluster), *check_former(cluster)]
    running = cluster.find()
    ours = [seat for seat in cluster.seats() if seat.party.name in cluster.names()]
    asked = [seat for seat in ours if seat.party.name in running]
    ordering = open_ordering(genesis, identity, ANSWER_S, known.handovers)
    try:
        said: dict[str, Status] = {}
        if not is_cometbft(genesis):
            validators = [seat.party for seat in asked if seat.role is MemberRole.VALIDATOR]
            said = await _ask_validators(identity, validators)
            silent = [party.name for party in validators if party.name not in said]
            findings += [_silent_validator(cluster, name) for name in silent]
            findings += [*check_heights(said), *check_clock(said, time.time())]
        stores = [seat.party for seat in asked if seat.role is MemberRole.STORAGE]
        findings += await _check_storage(identity, stores)
        if len(said) > known.in_force.faults:
            findings += await _check_certificate(genesis, ordering, said)
    finally:
        await ordering.close()
    return findings


def check_down(cluster: Cluster) -> Iterator[Finding]:
    """Yields the parties that do not run, with why they ended if a supervisor knows."""
    running = cluster.find()
    for name in cluster.names():
        if name not in running:
            history = read_history(cluster.folder_of(name))
            why = f": it {history.reason}" if history.reason else ""
            do = f"veristream kabis up --detach --data {cluster.folder.path} starts it"
            yield Finding(f"{name} is down{why}", name, do)
    if cluster.find_supervisor() is None:
        do = "start one with `veristream kabis up --detach`, unless a terminal or systemd runs the parties"
        yield warn("no supervisor restarts parties in the background", "supervisor", do)


def check_former(cluster: Cluster) -> Iterator[Finding]:
    """Yields the parties that have left and still run."""
    running = cluster.find()
    for name in cluster.former():
        if name in running:
            end = cluster.seat(name).end
            do = f"kill {running[name].pid} stops it; its data is kept"
            yield warn(f"{name} left at block {end} and still runs", name, do)


def _silent_validator(cluster: Cluster, name: str) -> Finding:
    if is_restored(cluster.folder_of(name)):
        what = f"{name} was restored from a backup and waits until it may vote again"
        return warn(what, name, "wait: it needs 2F + 1 others, and a few new blocks")
    return _silent(name)


def _silent(name: str) -> Finding:
    return Finding(f"{name} runs but does not answer", name, f"look at {name}/party.log and {name}/log.txt")


async def _ask_validators(identity: Identity, validators: Iterable[Party]) -> dict[str, Status]:
    said: dict[str, Status] = {}

    async def ask(party: Party) -> None:
        with suppress(*FAILURES):
            said[party.name], _ = await ask_validator(identity, party)

    await asyncio.gather(*map(ask, validators))
    return said


def check_heights(said: dict[str, Status]) -> Iterator[Finding]:
    """Yields validators that are far behind, and those that have another block at the same height."""
    top = max((each.height for each in said.values()), default=0)
    seen: dict[int, tuple[str, bytes]] = {}
    for name, each in said.items():
        if top - each.height > BEHIND_WARNED:
            do = "wait, and if it does not catch up, restart it"
            yield warn(f"{name} lacks {top - each.height} blocks", name, do)
        other, state = seen.setdefault(each.height, (name, each.block_id + each.state))
        if state != each.block_id + each.state:
            yield Finding(
                f"{name} and {other} have different blocks or states at height {each.height}",
                name,
                "stop both and run `veristream kabis audit`: one of them lies or is damaged",
            )


def check_clock(said: dict[str, Status], now_s: float) -> Iterator[Finding]:
    """Yields a finding if the last block is from the future, as this machine's clock sees it."""
    ahead_s = max((each.time_ms / 1000 - now_s for each in said.values()), default=0.0)
    if ahead_s > SKEW_WARNED_S:
        do = "synchronize the clocks of all machines"
        yield warn(f"the last block is {ahead_s:.0f} s ahead of this machine's clock", "clock", do)


async def _check_storage(identity: Identity, stores: Iterable[Party]) -> list[Finding]:
    findings = []
    for party in stores:
        client, said = StorageClient(identity, party, ANSWER_S), None
        with suppress(*FAILURES):
            said = await client.status()
        await client.close()
        if said is None:
            findings.append(_silent(party.name))
        elif said.lost_count:
            what = f"{party.name} lost {said.lost_count} records to damage"
            findings.append(warn(what, party.name, "audit the chain: the other parties have them"))
    return findings


async def _check_certificate(
    genesis: Genesis, ordering: Validators, said: dict[str, Status]
) -> list[Finding]:
    """Reads the last block; reading checks its certificate."""
    height = min(each.height for each in said.values())
    if not height:
        return []
    found: list[CertifiedBlock] = []
    with suppress(*FAILURES):
        async with asyncio.timeout(4 * ANSWER_S):
            found = list(await ordering.read(height, height))
    if found:
        return []
    do = "see which validator answers in `veristream kabis status`, and audit the chain"
    return [Finding(f"no validator returns block {height} with a valid certificate", genesis.chain_id, do)]
