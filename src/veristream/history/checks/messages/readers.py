"""`only who may reads`."""

from __future__ import annotations

import numpy as np

from veristream.history.checks.parts import Fact, Part
from veristream.history.checks.rows import Rows
from veristream.history.checks.table.codes import encode_all
from veristream.history.checks.table.table import first_row
from veristream.history.events import Operation
from veristream.history.manifest import Manifest
from veristream.history.reasons import Evidence
from veristream.history.verdicts import Anomaly
from veristream.history.witnesses import WITNESSES, make_witness

LEAKED = "leaked"


def find_leaks(rows: Rows, manifest: Manifest) -> Part:
    """Finds which processes received from a stream that they may not read; `settle` counts them."""
    streams = manifest.streams
    permitted = np.ones((len(streams), len(manifest.processes)), np.bool_)
    for stream, each in enumerate(streams):
        if each.readers is not None:
            permitted[stream] = np.isin(np.arange(len(manifest.processes)), each.readers)
    has_readers = np.array([each.readers is not None for each in streams], np.bool_)
    receipts = np.flatnonzero(rows["operation"] == Operation.RECEIVE)
    receipts = receipts[has_readers[rows["stream"][receipts]]]
    leaked = receipts[~permitted[rows["stream"][receipts], rows["process"][receipts]]]
    codes, found = encode_all(rows["stream"][leaked], rows["process"][leaked])
    pairs = list(zip(*(each.tolist() for each in found), strict=True))
    witnesses = []
    for code, (stream, process) in enumerate(pairs[:WITNESSES]):
        event = rows.events([first_row(rows, leaked[codes == code])])[0]
        anomaly = Anomaly(LEAKED, stream=stream, process=process)
        witnesses.append(make_witness(anomaly, [event], manifest))
    facts: frozenset[Fact] = frozenset((LEAKED, stream, process) for stream, process in pairs)
    return Part(Evidence(asked=len(receipts), witnesses=tuple(witnesses)), facts)
