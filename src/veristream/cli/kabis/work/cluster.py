"""Starting, stopping and looking at a cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import typer

from veristream.cli.failure import Exit
from veristream.cli.kabis.table import draw_table, show_bytes
from veristream.cli.stopping import stopped_by_signals
from veristream.errors import ModelError
from veristream.kabis.client.administration import GroupLag
from veristream.kabis.cluster.cluster import Cluster, Start
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.cluster.status import ClusterStatus, PartyStatus, read_status
from veristream.kabis.kafka.settings import KafkaSettings, read_settings
from veristream.kabis.protocol.genesis import Genesis, StorageMode

WATCH_S = 0.5
MODES = {"tolerant": StorageMode.TOLERANT, "paper": StorageMode.PAPER}


@dataclass(frozen=True, slots=True)
class Wanted:
    """What `up` was told."""

    parties: int | None
    port: int | None
    storage: tuple[str, ...]
    faults: tuple[str, ...]
    detach: bool
    repair: bool
    ordering: str | None = None

    @property
    def mode(self) -> StorageMode | None:
        """How many storage parties there are, if that was said."""
        named = [MODES[each] for each in self.storage if each in MODES]
        return named[-1] if named else None

    @property
    def nodes(self) -> list[str] | None:
        """The CometBFT nodes that order, if any were named."""
        if self.ordering is None:
            return None
        kind, _, nodes = self.ordering.partition("=")
        if kind != "cometbft" or not nodes:
            raise ModelError(
                f"--ordering {self.ordering} is nothing that ordering can be",
                hint="cometbft=HOST:PORT,HOST:PORT,... with the RPC of every validator",
            )
        if self.parties is not None:
            raise ModelError(
                "--parties is for validators of our own, and --ordering names others",
                hint="leave one of them out",
            )
        return nodes.split(",")

    @property
    def kafka(self) -> list[KafkaSettings] | None:
        """The Kafka clusters under the storage parties, if any were named."""
        for each in self.storage:
            kind, _, clusters = each.partition("=")
            if kind == "kafka" and clusters:
                return [read_settings(cluster) for cluster in clusters.split(",")]
            if each not in MODES:
                raise ModelError(
                    f"--storage {each} is nothing that storage can be",
                    hint="tolerant, paper, or kafka=HOST:PORT,... with one cluster for each party",
                )
        return None


def up(data: Path, wanted: Wanted) -> None:
    """Starts what does not run yet, and stays with it unless it is to be detached."""
    cluster = Cluster(ClusterFolder(data))
    how = Start(attended=not wanted.detach, faults=read_faults(wanted.faults), repair=wanted.repair)
    kafka = wanted.kafka
    nodes = wanted.nodes
    if nodes is None:
        genesis = cluster.create(wanted.parties, wanted.mode, wanted.port)
    else:
        genesis = cluster.create_over(nodes, wanted.mode, wanted.port)
    if kafka is not None:
        cluster.use_kafka(kafka)
    running = cluster.find()
    names = [name for name in cluster.names() if name not in running]
    if not names:
        raise ModelError(f"the cluster in {data} is up already", hint="veristream kabis status shows it")
    honest = [name for name in how.faults or {} if name in running]
    if honest:
        raise ModelError(
            f"{', '.join(honest)} runs already, without a fault",
            hint="veristream kabis down, then up again",
        )
    cluster.start(how, names)
    typer.echo(describe(genesis, data))
    if wanted.detach:
        typer.echo("veristream kabis down stops it")
        return
    with cluster:
        stop = stopped_by_signals()
        typer.echo("Ctrl-C stops it")  # which from here on is so
        _watch(cluster, stop)
    typer.echo("stopped; everything is kept")


def _watch(cluster: Cluster, stop: threading.Event) -> None:
    """Waits until it is to stop, and tells of parties that end by themselves."""
    told: set[str] = set()
    while not stop.wait(WATCH_S):
        for name, words in cluster.ended().items():
            if name not in told:
                told.add(name)
                typer.echo(f"{name} ended: {words or 'it said nothing'}", err=True)


def read_faults(texts: Sequence[str]) -> dict[str, str]:
    """The faults of `--fault`, by party."""
    faults = {}
    for text in texts:
        party, equals, fault = text.partition("=")
        if not equals:
            raise ModelError(f"--fault {text} names no fault", hint="write --fault storage-1=alter")
        faults[party] = fault
    return faults


def describe(genesis: Genesis, data: Path) -> str:
    """One paragraph on what runs."""
    stands = f"{genesis.faults} of each may lie or fail"
    if genesis.storage_mode is StorageMode.PAPER:
        stands = f"{genesis.faults} of each may lie, and no storage party may fail"
    return (
        f"chain {genesis.chain_id} in {data}: {len(genesis.validators)} validators and"
        f" {len(genesis.storage)} storage parties answer; {stands}"
    )


def down(data: Path) -> None:
    """Stops what runs."""
    stopped = Cluster(ClusterFolder(data)).stop()
    typer.echo(f"stopped {', '.join(stopped)}" if stopped else f"nothing of {data} runs")


def show_status(data: Path, *, as_json: bool) -> None:
    """Prints how the cluster is."""
    status = read_status(ClusterFolder(data))
    if as_json:
        typer.echo(json.dumps(_to_json(status), indent=2))
    else:
        typer.echo(render(status))
    if not status.makes_progress:
        raise typer.Exit(Exit.ENVIRONMENT)


def render(status: ClusterStatus) -> str:
    """The status for people."""
    head = ("party", "process", "address", "height", "lag", "records", "disk")
    progress = "" if status.makes_progress else "; too few parties answer for events to be admitted"
    lines = [
        f"chain {status.chain_id}, F = {status.faults}, height {status.height}{progress}",
        "",
        draw_table(head, [_row(party) for party in status.parties]),
        "",
    ]
    lines += _render_groups(status.groups)
    for party in status.parties:
        if party.torn_bytes:
            lines.append(f"{party.name} cut {party.torn_bytes} torn bytes off its log when it started")
        if party.lost:
            lines.append(f"{party.name} lost {party.lost} records to damage on its disk")
    lines += [
        f"evidence: {each.role} {each.name} contradicted itself, block {each.height}"
        for each in status.evidence
    ]
    lines += [
        f"suspicion: {consumer} got {count} wrong or missing answers from {party}"
        for consumer, party, count in status.suspicions
    ]
    if not status.evidence and not status.suspicions:
        lines.append("nobody was caught")
    return "\n".join(lines)


def _render_groups(groups: Sequence[GroupLag] | None) -> list[str]:
    if groups is None:
        return ["how far consumer groups are is not known: too few validators answer in time", ""]
    head = ("group", "partition", "read by", "committed", "end", "lag")
    rows = [
        (
            each.group,
            f"{each.topic}-{each.partition}",
            each.member or "nobody",
            *("-" if number is None else str(number) for number in (each.committed, each.end, each.lag)),
        )
        for each in groups
    ]
    return [draw_table(head, rows), ""] if rows else []


def _row(party: PartyStatus) -> tuple[str, ...]:
    process = "down" if party.pid is None else f"{party.pid}" if party.answers else f"{party.pid} silent"
    if party.pid is None and party.answers:
        process = "elsewhere"
    numbers = ("-" if each is None else str(each) for each in (party.height, party.lag, party.records))
    return (party.name, process, party.address, *numbers, show_bytes(party.disk_bytes))


def _to_json(status: ClusterStatus) -> dict[str, object]:
    return {
        "chain_id": status.chain_id,
        "faults": status.faults,
        "height": status.height,
        "makes_progress": status.makes_progress,
        "parties": [asdict(party) for party in status.parties],
        "evidence": [
            {"role": each.role, "name": each.name, "height": each.height, "transaction": each.digest.hex()}
            for each in status.evidence
        ],
        "suspicions": [
            {"consumer": consumer, "party": party, "count": count}
            for consumer, party, count in status.suspicions
        ],
        "groups": None if status.groups is None else [asdict(each) for each in status.groups],
    }
