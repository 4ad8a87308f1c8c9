"""`veristream kabis key`: list, replace and revoke keys."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption

key = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

ClientArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the client.")]


@key.callback()
def about() -> None:
    """List, replace and revoke the keys of clients and of the admin.

    The ledger records which keys are valid. What was signed while a key was valid stays proved forever.
    """


@key.command("list")
def show(data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """List all keys ever registered, with their state."""
    with kabis_failures():
        from veristream.cli.kabis.work import key as work

        work.show(data, as_json=as_json)


@key.command()
def rotate(name: ClientArgument, data: DataOption = DATA) -> None:
    """Replace the key of a client or of the admin; from the next block on, only the new key is valid.

    If the old key is no longer valid, the admin registers the new one. If the command is interrupted, run
    it again to complete it.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import key as work

        work.rotate(data, name)


@key.command()
def revoke(name: ClientArgument, data: DataOption = DATA) -> None:
    """Revoke a client's key: what it signs from now on is rejected, and storage parties refuse to connect.

    `veristream kabis key rotate NAME` registers a new one.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import key as work

        work.revoke(data, name)
