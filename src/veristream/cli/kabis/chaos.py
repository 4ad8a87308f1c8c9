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
        typer.Argument(metavar="[FAULT]...", help="Which; by default all, one after the other."),
    ] = None,
    events: Annotated[
        int, typer.Option("--events", metavar="N", min=200, max=100_000, help="Events pushed per fault.")
    ] = 500,
    parties: Annotated[int, typer.Option("--parties", metavar="N", help="Validators, 3F + 1.")] = 4,
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="DIR", help="A new folder to keep; by default one that is removed."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Start a cluster, have parties misbehave while events flow, and see that nothing is lost.

    \b
    alter            a storage party changes what it gives back
    withhold         a storage party gives receipts and then nothing
    kill-storage     a storage party is killed (-9) and comes back
    equivocate       a validator votes for two things at once
    silent           a validator says nothing and drops what clients submit
    kill-validator   a validator is killed (-9) and comes back
    kill-producer    a producer is killed (-9) while it pushes, and starts again
    kill-all         all parties are killed (-9) at once and come back

    Under each, every acknowledged event must reach a validating consumer: as it was pushed, in order, once.

    Exit code: 0 if so, 1 if an event was lost, doubled, changed or out of order.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import chaos as work

        work.run(faults or (), events, parties, data, as_json=as_json)
