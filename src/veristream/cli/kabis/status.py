"""`veristream kabis status`."""

from __future__ import annotations

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption


def status(data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """Show which parties run, their heights, evidence against liars, consumer groups, and disk usage.

    Evidence is proof on the ledger: two contradicting signatures of one party. A suspicion of a consumer
    against a storage party is not proof, because answers are not signed; it tells you where to look.

    Exit code: 0 if enough parties answer to admit events, otherwise 3.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import status as work

        work.show(data, as_json=as_json)
