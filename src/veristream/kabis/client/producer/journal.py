"""A producer's journal: signed batches that may not be admitted yet, on disk before they are sent.

If a crash made a producer forget a batch that it had sent, it would sign another one with the same sequence
number: evidence against an honest producer. With a journal it sends the same bytes again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from veristream.errors import EnvironmentFailure
from veristream.kabis.log.disk.files import Full
from veristream.kabis.log.disk.log import Log, LogOptions, LogRecord, Retention
from veristream.kabis.log.disk.segment import Damaged
from veristream.kabis.protocol.batch import Batch, SignedHeader
from veristream.kabis.protocol.codec import DecodeError, Reader

SEGMENT_BYTES = 16 << 20


class JournalError(EnvironmentFailure):
    """The journal cannot be written, so that the producer can send nothing more."""

    def __init__(self, folder: Path, failure: EnvironmentFailure) -> None:
        super().__init__(
            f"the journal {folder} cannot be written: {failure.message}",
            "make room, then open the producer again, which first sends what is in the journal; "
            "events without an acknowledgement may have to be pushed again",
        )


class Journal:
    """A log in the producer's own folder; `batches` are those of earlier runs, oldest first."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._positions: dict[bytes, int] = {}
        try:
            self._log = Log(folder, LogOptions(segment_bytes_max=segment_bytes))
        except Damaged as error:
            raise _unusable(folder, error.message) from error
        try:
            self.batches = tuple(self._read())
        except (Damaged, DecodeError) as error:
            self._log.close()
            raise _unusable(folder, str(error)) from error

    def _read(self) -> Iterator[bytes]:
        """Yields the batches of the log, and notes their positions."""
        for entry in self._log.records():
            if isinstance(entry, LogRecord):
                signed = SignedHeader.read(Reader(entry.payload, Batch.KIND))
                self._positions[signed.digest()] = entry.position
                yield entry.payload

    def write(self, batches: Sequence[tuple[bytes, bytes]]) -> None:
        """Makes batches, each given with its digest, durable with one flush; raises JournalError."""
        with self._lock:
            try:
                for digest, data in batches:
                    self._positions[digest] = self._log.append(data)
                self._log.sync(now=True)
            except EnvironmentFailure as failure:
                raise JournalError(self._folder, failure) from failure

    def forget(self, digest: bytes) -> None:
        """Forgets a batch that is on the ledger; removes files that contain only such batches."""
        with self._lock:
            self._positions.pop(digest, None)
            retention = Retention(min(self._positions.values(), default=self._log.end))
            with suppress(Full):  # what stays is known to be on the ledger when the journal is opened
                self._log.retain(retention)

    def close(self) -> None:
        """Closes the log."""
        self._log.close()


def _unusable(folder: Path, reason: str) -> EnvironmentFailure:
    return EnvironmentFailure(
        f"the journal {folder} cannot be used: {reason}",
        "move that folder away and push again; only events that were not acknowledged can be missing",
    )
