"""`veristream kabis config`."""

from __future__ import annotations

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption


def config(data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """Print the settings of all parties: those in DIR/kabis.toml, and the defaults of the rest.

    The output is a complete kabis.toml. Parties read it when they start.

    Exit code: 0 if the settings are right, otherwise 2.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import config as work

        work.show(data, as_json=as_json)
