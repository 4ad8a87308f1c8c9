"""`veristream models`: lists and copies the known models that come with Veristream."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream import known
from veristream.cli.failure import failures
from veristream.cli.options import JsonOption
from veristream.report import json, text

NameArguments = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="The models to list or copy. [default: all]")
]
CopyOption = Annotated[
    Path | None,
    typer.Option(
        "--copy",
        metavar="FOLDER",
        help="Copy each model into a subfolder of FOLDER, with the files that it includes."
        " Existing files are never overwritten.",
    ),
]
FromOption = Annotated[
    Path | None,
    typer.Option(
        "--models",
        metavar="FOLDER",
        help="The folder of known models. [default: those that come with Veristream]",
    ),
]


def models(
    names: NameArguments = None,
    copy: CopyOption = None,
    models: FromOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the known models that come with Veristream, or copy them to work on.

    A known model is a folder with model files and an expected.toml, which says where the model was
    published and lists the expected verdict of each property. Copy one to read or change it; `veristream
    reproduce` needs no copy.

    \b
    veristream models                          list all models, with their papers and files
    veristream models nsq                      list one folder with all variants of its model
    veristream models kafka nsq --copy .       copy two of them to ./kafka and ./nsq
    veristream models --copy models            copy all of them into ./models
    veristream check kafka/kafka.csp           check a copy like any other model
    veristream reproduce nsq                   compare our verdicts with those of its paper

    Exit code: 0, 2 if a name is unknown or a file would be overwritten, 3 if a folder cannot be written.
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
