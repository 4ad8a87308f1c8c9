"""`kabis units`: writes units of systemd."""

from __future__ import annotations

from pathlib import Path

import typer

from veristream.errors import EnvironmentFailure
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.operations.units import make_units, write_units


def write(data: Path, out: Path, user: str) -> None:
    """Writes the units and prints their names."""
    made = make_units(Cluster(ClusterFolder(data)), user)
    try:
        write_units(made, out)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write to {out}: {error.strerror}", "choose another folder"
        ) from error
    for unit in made:
        typer.echo(str(out / unit.name))
