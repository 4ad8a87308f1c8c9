"""Clocks: which processes can be compared in real time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.context import Context
from veristream.history.checks.transactions.keys import Bools


class Clocks:
    """Says for many pairs of processes at a time whether their events can be ordered."""

    def __init__(self, context: Context) -> None:
        hosts: dict[str, int] = {}
        self._host = np.empty(len(context.manifest.processes), np.int64)
        for number, process in enumerate(context.manifest.processes):
            known = process.host != "" and not context.jumped[number]
            own = hosts.setdefault(process.host, len(hosts))
            self._host[number] = own if known else -1 - number

    def comparable(self, one: NDArray[Any], other: NDArray[Any]) -> Bools:
        """Says of each pair whether its events can be ordered."""
        return np.asarray(self._host[one] == self._host[other])
