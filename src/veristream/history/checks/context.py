"""Context: what the check of a bucket needs that is not in the bucket itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristream.history.checks.rows import Rows
from veristream.history.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Context:
    """The small part of a history that all buckets need.

    `jumped` says of each process whether its clock did. `control` are all events without a stream (OPEN,
    BEGIN, END_COMMIT, END_ABORT, CLOSE), ordered by process and index. `strays` are all events of `SEND` in
    a stream with partition -1, `ready` all events of `READY`. `subscriptions` are, by queue, the groups
    with a `RECEIVE` or `READ_TO_END` in any partition, ascending; -1 is that without a group.
    `spread` are the queues whose `RECEIVE`, `ACKNOWLEDGE` and `REJECT` events are in several buckets.

    The three rows have all columns.
    """

    manifest: Manifest
    jumped: NDArray[np.bool_]
    control: Rows
    strays: Rows
    ready: Rows
    subscriptions: Mapping[int, tuple[int, ...]]
    spread: frozenset[int] = frozenset()

    def comparable(self, one: int, other: int) -> bool:
        """Says whether events of the two processes can be ordered."""
        if one == other:
            return True
        hosts = self.manifest.processes[one].host, self.manifest.processes[other].host
        return hosts[0] == hosts[1] != "" and not self.jumped[one] and not self.jumped[other]
