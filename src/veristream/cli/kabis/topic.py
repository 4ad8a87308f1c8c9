"""`veristream kabis topic`: create, change, list, trim and limit topics."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption

topic = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.")]


@topic.callback()
def about() -> None:
    """Create, change, list, trim and limit topics.

    A validated topic has Byzantine fault tolerance and non-repudiation; an unvalidated topic has Kafka's
    guarantees and speed. An admin can change this while the cluster runs; the change is ordered on the
    ledger, so it takes effect at the same point for every client.
    """


@topic.command()
def create(
    name: TopicArgument,
    partitions: Annotated[int, typer.Option("--partitions", metavar="N", min=1)] = 1,
    validated: Annotated[bool, typer.Option("--validated/--unvalidated")] = True,
    data: DataOption = DATA,
) -> None:
    """Create a topic, validated by default."""
    with kabis_failures():
        from veristream.cli.kabis.work import topic as work

        work.create(data, name, partitions, validated=validated)


@topic.command("set")
def change(
    name: TopicArgument,
    partitions: Annotated[
        int | None, typer.Option("--partitions", metavar="N", min=1, help="New number; it can only grow.")
    ] = None,
    validated: Annotated[bool | None, typer.Option("--validated/--unvalidated")] = None,
    data: DataOption = DATA,
) -> None:
    """Change a topic, at the same point of the order for every client.

    \b
    veristream kabis topic set orders --unvalidated
    veristream kabis topic set orders --partitions 8
    """
    with kabis_failures():
        from veristream.cli.kabis.work import topic as work

        work.change(data, name, partitions, validated)


@topic.command("list")
def show(data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """List topics with the indices of their events."""
    with kabis_failures():
        from veristream.cli.kabis.work import topic as work

        work.show(data, as_json=as_json)


@topic.command()
def trim(
    name: TopicArgument,
    before: Annotated[int, typer.Option("--before", metavar="INDEX", min=0, help="First event to keep.")],
    partition: Annotated[int, typer.Option("--partition", metavar="P", min=0)] = 0,
    data: DataOption = DATA,
) -> None:
    """Discard the oldest events of a partition; reading before INDEX is then an error for every client."""
    with kabis_failures():
        from veristream.cli.kabis.work import topic as work

        work.trim(data, name, partition, before)


@topic.command()
def retain(
    name: TopicArgument,
    batches: Annotated[
        int, typer.Option("--batches", metavar="N", min=0, help="Newest batches to keep; 0 keeps all.")
    ] = 0,
    hours: Annotated[
        float, typer.Option("--hours", metavar="H", min=0, help="Age of the oldest batch; 0 is no limit.")
    ] = 0,
    data: DataOption = DATA,
) -> None:
    """Limit what each partition of a topic keeps; without limits, keep everything.

    \b
    veristream kabis topic retain orders --batches 100000
    veristream kabis topic retain orders --hours 168

    When a batch is admitted, older batches of its partition beyond the limits are discarded; reading them
    is then an error for every client. The last batch always stays. Needs protocol version 2.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import topic as work

        work.retain(data, name, batches, hours)
