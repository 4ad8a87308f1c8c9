"""`veristream broker`: runs real brokers on this machine, for Kabis to use and for recordings.

Each kind of broker is a subcommand of `up`; `status` and `down` work for every kind.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veristream.cli.failure import failures
from veristream.cli.stopping import stopped_by_signals
from veristream.errors import ModelError

if TYPE_CHECKING:
    from veristream.brokers.group import BrokerGroup

DATA = Path("broker-data")
WATCH_S = 0.5

DataOption = Annotated[
    Path,
    typer.Option("--data", metavar="DIR", envvar="BROKER_DATA", help="The folder that holds the brokers."),
]
DetachOption = Annotated[
    bool,
    typer.Option("--detach", help="Return as soon as all brokers are ready; `broker down` stops them."),
]
RemoveOption = Annotated[
    bool, typer.Option("--remove/--keep", help="Delete the brokers' data after they have stopped.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="A setting of the brokers, which applies when they are created; repeatable.",
    ),
]

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)
up = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(up, name="up", help="Start brokers on this machine.")


@app.callback()
def broker() -> None:
    """Run Kafka, RabbitMQ, NSQ and CometBFT on this machine.

    \b
    veristream broker up kafka --detach          three Kafka clusters of one node each, for Kabis
    veristream broker up kafka --brokers 3       one Kafka cluster of three brokers
    veristream broker up nsq                     two nsqd and nsqlookupd
    veristream broker up rabbitmq                one RabbitMQ cluster of three nodes
    veristream broker up cometbft --detach       a CometBFT chain of four validators
    veristream broker status
    veristream kabis up --storage kafka=HOST:PORT,HOST:PORT,HOST:PORT
    veristream kabis up --ordering cometbft=HOST:PORT,HOST:PORT,HOST:PORT,HOST:PORT
    veristream broker down

    The programs are the published releases, or Debian's packages of them, downloaded once, verified
    against checksums, and run on loopback without containers.
    """


@up.command()
def kafka(
    clusters: Annotated[
        int | None,
        typer.Option(
            "--clusters", metavar="N", min=1, help="Number of clusters. [default: those in DIR, else 3]"
        ),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option(
            "--brokers",
            metavar="N",
            min=1,
            help="Start one cluster of N brokers and a controller instead. Needs 300 MB per broker.",
        ),
    ] = None,
    set_: SetOption = None,
    data: DataOption = DATA,
    detach: DetachOption = False,
    remove: RemoveOption = False,
) -> None:
    """Start independent single-node Kafka clusters, or one cluster of several brokers.

    A node that is its own cluster is broker and controller (KRaft). The first start downloads Kafka with
    Maven and creates a folder for each node in DIR; later starts reuse their data and addresses. Needs Java
    17 or newer.

    Exit code: 0 after the clusters have stopped, 2 if an option is wrong, 3 if a cluster cannot start.
    """
    with failures():
        from veristream.brokers.kafka import KafkaClusters
        from veristream.brokers.replicated.cluster import ReplicatedKafka

        settings = read_settings(set_)
        if brokers is not None:
            if clusters is not None:
                raise ModelError(
                    "--clusters and --brokers exclude each other",
                    hint="--clusters starts nodes that know nothing of each other, --brokers one cluster",
                )
            one = ReplicatedKafka(data, settings)
            one.create(brokers)
            run_brokers(one, "Kafka brokers", detach=detach, remove=remove)
            return
        found = KafkaClusters(data, settings)
        found.create(clusters or len(found.names()) or 3)
        run_brokers(found, "Kafka clusters", detach=detach, remove=remove)


@up.command()
def cometbft(
    validators: Annotated[
        int | None,
        typer.Option(
            "--validators",
            metavar="N",
            min=1,
            help="Number of validators; 3F + 1 tolerate F faulty ones. [default: those in DIR, else 4]",
        ),
    ] = None,
    data: DataOption = DATA,
    detach: DetachOption = False,
    remove: RemoveOption = False,
) -> None:
    """Start a CometBFT chain that runs the Kabis ledger.

    The first start builds CometBFT with Go from the published module and creates a folder for each
    validator in DIR; later starts reuse their data and addresses.

    Exit code: 0 after the validators have stopped, 2 if an option is wrong, 3 if one cannot start.
    """
    with failures():
        from veristream.brokers.cometbft import CometNetwork

        found = CometNetwork(data)
        found.create(validators or len(found.names()) or 4)
        run_brokers(found, "CometBFT validators", detach=detach, remove=remove)


@up.command()
def nsq(
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", metavar="N", min=1, help="Number of nsqd. [default: those in DIR, else 2]"),
    ] = None,
    set_: SetOption = None,
    data: DataOption = DATA,
    detach: DetachOption = False,
    remove: RemoveOption = False,
) -> None:
    """Start NSQ: several nsqd, and nsqlookupd, which knows who has which topic.

    The first start builds NSQ with Go from pinned sources. --set takes options of nsqd: mem-queue-size=0.

    Exit code: 0 after the nodes have stopped, 2 if an option is wrong, 3 if one cannot start.
    """
    with failures():
        from veristream.brokers.nsq.nodes import NsqNodes

        found = NsqNodes(data, read_settings(set_))
        found.create(nodes or len(found.nodes()) or 2)
        run_brokers(found, "nsqd", detach=detach, remove=remove)


@up.command()
def rabbitmq(
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes", metavar="N", min=1, help="Number of nodes. [default: those in DIR, else 3]"
        ),
    ] = None,
    set_: SetOption = None,
    data: DataOption = DATA,
    detach: DetachOption = False,
    remove: RemoveOption = False,
) -> None:
    """Start a RabbitMQ cluster of several nodes, or a single one.

    The first start downloads RabbitMQ and Erlang with apt, and unpacks them without installing anything;
    it needs Debian 12, but not root. --set takes lines of rabbitmq.conf: queue_master_locator=min-masters.
    Clients log in as guest with the password guest.

    Exit code: 0 after the nodes have stopped, 2 if an option is wrong, 3 if one cannot start.
    """
    with failures():
        from veristream.brokers.rabbitmq.nodes import RabbitNodes

        found = RabbitNodes(data, read_settings(set_))
        found.create(nodes or len(found.nodes()) or 3)
        run_brokers(found, "RabbitMQ nodes", detach=detach, remove=remove)


def read_settings(given: list[str] | None) -> dict[str, str]:
    """Reads KEY=VALUE words; raises ModelError for others."""
    pairs = [each.partition("=") for each in given or []]
    for key, sign, value in pairs:
        if not key.strip() or not sign:
            raise ModelError(f"--set {key}{sign}{value} is not valid", hint="write --set KEY=VALUE")
    return {key.strip(): value.strip() for key, _, value in pairs}


def run_brokers(found: BrokerGroup, what: str, *, detach: bool, remove: bool) -> None:
    """Starts the brokers of a group; unless `detach`, waits for a signal and then stops what it started."""
    started = found.start()
    addresses = found.entrances()
    typer.echo(f"{len(addresses)} {what} in {found.folder}: {','.join(addresses)}")
    if detach:
        typer.echo("stop them with: veristream broker down")
        return
    with found:
        stop = stopped_by_signals()
        typer.echo(f"Ctrl-C stops {', '.join(started) or 'nothing: they were already running'}")
        while not stop.wait(WATCH_S):
            pass
    if remove:
        found.remove()
    typer.echo("stopped; " + ("all data deleted" if remove else "all data kept"))


@app.command()
def status(data: DataOption = DATA) -> None:
    """Show the brokers in DIR, their processes and their addresses.

    Exit code: 0 if all of them are running, else 3.
    """
    with failures():
        from veristream.brokers.folder import list_brokers
        from veristream.cli.failure import Exit
        from veristream.cli.kabis.table import draw_table

        found = list_brokers(data)
        rows = [(each.name, str(each.pid or "down"), each.address) for each in found]
        typer.echo(draw_table(("broker", "process", "address"), rows) if rows else f"{data} has no brokers")
        if any(each.pid is None for each in found) or not found:
            raise typer.Exit(Exit.ENVIRONMENT)


@app.command()
def down(data: DataOption = DATA, remove: RemoveOption = False) -> None:
    """Stop the running brokers in DIR, and nothing else."""
    with failures():
        from veristream.brokers.folder import remove_brokers, stop_brokers

        stopped = stop_brokers(data)
        typer.echo(f"stopped {', '.join(stopped)}" if stopped else f"no broker is running in {data}")
        if remove:
            remove_brokers(data)
