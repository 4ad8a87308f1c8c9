"""`kabis config`: the effective settings."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import typer

from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.process.settings import to_toml


def show(data: Path, *, as_json: bool) -> None:
    """Prints the settings as TOML or JSON."""
    folder = ClusterFolder(data)
    folder.genesis()  # raises if there is no cluster
    settings = Cluster(folder).settings
    typer.echo(json.dumps(asdict(settings), indent=2) if as_json else to_toml(settings), nl=as_json)
