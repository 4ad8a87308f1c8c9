"""What a party tells its operator: the numbers on /metrics, and when it is unhealthy."""

from __future__ import annotations

import time
from pathlib import Path

from veristream.kabis.ordering.node import Node
from veristream.kabis.ordering.service import Service
from veristream.kabis.process.monitor import Metric, Reading, read_machine
from veristream.kabis.storage.chain import ChainView
from veristream.kabis.storage.party import StorageParty
from veristream.kabis.wire.endpoints import Server

STUCK_S = 30.0
"""A validator is unhealthy if transactions have waited this long for a block."""


def read_validator(node: Node, service: Service, server: Server, folder: Path) -> Reading:
    """Reads a validator; it is unhealthy if it cannot reach a quorum, or the chain does not go on."""
    said, machine = service.status(), read_machine(folder)
    age_s = max(0.0, time.time() - said.time_ms / 1000)
    members = node.ledger.members
    others = len(members.validators) - 1
    problems = list(machine.problems)
    if said.peers < 2 * members.faults:
        problems.append(f"only {said.peers} of {others} other validators are connected")
    if said.waiting and age_s > STUCK_S:
        problems.append(f"no block for {age_s:.0f} s while {said.waiting} transactions wait")
    metrics = (
        Metric("kabis_height", said.height, "Height of the last block."),
        Metric("kabis_last_block_age_seconds", age_s, "Time since the last block."),
        Metric("kabis_round", said.round, "Round of the height being decided."),
        Metric("kabis_peers", said.peers, "Validators connected to."),
        Metric("kabis_transactions_waiting", said.waiting, "Transactions that wait for a block."),
        Metric("kabis_accusations", said.accusations, "Evidence on the ledger."),
        Metric("kabis_log_bytes", said.size_bytes, "Size of the blocks on disk."),
        *_connections(server),
    )
    return Reading((*metrics, *machine.metrics), tuple(problems))


def read_storage(party: StorageParty, view: ChainView, server: Server, folder: Path) -> Reading:
    """Reads a storage party; it is unhealthy only if the machine is."""
    said, machine = party.status(), read_machine(folder)
    metrics = (
        Metric("kabis_height", view.height, "Height of the last block that the party has seen."),
        Metric("kabis_records", said.end - said.start, "Records in the log."),
        Metric("kabis_records_lost", said.lost_count, "Records lost to damage."),
        Metric("kabis_records_undurable", said.end - said.durable, "Records that are not yet flushed."),
        Metric("kabis_log_bytes", said.size_bytes, "Size of the log."),
        Metric("kabis_batches_missing", said.missing, "Batches to copy from before the members changed."),
        Metric("kabis_batches_copied", party.progress.copied, "Batches copied from other parties."),
        Metric("kabis_copies_refused", party.progress.refused, "Wrong batches that others returned."),
        *_connections(server),
    )
    return Reading((*metrics, *machine.metrics), machine.problems)


def _connections(server: Server) -> tuple[Metric, ...]:
    return (Metric("kabis_connections", len(server.connections), "Open connections of peers."),)
