"""What the commands of Kabis share."""

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
    typer.Option("--data", metavar="DIR", envvar="KABIS_DATA", help="The cluster's folder."),
]
NameOption = Annotated[
    str, typer.Option("--as", metavar="NAME", help="Whose key signs; `kabis client add` makes more.")
]
NearestOption = Annotated[
    str | None,
    typer.Option("--nearest", metavar="PARTY", help="Ask this storage party first while it answers well."),
]
PartitionOption = Annotated[
    int | None, typer.Option("--partition", metavar="P", min=0, help="Only this partition.")
]
SealOption = Annotated[
    list[Path] | None,
    typer.Option("--seal", metavar="FILE", help="The keys of a sealed topic; `kabis seal new` makes them."),
]


@contextmanager
def kabis_failures() -> Iterator[None]:
    """Turns failures into messages and exit codes, and says what to install where it is missing."""
    with failures():
        try:
            yield
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "nacl":
                raise
            raise EnvironmentFailure("Kabis needs PyNaCl", "pip install 'veristream[kabis]'") from error
