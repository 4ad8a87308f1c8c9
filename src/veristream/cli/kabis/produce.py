"""`veristream kabis produce`."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.cli.kabis import options
from veristream.cli.options import JsonOption


def produce(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to push to.")],
    data: options.DataOption = options.DATA,
    key: Annotated[
        str | None,
        typer.Option(
            "--key", metavar="KEY", help="Key of the events; events with the same key stay in order."
        ),
    ] = None,
    partition: options.PartitionOption = None,
    seal: options.SealOption = None,
    name: options.NameOption = "producer",
    as_json: JsonOption = False,
) -> None:
    """Push each line of standard input as an event, and wait until all are acknowledged.

    With --json, a line is an object such as {"key": "anna", "value": "two pears", "headers": {"a": "b"},
    "partition": 0}. Only the value is required ("value_base64" for bytes). For each acknowledged event a
    line with its partition, index and time is printed.

    \b
    echo 'two pears' | veristream kabis produce orders
    seq 100000 | veristream kabis produce orders
    veristream kabis produce orders --json < work.jsonl

    With --seal, key, value and headers are encrypted; only clients with the file can read them.

    Acknowledged events are never lost. After a crash, the same command resumes: it sends again, byte for
    byte, the events that were already signed.

    Exit code: 0 if every event was acknowledged, 2 if an event is wrong, 3 if the cluster does not accept
    it.
    """
    with options.kabis_failures():
        from veristream.cli.kabis.work import produce as work

        work.produce(data, work.Source(topic, key, partition, tuple(seal or ()), name, as_json))
