"""`veristream kabis seal`: keys of topics that storage parties cannot read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.kabis.options import kabis_failures

seal = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@seal.callback()
def about() -> None:
    """Manage keys of sealed topics: producers and consumers share a key file that no party has.

    \b
    veristream kabis seal new orders orders.keys
    veristream kabis produce orders --seal orders.keys
    veristream kabis consume orders --seal orders.keys --from-beginning

    Key, value and headers are encrypted. Producer, time and size of an event stay visible.
    """


@seal.command()
def new(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to seal.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file for its keys.")],
) -> None:
    """Create a key for a topic; no cluster is needed."""
    with kabis_failures():
        from veristream.cli.kabis.work import seal as work

        work.create(topic, file)


@seal.command()
def rotate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="File made by `seal new`.")],
) -> None:
    """Add a key that encrypts new events; distribute the file to consumers before producers."""
    with kabis_failures():
        from veristream.cli.kabis.work import seal as work

        work.rotate(file)
