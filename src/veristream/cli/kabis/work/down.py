"""`kabis down`: stops the running parties."""

from __future__ import annotations

from pathlib import Path

import typer

from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder


def down(data: Path) -> None:
    stopped = Cluster(ClusterFolder(data)).stop()
    typer.echo(f"stopped {', '.join(stopped)}" if stopped else f"no party of {data} is running")
