"""A driver that loses workers: `lossy.py MASTER python|executor DEPTH...`.

The environment variable EXCHANGE sets how workers exchange states. The tests run this driver in its own
process. For each depth it checks a model on the cluster and, once the search is that deep, kills one of the
processes that explore. It prints, as JSON, how many were killed and what the search found.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from tests.parity.test_shared import told
from tests.spark.cluster import ROOT, executors, kill, python_workers
from veristream.library import load
from veristream.search.limits import Exchange, Limits, Progress, SparkOptions
from veristream.search.shared import handover
from veristream.search.spark.engine import engine
from veristream.spark import open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL = ROOT / "models/philosophers/philosophers.net"
CONSTANTS = {"N": 11, "ORDERED": 1}
PROPERTY = "no_deadlock"


@dataclass(slots=True)
class Killer:
    """Kills one process, once, when the search reaches a depth."""

    session: SparkSession
    what: str
    depth: int
    ended: list[int] = field(default_factory=list)

    def report(self, progress: Progress) -> None:
        """Called after each level."""
        if progress.depth < self.depth or self.ended:
            return
        found = (executors if self.what == "executor" else python_workers)(self.session)
        assert found, f"no {self.what} found to kill"
        kill(found[-1])
        self.ended.append(found[-1])


def main() -> None:
    master, what, *depths = sys.argv[1:]
    handover.WIDE = 1
    exchange = cast(Exchange, os.environ.get("EXCHANGE", "auto"))
    session = open_session(master, "veristream tests")
    network = load(MODEL, CONSTANTS)
    wanted = [one for one in network.properties if one.name == PROPERTY]
    check = engine(lambda: session, SparkOptions(parts=2, start_states=0, exchange=exchange))
    runs = []
    for depth in depths:
        killer = Killer(session, what, int(depth))
        found = check(network, wanted, Limits(), killer.report)
        runs.append({"ended": len(killer.ended), "found": told(found)})
    sys.stdout.write(json.dumps(runs))


if __name__ == "__main__":
    main()
