"""`veristream tour`: prove, run and audit in one command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.choices import write_page
from veristream.cli.failure import Exit, failures
from veristream.cli.reproduce import ModelsOption

PageOption = Annotated[Path, typer.Option("--html", metavar="FILE", help="Where to write the report.")]
EventsOption = Annotated[
    int, typer.Option("--events", metavar="N", min=400, max=1_000_000, help="Number of events to produce.")
]


def tour(
    page: PageOption = Path("report.html"), models: ModelsOption = None, events: EventsOption = 20_000
) -> None:
    """Show what Veristream does: prove designs, run a cluster, audit what it did.

    \b
    prove   check models from papers and compare our verdicts with the published ones
    run     start a cluster in which two of seven parties lie; consumers still get the original events
    audit   check every copy of every event on Spark and name the liars
    replay  make a counterexample happen on a real Kafka, if one is on this machine already

    The tour takes a few minutes, needs no external service and writes one page, report.html.

    Exit code: 0 if every verdict is as expected, no event was lost, the audit named both liars, and the
    replay ended as expected.
    """
    with failures():
        from veristream.tour import render_tour, summarise, take_tour

        found = take_tour(models=models, events=events, tell=_tell)
        for verb, told in summarise(found):
            typer.echo(f"{verb:<8} {told}")
        write_page(page, lambda: render_tour(found))
        typer.echo(f"report: {page}")
        if not found.is_as_told:
            raise typer.Exit(Exit.VIOLATED)


def _tell(what: str) -> None:
    typer.echo(what, err=True)
