"""A producer's journal: what it signed and does not yet know to be admitted, on disk before it leaves.

A batch that left and was forgotten in a crash would be signed anew, with the same sequence number and other
events: evidence against an honest producer. With a journal the very same bytes go out again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from veristream.kabis.batch import SignedHeader
from veristream.kabis.codec import Reader
from veristream.kabis.storage.log import Log, LogOptions, Record, Retention

SEGMENT_BYTES = 16 << 20


class Journal:
    """A log in a folder of this producer's own; `batches` are those of earlier runs, oldest first."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._log = Log(folder, LogOptions(segment_bytes_max=segment_bytes))
        self._lock = threading.Lock()
        self._positions: dict[bytes, int] = {}
        batches = []
        for entry in self._log.records():
            if isinstance(entry, Record):
                batches.append(entry.payload)
                signed = SignedHeader.read(Reader(entry.payload, "batch"))
                self._positions[signed.digest()] = entry.position
        self.batches = tuple(batches)

    def write(self, batches: Sequence[tuple[bytes, bytes]]) -> None:
        """Makes batches, each with its digest, durable, all with one flush."""
        with self._lock:
            for digest, data in batches:
                self._positions[digest] = self._log.append(data)
            self._log.sync(now=True)

    def forget(self, digest: bytes) -> None:
        """The batch is on the ledger; files that hold only such batches are removed."""
        with self._lock:
            self._positions.pop(digest, None)
            retention = Retention(min(self._positions.values(), default=self._log.end))
            self._log.retain(retention)

    def close(self) -> None:
        """Lets go of the folder."""
        self._log.close()
