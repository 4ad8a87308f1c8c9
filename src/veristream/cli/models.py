"""`veristream models`: the known models that come with Veristream, and copies of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream import known
from veristream.cli.failure import failures
from veristream.cli.options import JsonOption
from veristream.report import json, text

NameArguments = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Only these models; all by default.")
]
CopyOption = Annotated[
    Path | None,
    typer.Option(
        "--copy",
        metavar="FOLDER",
        help="Copy the models into this folder, each into a folder of its name, with the files that they"
        " include. An existing file is never overwritten.",
    ),
]
FromOption = Annotated[
    Path | None,
    typer.Option(
        "--models",
        metavar="FOLDER",
        help="Where the models are. By default those that come with Veristream.",
    ),
]


def models(
    names: NameArguments = None,
    copy: CopyOption = None,
    models: FromOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the known models that come with Veristream, or copy them to work on.

    A known model is a folder with model files and an expected.toml: where it was published, and the
    verdict of each property. Reproduce checks it where it is; a copy is yours to read and to change.

    \b
    veristream models                          all of them: what they are, papers, files
    veristream models nsq                      one of them, with every variant that its paper has
    veristream models kafka nsq --copy .       copies: ./kafka and ./nsq
    veristream models --copy models            copies of all, below ./models
    veristream check kafka/kafka.csp           a copy, checked like any model
    veristream reproduce nsq                   every verdict of its paper

    Exit code: 0, or 2 if a name is unknown or a file is in the way.
    """
    with failures():
        folders = known.list_models(names or (), models=models)
        copied = None if copy is None else known.copy_models(names or (), to=copy, models=models)
        if as_json:
            typer.echo(json.render_models(folders, copied))
        elif copied is None:
            typer.echo(text.render_models(folders, variants=bool(names)))
        else:
            typer.echo(text.render_copied(copied))
