"""`veristream broker`: real brokers on this machine, for Kabis to stand on.

Each kind of broker is a command of `up`, in a file of its own; `status` and `down` do not care which it is.
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
    Path, typer.Option("--data", metavar="DIR", envvar="BROKER_DATA", help="The brokers' folder.")
]
DetachOption = Annotated[
    bool, typer.Option("--detach", help="Return once all answer; `broker down` stops them.")
]
RemoveOption = Annotated[
    bool, typer.Option("--remove/--keep", help="Take away what they kept, once they are stopped.")
]

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
up = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(up, name="up", help="Start brokers on this machine.")


@app.callback()
def broker() -> None:
    """Real brokers on this machine, on loopback and without containers, for Kabis to stand on.

    \b
    veristream broker up kafka --detach          three Kafka clusters of one node each
    veristream broker up cometbft --detach       a CometBFT chain of four validators
    veristream broker status
    veristream kabis up --storage kafka=HOST:PORT,HOST:PORT,HOST:PORT
    veristream kabis up --ordering cometbft=HOST:PORT,HOST:PORT,HOST:PORT,HOST:PORT
    veristream broker down

    The programs are the published ones, fetched once and held against checksums.
    """


@up.command()
def kafka(
    clusters: Annotated[
        int | None,
        typer.Option(
            "--clusters", metavar="N", min=1, help="How many. [default: 3, or as they are in DIR]"
        ),
    ] = None,
    data: DataOption = DATA,
    detach: DetachOption = False,
    remove: RemoveOption = False,
) -> None:
    """Start independent Kafka clusters, each of one node that is broker and controller (KRaft).

    The first time Maven fetches Kafka, and each cluster's folder is made in DIR; from then on they go on
    from what is there, at the same addresses. Java 17 or newer runs them.

    Exit code: 0 after they were stopped, 2 if what was asked is wrong, 3 if one cannot start.
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
            "--validators", metavar="N", min=1, help="How many, 3F + 1. [default: 4, or as they are in DIR]"
        ),
    ] = None,
    data: DataOption = DATA,
    detach: DetachOption = False,
    remove: RemoveOption = False,
) -> None:
    """Start the validators of a CometBFT chain, each with the ledger of Kabis as its application.

    The first time Go builds CometBFT out of the published module, and each validator's folder is made in
    DIR; from then on they go on from what is there, at the same addresses.

    Exit code: 0 after they were stopped, 2 if what was asked is wrong, 3 if one cannot start.
    """
    with failures():
        from veristream.brokers.cometbft import CometNetwork

        found = CometNetwork(data)
        found.create(validators or len(found.names()) or 4)
        run_brokers(found, "CometBFT validators", detach=detach, remove=remove)


def run_brokers(found: BrokerGroup, what: str, *, detach: bool, remove: bool) -> None:
    """Starts brokers that are set up, and stays with them unless they are to be detached."""
    started = found.start()
    addresses = ",".join(found.address(name) for name in found.names())
    typer.echo(f"{len(found.names())} {what} in {found.folder}: {addresses}")
    if detach:
        typer.echo("veristream broker down stops them")
        return
    with found:
        stop = stopped_by_signals()
        typer.echo(f"Ctrl-C stops {', '.join(started) or 'nothing: they ran before'}")
        while not stop.wait(WATCH_S):
            pass
    if remove:
        found.remove()
    typer.echo("stopped; " + ("nothing is kept" if remove else "everything is kept"))


@app.command()
def status(data: DataOption = DATA) -> None:
    """Show which brokers of DIR run, and where.

    Exit code: 0 if all run, else 3.
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
    """Stop the brokers of DIR that run, and nothing else."""
    with failures():
        from veristream.brokers.folder import remove_brokers, stop_brokers

        stopped = stop_brokers(data)
        typer.echo(f"stopped {', '.join(stopped)}" if stopped else f"nothing of {data} runs")
        if remove:
            remove_brokers(data)
