"""Measures one exploration, on Spark or locally, in a separate process: `_spark.py JSON`.

Prints one JSON object. Before the clock starts, it explores a tiny model in the same way, so that the
session is open and every worker has loaded the native loops; the model's kernel is compiled by then, too.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from veristream.ir.network import Network
from veristream.kernel.layout import lay_out
from veristream.library import load
from veristream.search.limits import Limits, SparkOptions, silent
from veristream.search.reach.batch import Batch
from veristream.search.reach.safety import Open, opened, opening_locally
from veristream.search.shared import handover
from veristream.search.shared.handover import Handover
from veristream.search.spark.engine import Cluster, opening_on_spark
from veristream.search.spark.exchange import ExchangeChoice
from veristream.spark import open_session


def main() -> None:
    assignment = json.loads(sys.argv[1])
    parts, is_spark = int(assignment["parts"]), assignment["tool"] == "spark"
    workers = 1 if is_spark else parts
    limits = Limits(workers=workers, memory_max_mib=assignment["limit_mib"], symmetry=False)
    network = load(Path(assignment["model"]), assignment["constants"])
    tiny = load(Path(assignment["model"]), {**assignment["constants"], "N": 4})
    if is_spark:
        session = open_session(f"local[{parts}]", "veristream bench")
        handover.WIDE = 1  # the workers explore everything
        options = SparkOptions(parts=parts, spill=assignment["spill"] or None, start_states=0)
        cluster = Cluster(lambda: session, lambda: parts, options, ExchangeChoice(options.exchange))
    found: dict[str, Any] = {}
    for one in (tiny, network):
        open_ = opening_on_spark(cluster, one, limits) if is_spark else opening_locally(limits)
        found = explore(one, limits, open_)
    sys.stdout.write(json.dumps(found))


def explore(network: Network, limits: Limits, open_: Open) -> dict[str, Any]:
    """Explores the whole model and checks its properties; the clock runs from the first level to the last,
    after the workers have connected."""
    batch = Batch()
    for property_ in network.properties:
        batch.add(property_)
    with opened(network, batch, (limits, silent), open_) as search:
        exploration = search.session.exploration
        if isinstance(exploration, Handover):
            exploration.advance(1)  # connects the workers
        began = time.perf_counter()
        search.run()
        seconds = time.perf_counter() - began
        found = {
            "states": exploration.counts.states,
            "search_seconds": seconds,
            "levels": exploration.counts.depth,
        }
        if isinstance(exploration, Handover) and exploration.shared is not None:
            found["sent"] = sum(one.sent for one in exploration.shared.counters)
            found["record_bytes"] = 8 * (lay_out(network).word_count + 1)
        return found


if __name__ == "__main__":
    main()
