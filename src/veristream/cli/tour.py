"""`veristream tour`: prove, run and audit in one go."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.failure import Exit, failures
from veristream.cli.options import write_page
from veristream.cli.reproduce import ModelsOption

PageOption = Annotated[
    Path, typer.Option("--html", metavar="FILE", help="Where the page of all that was found is written.")
]
EventsOption = Annotated[
    int, typer.Option("--events", metavar="N", min=400, max=1_000_000, help="Events pushed to the cluster.")
]


def tour(
    page: PageOption = Path("report.html"), models: ModelsOption = None, events: EventsOption = 20_000
) -> None:
    """See what Veristream does: prove a design, run a cluster, audit what it did.

    \b
    prove   the papers' models, their verdicts beside ours
    run     seven parties on this machine, two of which lie, and consumers that do not notice
    audit   every copy of every event, on Spark: who lied

    It takes a few minutes, needs no service, and leaves one page: report.html.

    Exit code: 0 if every verdict is the expected one, nothing was lost and the liars were named.
    """
    with failures():
        from veristream.tour import render_tour, summarise, take_tour

        found = take_tour(models=models, events=events, tell=_tell)
        for verb, told in summarise(found):
            typer.echo(f"{verb:<8} {told}")
        write_page(page, lambda: render_tour(found))
        typer.echo(f"all of it: {page}")
        if not found.is_as_told:
            raise typer.Exit(Exit.VIOLATED)


def _tell(what: str) -> None:
    typer.echo(what, err=True)
