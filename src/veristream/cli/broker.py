"""`veristream broker`: runs real brokers on this machine, for Kabis to use as storage or ordering.

Each kind of broker is a subcommand of `up`; `status` and `down` work for every kind.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from veristream.cli.failure import failures
from veristream.cli.stopping import stopped_by_signals

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

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)
up = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(up, name="up", help="Start brokers on this machine.")


@app.callback()
def broker() -> None:
    """Run Kafka and CometBFT on this machine, for Kabis.

    \b
    veristream broker up kafka --detach          three Kafka clusters of one node each
    veristream broker up cometbft --detach       a CometBFT chain of four validators
    veristream broker status
    veristream kabis up --storage kafka=HOST:PORT,HOST:PORT,HOST:PORT
    veristream kabis up --ordering cometbft=HOST:PORT,HOST:PORT,HOST:PORT,HOST:PORT
    veristream broker down

    The programs are the published releases, downloaded once, verified against checksums, and run on
    loopback without containers.
    """


@up.command()
def kafka(
    clusters: Annotated[
        int | None,
        typer.Option(
            "--clusters", metavar="N", min=1, help="Number of clusters. [default: those in DIR, else 3]"
        ),
    ] = None,
    data: DataOption = DATA,
    detach: DetachOption = False,
    remove: RemoveOption = False,
) -> None:
    """Start independent single-node Kafka clusters.

    Each node is broker and controller (KRaft). The first start downloads Kafka with Maven and creates a
    folder for each cluster in DIR; later starts reuse their data and addresses. Needs Java 17 or newer.

    Exit code: 0 after the clusters have stopped, 2 if an option is wrong, 3 if a cluster cannot start.
    """
    with failures():
        from veristream.brokers.kafka import KafkaClusters

        found = KafkaClusters(data)
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


def run_brokers(found: BrokerGroup, what: str, *, detach: bool, remove: bool) -> None:
    """Starts the brokers of a group; unless `detach`, waits for a signal and then stops what it started."""
    started = found.start()
    addresses = ",".join(found.address(name) for name in found.names())
    typer.echo(f"{len(found.names())} {what} in {found.folder}: {addresses}")
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
