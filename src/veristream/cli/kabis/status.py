"""`veristream kabis status`."""

from __future__ import annotations

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption


def status(data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """Show who runs, how far everybody is, who was caught lying, and how much disk it takes.

    Evidence is proof that stands on the ledger: two contradicting signatures of one party. What consumers
    say of storage parties is no proof, for answers are not signed; it tells you where to look.

    Exit code: 0 if enough parties answer for events to be admitted, else 3.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import status as work

        work.show(data, as_json=as_json)
