"""`veristream kabis client`: register producers and consumers."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures

client = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@client.callback()
def about() -> None:
    """Register clients. Each has its own key; `producer` and `consumer` exist from the start."""


@client.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the client.")],
    data: DataOption = DATA,
) -> None:
    """Create a key for a client and register it as the admin.

    Producers that run at the same time need different names: `kabis produce TOPIC --as NAME`.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import client as work

        work.add(data, name)
