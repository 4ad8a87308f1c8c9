"""`kabis backup` and `kabis restore`."""

from __future__ import annotations

from pathlib import Path

import typer

from veristream.cli.kabis.table import show_bytes
from veristream.errors import ModelError
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.operations.backup import make_backup, restore_all, restore_parties


def backup(data: Path, file: Path, names: tuple[str, ...], *, with_keys: bool) -> None:
    """Makes a backup and prints its digest."""
    made = make_backup(Cluster(ClusterFolder(data)), file, names, with_keys=with_keys)
    typer.echo(f"{file}: {', '.join(made.parties)}, {show_bytes(made.size_bytes)}")
    typer.echo(f"sha256 {made.digest}")
    if not with_keys:
        typer.echo("without secret keys: keep those of the folder, or make the backup --with-keys")


def restore(data: Path, file: Path, names: tuple[str, ...], *, give_up_later: bool) -> None:
    """Restores a backup and says what to do next."""
    folder = ClusterFolder(data)
    if names and give_up_later:
        raise ModelError(
            "--party and --give-up-later-blocks exclude each other",
            hint="the other parties have the later blocks",
        )
    if names:
        manifest = restore_parties(file, Cluster(folder), names)
    else:
        manifest = restore_all(file, folder, give_up_later=give_up_later)
    restored = names or manifest.parties
    typer.echo(f"restored {', '.join(restored)} of chain {manifest.chain_id} to {data}")
    if not manifest.has_keys:
        typer.echo("the backup has no secret keys: put each party's key to PARTY/key, with mode 600")
    if not give_up_later and any(name.startswith("validator-") for name in restored):
        typer.echo("a restored validator votes again above all heights at which it may have voted")
