"""`veristream kabis chaos`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.kabis.options import kabis_failures
from veristream.cli.options import JsonOption


def chaos(
    faults: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FAULT]...", help="Faults to try, in turn; by default all."),
    ] = None,
    events: Annotated[
        int, typer.Option("--events", metavar="N", min=200, max=100_000, help="Events to push per fault.")
    ] = 500,
    parties: Annotated[
        int, typer.Option("--parties", metavar="N", help="Number of validators, 3F + 1.")
    ] = 4,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="New folder, kept; by default a temporary one."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a cluster, make parties misbehave while events flow, and check that nothing is lost.

    \b
    alter            a storage party alters the events that it returns
    withhold         a storage party signs receipts but does not return the events
    kill-storage     a storage party is killed (-9) and restarted
    equivocate       a validator votes for two values at once
    silent           a validator sends nothing and drops what clients submit
    kill-validator   a validator is killed (-9) and restarted
    kill-producer    a producer is killed (-9) while it pushes, and restarted
    kill-all         all parties are killed (-9) at once and restarted

    Under each fault, a validating consumer must receive every acknowledged event unchanged, in order and
    exactly once.

    Exit code: 0 if it does, 1 if an event was lost, duplicated, altered or out of order.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import chaos as work

        work.run(faults or (), events, parties, data, as_json=as_json)
