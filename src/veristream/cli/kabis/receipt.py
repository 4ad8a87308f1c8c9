"""`veristream kabis receipt`: proofs for third parties."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption

receipt = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@receipt.callback()
def about() -> None:
    """Export and verify receipts: proofs that a producer pushed an event and the validators ordered it."""


@receipt.command()
def export(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Validated topic of the event.")],
    index: Annotated[int, typer.Argument(metavar="INDEX", min=0, help="Index of the event.")],
    partition: Annotated[int, typer.Option("--partition", metavar="P", min=0)] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="New file; by default standard output.")
    ] = None,
    data: DataOption = DATA,
) -> None:
    """Write the receipt of an event: event, inclusion proofs, signatures and commit certificate."""
    with kabis_failures():
        from veristream.cli.kabis.work import receipt as work

        work.export(data, (topic, partition, index), out)


@receipt.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Receipt to verify.")],
    genesis: Annotated[
        Path | None,
        typer.Option(
            "--genesis",
            metavar="FILE",
            help="Genesis of the chain, obtained from a trusted source. By default DIR/genesis.json.",
        ),
    ] = None,
    data: DataOption = DATA,
    as_json: JsonOption = False,
) -> None:
    """Verify a receipt offline, on any machine; only the genesis is needed.

    Exit code: 0 if the receipt holds, 1 if it proves nothing, 2 if a file is missing or is not a genesis.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import receipt as work

        work.verify(file, genesis or data / "genesis.json", as_json=as_json)
