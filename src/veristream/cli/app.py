"""The `veristream` command, assembled from its verbs."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream import __version__
from veristream.cli.verbs import Verbs

app = typer.Typer(
    name="veristream",
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"veristream {__version__}")
        raise typer.Exit


@app.callback()
def veristream(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Trust in message streams: prove the design of a messaging system, run one, audit what it did.

    \b
    veristream tour                                           prove, run and audit in a few minutes
    veristream models --copy models                           copy the included models
    veristream check models/philosophers/philosophers.net     check every property of a model
    veristream simulate models/philosophers/philosophers.net  draw one random run
    veristream reproduce                                      compare our verdicts with published ones
    veristream export models/philosophers/philosophers.net --to promela
    veristream kabis up                                       start an event-streaming cluster

    Run a command with --help for details and examples: veristream check --help
    """
