"""`veristream kabis upgrade`."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures


def upgrade(
    to: Annotated[
        int | None,
        typer.Option("--to", metavar="VERSION", min=1, help="Protocol version; by default the latest."),
    ] = None,
    at: Annotated[
        int | None, typer.Option("--at", metavar="HEIGHT", min=1, help="First block of the new version.")
    ] = None,
    data: DataOption = DATA,
) -> None:
    """Change the protocol version of a chain, with the same block for every party.

    \b
    veristream kabis upgrade
    veristream kabis upgrade --to 2 --at 100000

    First update the program of every party and client: one that does not know the version stops at that
    block. Version 2 has snapshots and retention. Receipts that were exported before stay valid.
    """
    with kabis_failures():
        from veristream.cli.kabis.work.acting import upgrade as order

        order(data, to, at)
