"""The `veristream` command, assembled from its verbs."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from veristream import __version__
from veristream.cli.broker import app as broker
from veristream.cli.check import check
from veristream.cli.export import export
from veristream.cli.kabis import app as kabis
from veristream.cli.models import models
from veristream.cli.reproduce import reproduce
from veristream.cli.simulate import simulate
from veristream.cli.tour import tour

app = typer.Typer(
    name="veristream",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command()(check)
app.command()(simulate)
app.command()(models)
app.command()(reproduce)
app.command()(export)
app.command()(tour)
app.add_typer(kabis, name="kabis")
app.add_typer(broker, name="broker")


def run() -> None:
    """Runs the command; characters that the terminal cannot encode are escaped instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    app()


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
