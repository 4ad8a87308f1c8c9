"""`kabis up` and `down`: starts a cluster and watches it; stops it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from veristream.cli.stopping import stopped_by_signals
from veristream.errors import ModelError
from veristream.kabis.cluster.cluster import Cluster, StartOptions
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.kafka.settings import KafkaSettings, read_settings
from veristream.kabis.operations.issuing import CA, turn_on
from veristream.kabis.operations.supervisor import Supervisor, read_policy, start_supervised
from veristream.kabis.protocol.members import Members, StorageMode

MODES = {"tolerant": StorageMode.TOLERANT, "paper": StorageMode.PAPER}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Arguments of `up`."""

    parties: int | None
    port: int | None
    storage: tuple[str, ...]
    faults: tuple[str, ...]
    detach: bool
    repair: bool
    ordering: str | None = None
    closed: bool = False
    tls: bool = False

    @property
    def mode(self) -> StorageMode | None:
        """The storage mode, if --storage names one."""
        named = [MODES[each] for each in self.storage if each in MODES]
        return named[-1] if named else None

    @property
    def nodes(self) -> list[str] | None:
        """The CometBFT nodes of --ordering, if given."""
        if self.ordering is None:
            return None
        kind, _, nodes = self.ordering.partition("=")
        if kind != "cometbft" or not nodes:
            raise ModelError(
                f"--ordering {self.ordering} is not valid",
                hint="use cometbft=HOST:PORT,HOST:PORT,... with the RPC address of every validator",
            )
        if self.parties is not None:
            raise ModelError(
                "--parties and --ordering exclude each other",
                hint="with --ordering, the CometBFT nodes are the validators",
            )
        return nodes.split(",")

    @property
    def kafka(self) -> list[KafkaSettings] | None:
        """The Kafka clusters of the storage parties, if --storage names them."""
        for each in self.storage:
            kind, _, clusters = each.partition("=")
            if kind == "kafka" and clusters:
                return [read_settings(cluster) for cluster in clusters.split(",")]
            if each not in MODES:
                raise ModelError(
                    f"--storage {each} is not valid",
                    hint="use tolerant, paper, or kafka=HOST:PORT,... with one cluster for each party",
                )
        return None


def up(data: Path, wanted: Wanted) -> None:
    """Starts the parties that do not run, and watches them unless detached."""
    cluster = Cluster(ClusterFolder(data))
    how = StartOptions(attended=not wanted.detach, faults=read_faults(wanted.faults), repair=wanted.repair)
    kafka = wanted.kafka
    nodes = wanted.nodes
    if nodes is None:
        genesis = cluster.create(wanted.parties, wanted.mode, wanted.port, closed=wanted.closed)
    else:
        genesis = cluster.create_over(nodes, wanted.mode, wanted.port, closed=wanted.closed)
    if kafka is not None:
        cluster.use_kafka(kafka)
    if wanted.tls:
        _turn_tls_on(cluster)
    running = cluster.find()
    names = [name for name in cluster.names() if name not in running]
    is_watched = cluster.find_supervisor() is not None
    if not names and (is_watched or not wanted.detach):
        raise ModelError(f"the cluster in {data} is already up", hint="veristream kabis status shows it")
    honest = [name for name in how.faults or {} if name in running]
    if honest:
        raise ModelError(
            f"already running without a fault: {', '.join(honest)}",
            hint="run veristream kabis down, then up again",
        )
    if wanted.detach and not is_watched:
        start_supervised(cluster, how, names)
    else:
        cluster.start(how, names)
    typer.echo(describe(genesis.chain_id, cluster.folder.members().in_force, data))
    if wanted.detach:
        typer.echo("veristream kabis down stops it")
        return
    with cluster:
        stop = stopped_by_signals()
        typer.echo("Ctrl-C stops it")  # only now, since signals are handled from here on
        Supervisor(cluster, how, lambda line: typer.echo(line, err=True), read_policy(cluster)).run(stop)
    typer.echo("stopped; all data is kept")


def down(data: Path) -> None:
    """Stops the running parties."""
    stopped = Cluster(ClusterFolder(data)).stop()
    typer.echo(f"stopped {', '.join(stopped)}" if stopped else f"no party of {data} is running")


def _turn_tls_on(cluster: Cluster) -> None:
    issued = turn_on(cluster)
    if issued:
        typer.echo(f"certificates for TLS, signed by {cluster.folder.path / CA}: {', '.join(issued)}")
        running = [name for name in issued if name in cluster.find()]
        if running:
            typer.echo(f"restart {', '.join(running)}: they still use the old ones")


def read_faults(texts: Sequence[str]) -> dict[str, str]:
    """Parses `--fault` options into the fault of each party."""
    faults = {}
    for text in texts:
        party, equals, fault = text.partition("=")
        if not equals:
            raise ModelError(
                f"--fault {text} names no fault", hint="use PARTY=FAULT, such as storage-1=alter"
            )
        faults[party] = fault
    return faults


def describe(chain_id: str, members: Members, data: Path) -> str:
    """Summarizes what runs and which faults it tolerates."""
    tolerated = f"{members.faults} of each may lie or fail"
    if members.storage_mode is StorageMode.PAPER:
        tolerated = f"{members.faults} of each may lie, and no storage party may fail"
    return (
        f"chain {chain_id} in {data}: {len(members.validators)} validators and"
        f" {len(members.storage)} storage parties answer; {tolerated}"
    )
