"""`veristream kabis client`: who may push and pull."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures

client = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@client.callback()
def about() -> None:
    """Clients: each has a key of its own, registered on the ledger; `producer` and `consumer` are there."""


@client.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the client is called.")],
    data: DataOption = DATA,
) -> None:
    """Make a key for a client and have the admin register it.

    Producers that run at the same time need a name each: `kabis produce TOPIC --as NAME`.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import client as work

        work.add(data, name)
