"""`veristream kabis down`."""

from __future__ import annotations

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures


def down(data: DataOption = DATA) -> None:
    """Stop the running parties of a cluster; their data is kept."""
    with kabis_failures():
        from veristream.cli.kabis.work import down as work

        work.down(data)
