"""`veristream kabis seal`: topics that storage parties keep and cannot read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.kabis.options import kabis_failures

seal = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@seal.callback()
def about() -> None:
    """Sealed topics: who pushes and who reads share a file of keys, and no party of the cluster has it.

    \b
    veristream kabis seal new orders orders.keys
    veristream kabis produce orders --seal orders.keys
    veristream kabis consume orders --seal orders.keys --from-beginning

    Sealed are key, value and headers. That something was pushed, when, by whom and how large, is not.
    """


@seal.command()
def new(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic that is to be sealed.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for its keys.")],
) -> None:
    """Make a key for a topic; it needs no cluster."""
    with kabis_failures():
        from veristream.cli.kabis.work import seal as work

        work.create(topic, file)


@seal.command()
def rotate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `seal new` made.")],
) -> None:
    """Add a key to a file, which seals from now on; give the file to the readers before the producers."""
    with kabis_failures():
        from veristream.cli.kabis.work import seal as work

        work.rotate(file)
