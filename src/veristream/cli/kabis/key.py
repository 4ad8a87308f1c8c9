"""`veristream kabis key`: keys come and go while everything runs."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption

key = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

ClientArgument = Annotated[str, typer.Argument(metavar="NAME", help="Whose key.")]


@key.callback()
def about() -> None:
    """Keys: who pushes, pulls or administers signs with one, and the ledger says which of them count.

    What was signed while a key was valid stays proved for ever.
    """


@key.command("list")
def show(data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """List all keys that were ever registered, and what became of them."""
    with kabis_failures():
        from veristream.cli.kabis.work import key as work

        work.show(data, as_json=as_json)


@key.command()
def rotate(name: ClientArgument, data: DataOption = DATA) -> None:
    """Replace a client's key, or the admin's, by a new one: from the next block on only that one counts.

    If the old key has ended already, the admin registers the new one. If the command is interrupted, it is
    finished by running it again.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import key as work

        work.rotate(data, name)


@key.command()
def revoke(name: ClientArgument, data: DataOption = DATA) -> None:
    """End a client's key: nothing it signs from now on is admitted, and no storage party lets it in.

    `veristream kabis key rotate NAME` gives the client a new one.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import key as work

        work.revoke(data, name)
