"""`kabis down`: stops what runs."""

from __future__ import annotations

from pathlib import Path

import typer

from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder


def down(data: Path) -> None:
    """Stops what runs."""
    stopped = Cluster(ClusterFolder(data)).stop()
    typer.echo(f"stopped {', '.join(stopped)}" if stopped else f"nothing of {data} runs")
