"""`veristream kabis produce`."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis.options import (
    DATA,
    DataOption,
    NameOption,
    PartitionOption,
    SealOption,
    kabis_failures,
)
from veristream.cli.options import JsonOption


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Where the events go.")],
    data: DataOption = DATA,
    key: Annotated[
        str | None,
        typer.Option("--key", metavar="KEY", help="The events' key: those of one key stay in their order."),
    ] = None,
    partition: PartitionOption = None,
    seal: SealOption = None,
    name: NameOption = "producer",
    as_json: JsonOption = False,
) -> None:
    """Push every line of standard input as an event, and wait until all are acknowledged.

    With --json a line is an object such as {"key": "anna", "value": "two pears", "headers": {"a": "b"},
    "partition": 0}, where only the value is needed ("value_base64" for bytes), and for each acknowledged
    event a line is printed with its partition, index and time.

    \b
    echo 'two pears' | veristream kabis produce orders
    seq 100000 | veristream kabis produce orders
    veristream kabis produce orders --json < work.jsonl

    With --seal key, value and headers leave this machine encrypted, and only who has the file reads them.

    What was acknowledged is never lost. After a crash the same command goes on where it was: what was
    signed before it is sent again, the very same bytes.

    Exit code: 0 if every event was acknowledged, 2 if one is wrong, 3 if the cluster does not take it.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import produce as work

        work.produce(data, work.Source(topic, key, partition, tuple(seal or ()), name, as_json))
