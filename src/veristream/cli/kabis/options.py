"""Options and error handling shared by the Kabis commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.failure import failures
from veristream.errors import EnvironmentFailure

DATA = Path("kabis-data")

DataOption = Annotated[
    Path,
    typer.Option("--data", metavar="DIR", envvar="KABIS_DATA", help="Folder of the cluster."),
]
NameOption = Annotated[
    str, typer.Option("--as", metavar="NAME", help="Client to connect as; `kabis client add` adds one.")
]
NearestOption = Annotated[
    str | None,
    typer.Option(
        "--nearest", metavar="PARTY", help="Ask this storage party first while its answers are right."
    ),
]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", metavar="P", min=0, help="Use only this partition.")
]
SealOption = Annotated[
    list[Path] | None,
    typer.Option("--seal", metavar="FILE", help="Keys of a sealed topic, made by `kabis seal new`."),
]


@contextmanager
def kabis_failures() -> Iterator[None]:
    """Turns failures into messages and exit codes, and says what to install if PyNaCl is missing."""
    with failures():
        try:
            yield
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "nacl":
                raise
            raise EnvironmentFailure("Kabis needs PyNaCl", "pip install 'veristream[kabis]'") from error
