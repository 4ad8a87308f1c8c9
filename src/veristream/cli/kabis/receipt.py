"""`veristream kabis receipt`: proofs for whoever was not there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption

receipt = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@receipt.callback()
def about() -> None:
    """Receipts: the proof that a producer pushed an event and that the validators ordered it."""


@receipt.command()
def export(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The event's topic, a validated one.")],
    index: Annotated[int, typer.Argument(metavar="INDEX", min=0, help="The event's index.")],
    partition: Annotated[int, typer.Option("--partition", metavar="P", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="A new file; by default stdout.")
    ] = None,
    data: DataOption = DATA,
) -> None:
    """Write an event's receipt: event, inclusion proofs, signatures, commit certificate; a few KiB."""
    with kabis_failures():
        from veristream.cli.kabis.work import receipt as work

        work.export(data, (topic, partition, index), out)


@receipt.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A receipt.")],
    genesis: Annotated[
        Path | None,
        typer.Option(
            "--genesis",
            metavar="FILE",
            help="The chain's public keys, a file that whoever verifies got from somebody trusted."
            " By default DIR/genesis.json.",
        ),
    ] = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Check a receipt offline, on any machine: it needs the genesis and nothing else of the cluster.

    Exit code: 0 if it proves what it says, 1 if it proves nothing, 2 if a file is missing or no genesis.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import receipt as work

        work.verify(file, genesis or data / "genesis.json", as_json=as_json)
