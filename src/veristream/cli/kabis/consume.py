"""`veristream kabis consume`."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis.options import (
    DATA,
    DataOption,
    NameOption,
    NearestOption,
    PartitionOption,
    SealOption,
    kabis_failures,
)
from veristream.cli.options import JsonOption


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="What to read.")],
    data: DataOption = DATA,
    validate: Annotated[
        bool,
        typer.Option(
            "--validate/--no-validate",
            help="Deliver only what its producer signed and the validators ordered; or believe one party.",
        ),
    ] = True,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="GROUP", help="Share the partitions, and go on after a restart."),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Not only events to come.")
    ] = False,
    partition: PartitionOption = None,
    from_index: Annotated[
        int | None,
        typer.Option("--from", metavar="INDEX", min=0, help="With --partition: begin at this index."),
    ] = None,
    count_max: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="Stop after so many work.")
    ] = None,
    timeout_s: Annotated[
        float | None,
        typer.Option("--timeout", metavar="S", min=0, help="Stop after so long without an event."),
    ] = None,
    seal: SealOption = None,
    name: NameOption = "consumer",
    nearest: NearestOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the events of topics, a line each, as they come.

    \b
    veristream kabis consume orders --from-beginning --max 10
    veristream kabis consume orders --group billing | ./bill
    veristream kabis consume logs --no-validate          a topic that is not validated

    A consumer that validates gets nothing of a topic that is not validated. One that does not validate
    reads both kinds, and believes the one storage party that it reads from. Events with --json have key,
    value, headers, partition, index, producer, block time.

    With --nearest one storage party is asked first for what is validated: one close by, or one that is to
    be put to the test, for what it gives is held against what was signed. Without it those that vouched for
    a batch take turns.

    With --seal the events of a sealed topic are opened; those that the keys do not open are left out.

    Exit code: 0 when it ended as asked, 2 if what was asked is wrong, 3 if the cluster does not answer.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import consume as work

        stop = work.Stop(count_max, timeout_s)
        begin = work.Begin(from_beginning, partition, from_index)
        sink = work.Sink(tuple(topics), validate, group, tuple(seal or ()), name, nearest, as_json)
        work.consume(data, sink, begin, stop)
