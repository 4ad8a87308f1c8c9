"""A driver with dynamic allocation, with which Spark refuses barrier stages: `elastic.py MASTER`.

The tests run it in its own process. It prints, as JSON, the remarks for the user and the results.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

import veristream as vs
from tests.parity.test_shared import told
from tests.spark.cluster import ROOT
from veristream.search.limits import SparkOptions
from veristream.search.shared import handover

MODEL = ROOT / "models/philosophers/philosophers.net"
CONSTANTS = {"ORDERED": 1}
PROPERTY = "no_deadlock"
SETTINGS = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
}


def main() -> None:
    builder = SparkSession.builder.master(sys.argv[1])
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    handover.WIDE = 1
    said: list[str] = []
    options = SparkOptions(parts=2, start_states=0, tell=lambda *words: said.append(": ".join(words)))
    found = vs.check(MODEL, [PROPERTY], constants=CONSTANTS, spark=options)
    session.stop()
    sys.stdout.write(json.dumps({"said": said, "found": told(found)}))


if __name__ == "__main__":
    main()
