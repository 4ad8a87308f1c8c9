"""`veristream kabis topic`: what is on the ledger about topics."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption

topic = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]


@topic.callback()
def about() -> None:
    """Topics: each is validated or not, and an admin may change that while everything runs.

    A validated topic has Byzantine fault tolerance and non-repudiation; one that is not has Kafka's
    guarantees and speed. The change is ordered on the ledger, so that it takes effect at one point for all.
    """


@topic.command()
def create(
    name: TopicArgument,
    partitions: Annotated[int, typer.Option("--partitions", metavar="N", min=1)] = 1,
    validated: Annotated[bool, typer.Option("--validated/--unvalidated")] = True,
    data: DataOption = DATA,
) -> None:
    """Create a topic, validated unless you say otherwise."""
    with kabis_failures():
        from veristream.cli.kabis.work import topic as work

        work.create(data, name, partitions, validated=validated)


@topic.command("set")
def change(
    name: TopicArgument,
    partitions: Annotated[
        int | None, typer.Option("--partitions", metavar="N", min=1, help="More than there are.")
    ] = None,
    validated: Annotated[bool | None, typer.Option("--validated/--unvalidated")] = None,
    data: DataOption = DATA,
) -> None:
    """Change a topic, for everybody from one point of the order on.

    \b
    veristream kabis topic set orders --unvalidated
    veristream kabis topic set orders --partitions 8
    """
    with kabis_failures():
        from veristream.cli.kabis.work import topic as work

        work.change(data, name, partitions, validated)


@topic.command("list")
def show(data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """List the topics, with the indices of their events."""
    with kabis_failures():
        from veristream.cli.kabis.work import topic as work

        work.show(data, as_json=as_json)


@topic.command()
def trim(
    name: TopicArgument,
    before: Annotated[int, typer.Option("--before", metavar="INDEX", min=0, help="The first to be kept.")],
    partition: Annotated[int, typer.Option("--partition", metavar="P", min=0)] = 0,
    data: DataOption = DATA,
) -> None:
    """Let go of a partition's oldest events: reading below the mark is an error for everybody alike."""
    with kabis_failures():
        from veristream.cli.kabis.work import topic as work

        work.trim(data, name, partition, before)
