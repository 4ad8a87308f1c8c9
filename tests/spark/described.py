"""Prints what Spark's status API says about a job while a model is checked: `described.py MASTER`."""

from __future__ import annotations

import json
import sys
import time
from urllib.request import urlopen

from tests.parity.test_shared import safety_of
from tests.spark.cluster import ROOT
from veristream.library import load
from veristream.search.limits import Limits, Progress, SparkOptions
from veristream.search.shared import handover
from veristream.search.spark.engine import engine
from veristream.spark import open_session


def _read(address: str) -> list[dict[str, object]]:
    with urlopen(address, timeout=120) as answer:
        return list(json.load(answer))


def main() -> None:
    handover.WIDE = 1
    session = open_session(sys.argv[1], "veristream tests")
    context = session.sparkContext
    found: dict[str, object] = {}

    def look(progress: Progress) -> None:
        """Reads the running job once it has begun to explore."""
        if progress.depth > 3 and not found:
            address = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/jobs"
            while not (jobs := _read(address)):  # Spark shows a job a moment after it has begun
                time.sleep(0.05)
            (job,) = jobs
            found.update({key: job[key] for key in ("description", "status")})

    network = load(ROOT / "models/philosophers/philosophers.net", {"N": 8, "ORDERED": 1})
    check = engine(lambda: session, SparkOptions(parts=2, start_states=0))
    check(network, safety_of(network), Limits(), look)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
