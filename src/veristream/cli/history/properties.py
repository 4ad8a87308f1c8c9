"""`veristream properties`: the catalogue of properties."""

from __future__ import annotations

from typing import Annotated

import typer

from veristream.catalogue import catalogue, words
from veristream.cli.failure import failures
from veristream.cli.options import JsonOption

NameArguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME", help="The properties to show in full; a word that only one name has is enough."
    ),
]


def properties(names: NameArguments = None, as_json: JsonOption = False) -> None:
    """List what brokers promise: the properties that are proved of models and checked on histories.

    With a name, show it in full: what it means, who promises it and with which settings, the models that
    prove or refute it, and what a recording needs so that `veristream audit` can decide it.

    \b
    veristream properties                                 list them
    veristream properties fenced                          show one: a word is enough if only one has it
    veristream properties 'at most once' order            show two
    veristream properties --json | jq '.properties[].name'

    Exit code: 0, or 2 if a name is unknown.
    """
    with failures():
        entries = catalogue.find_entries(names or ())
        rulings = catalogue.rule(entries)
        if as_json:
            typer.echo(words.render_json(entries, rulings))
        elif names:
            shown = (words.render_entry(entry, rulings[entry.name]) for entry in entries)
            typer.echo("\n\n\n".join(shown))
        else:
            typer.echo(words.render_list(entries, rulings))
