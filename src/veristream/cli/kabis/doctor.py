"""`veristream kabis doctor`."""

from __future__ import annotations

from veristream.cli.kabis.options import DATA, DataOption, kabis_failures
from veristream.cli.options import JsonOption


def doctor(data: DataOption = DATA, as_json: JsonOption = False) -> None:
    """Check the folder of a cluster, and the cluster if it runs; say what is wrong and what to do.

    In the folder: keys and their permissions, genesis, settings, every byte of every log, records of votes,
    disk space, limits and ports. Of the cluster: who is down or silent, heights, blocks, certificates,
    clocks. Nothing is changed.

    Exit code: 0 without errors, 1 with errors, 2 if there is no cluster, 3 if the machine fails.
    """
    with kabis_failures():
        from veristream.cli.kabis.work import doctor as work

        work.show(data, as_json=as_json)
