"""`veristream kabis units`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures


def units(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write the units to.")],
    data: DataOption = DATA,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="User that runs the parties.")
    ] = "kabis",
) -> None:
    """Write units of systemd for a cluster: a service for each party, and a target for all.

    \b
    veristream kabis units units --data /srv/kabis
    sudo cp units/* /etc/systemd/system/ && sudo systemctl daemon-reload
    sudo systemctl enable --now kabis-....target

    The user must own the cluster's folder. Make the units again after a change of kabis.toml.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import units as work

        work.write(data, out, user)
