"""`veristream kabis backup` and `veristream kabis restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The archive.")]
PartyOption = Annotated[
    list[str] | None,
    typer.Option("--party", metavar="NAME", help="Only this party; may be given several times."),
]


def backup(
    file: FileArgument,
    data: DataOption = DATA,
    party: PartyOption = None,
    with_keys: Annotated[
        bool, typer.Option("--with-keys", help="Include secret keys and passwords; keep the file safe.")
    ] = False,
) -> None:
    """Copy a cluster's folder, or some of its parties, to a new file, while they run or not.

    The file has the genesis, the settings, and the logs of the parties up to what is durable. Secret keys
    are left out by default, and journals of producers always. Logs in Kafka are not copied.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import backup as work

        work.backup(data, file, tuple(party or ()), with_keys=with_keys)


def restore(
    file: FileArgument,
    data: DataOption = DATA,
    party: PartyOption = None,
    give_up_later_blocks: Annotated[
        bool,
        typer.Option(
            "--give-up-later-blocks",
            help="Let restored validators vote at once: what was decided after the backup is lost, and"
            " receipts of it contradict the new chain.",
        ),
    ] = False,
) -> None:
    """Restore a backup to a new folder, or with --party some parties to an existing cluster.

    Nothing is overwritten. The archive is checked as a whole before anything is restored. A restored
    validator does not know how it voted after the backup: it fetches blocks from the others, and votes
    again only at heights at which it cannot have voted.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import backup as work

        work.restore(data, file, tuple(party or ()), give_up_later=give_up_later_blocks)
