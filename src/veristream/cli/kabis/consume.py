"""`veristream kabis consume`."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis import options
from veristream.cli.options import JsonOption


def consume(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC...", help="Topics to read.")],
    data: options.DataOption = options.DATA,
    validate: Annotated[
        bool,
        typer.Option(
            "--validate/--no-validate",
            help="Deliver only events signed by their producer and ordered by the validators, or trust a"
            " single storage party.",
        ),
    ] = True,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="GROUP", help="Share the partitions and resume after a restart."),
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="Read old events, not only new ones.")
    ] = False,
    partition: options.PartitionOption = None,
    from_index: Annotated[
        int | None,
        typer.Option("--from", metavar="INDEX", min=0, help="With --partition: start at this index."),
    ] = None,
    count_max: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="Stop after N events.")
    ] = None,
    timeout_s: Annotated[
        float | None,
        typer.Option("--timeout", metavar="S", min=0, help="Stop after S seconds without an event."),
    ] = None,
    seal: options.SealOption = None,
    name: options.NameOption = "consumer",
    nearest: options.NearestOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the events of topics as they arrive, one per line.

    \b
    veristream kabis consume orders --from-beginning --max 10
    veristream kabis consume orders --group billing | ./bill
    veristream kabis consume logs --no-validate          an unvalidated topic

    A validating consumer receives no events of an unvalidated topic. With --no-validate it reads both
    kinds and trusts the storage party that it reads from. With --json, an event has key, value, headers,
    partition, index, producer and block time.

    --nearest names the storage party to ask first: one that is close, or one to test, because its answers
    are checked against the signatures. By default, the parties that signed a receipt take turns.

    --seal decrypts the events of a sealed topic; events that the keys cannot decrypt are omitted.

    Exit code: 0 on success, 2 if the arguments are wrong, 3 if the cluster does not answer.
    """
    with options.kabis_failures():
        from veristream.cli.kabis.work import consume as work

        stop = work.Stop(count_max, timeout_s)
        begin = work.Begin(from_beginning, partition, from_index)
        sink = work.Sink(tuple(topics), validate, group, tuple(seal or ()), name, nearest, as_json)
        work.consume(data, sink, begin, stop)
