"""`only who may reads`."""

from __future__ import annotations

import numpy as np

from veristream.history.checks.parts import Fact, Part
from veristream.history.checks.rows import Rows
from veristream.history.checks.table.table import first_row
from veristream.history.events import Operation
from veristream.history.manifest import Manifest
from veristream.history.reasons import Evidence
from veristream.history.verdicts import Anomaly
from veristream.history.witnesses import first_of_each, make_witness

LEAKED = "leaked"


def find_leaks(rows: Rows, manifest: Manifest) -> Part:
    """Finds which processes received from a stream that they may not read; `settle` counts them."""
    received = rows["operation"] == Operation.RECEIVE
    asked = 0
    facts: set[Fact] = set()
    witnesses = []
    for stream, each in enumerate(manifest.streams):
        if each.readers is None:
            continue
        receipts = np.flatnonzero(received & (rows["stream"] == stream))
        asked += len(receipts)
        leaked = receipts[~np.isin(rows["process"][receipts], np.array(each.readers, np.int64))]
        for process in np.unique(rows["process"][leaked]).tolist():
            facts.add((LEAKED, stream, process))
            event = rows.events([first_row(rows, leaked[rows["process"][leaked] == process])])[0]
            anomaly = Anomaly(LEAKED, stream=stream, process=process)
            witnesses.append(make_witness(anomaly, [event], manifest))
    return Part(Evidence(asked=asked, witnesses=first_of_each(witnesses)), frozenset(facts))
