"""A validator's snapshots on disk: a folder for each, with the manifest and the chunks as files.

A snapshot is written beside the others under a temporary name, flushed, and then renamed, so that a crash
leaves whole ones only. Writes wait for each other. The newest two are kept: if the last one is damaged, the
one before it still serves.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ledger.snapshot import FalseSnapshotError, Manifest, Snapshot, restore
from veristream.kabis.ledger.trie import count_leaves
from veristream.kabis.log.disk.files import failure, flush_folder, replace
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Verify
from veristream.kabis.protocol.keys import verify as verify_signature

_LOGGER = logging.getLogger(__name__)

KEPT = 2
_MANIFEST = "manifest"
_UNFINISHED = ".new"


LEAVES_PER_TRANSACTION = 10
"""About as many leaves are written to a snapshot in the time that it takes to apply one transaction."""


@dataclass(frozen=True, slots=True)
class Retained:
    """After how many blocks a snapshot is taken at the latest, and how many are kept; 0 is no limit."""

    every_blocks: int = 1000
    keep_blocks: int = 0


class SnapshotFolder:
    """The snapshots in a folder; those that are not whole or not of this chain are skipped."""

    def __init__(self, path: Path, verify: Verify = verify_signature) -> None:
        self._path = path
        self._verify = verify
        self._writing = threading.Lock()
        path.mkdir(parents=True, exist_ok=True)
        for left in path.glob(f"*{_UNFINISHED}"):
            shutil.rmtree(left, ignore_errors=True)

    def heights(self) -> list[int]:
        """Returns the heights of the snapshots, ascending."""
        return sorted(int(each.name) for each in self._path.iterdir() if each.name.isdecimal())

    def write(self, snapshot: Snapshot, following: CertifiedHeader) -> int:
        """Writes a snapshot, given the certified next header; returns its height once it is durable.

        May be called from any thread. Raises EnvironmentFailure, and then keeps nothing of it.
        """
        return self._write(snapshot.chunks(), lambda count: snapshot.describe(following, count))

    def keep(self, genesis: Genesis, manifest: Manifest, chunks: Sequence[bytes]) -> int:
        """Verifies and writes a snapshot that came from elsewhere, as `write` does.

        Raises FalseSnapshotError, and then keeps nothing of it.
        """
        restore(genesis, manifest, chunks, self._verify)
        return self._write(iter(chunks), lambda _: manifest)

    def _write(self, chunks: Iterator[bytes], describe: Callable[[int], Manifest]) -> int:
        with self._writing:
            try:
                fresh = Path(tempfile.mkdtemp(_UNFINISHED, "next-", self._path))
            except OSError as error:
                raise failure(error, self._path) from error
            try:
                return self._finish(fresh, chunks, describe)
            except OSError as error:
                raise failure(error, fresh) from error
            finally:
                shutil.rmtree(fresh, ignore_errors=True)

    def _finish(self, fresh: Path, chunks: Iterator[bytes], describe: Callable[[int], Manifest]) -> int:
        """Fills the folder of a new snapshot, gives it its name, and removes old ones."""
        count = 0
        for count, chunk in enumerate(chunks, start=1):
            replace(fresh / _chunk_name(count - 1), chunk)
        manifest = describe(count)
        replace(fresh / _MANIFEST, manifest.encode())
        height = manifest.header.height
        with suppress(FileNotFoundError):
            shutil.rmtree(self._path / str(height))
        fresh.rename(self._path / str(height))
        flush_folder(self._path)
        for old in self.heights()[:-KEPT]:
            shutil.rmtree(self._path / str(old), ignore_errors=True)
        return height

    def is_whole(self, height: int) -> bool:
        """Whether the snapshot of this height has its manifest and all its chunks on disk."""
        return _is_whole(self._path, height)

    def manifest(self) -> bytes | None:
        """Returns the encoded manifest of the newest snapshot, or None."""
        for height in reversed(self.heights()):
            with suppress(OSError):
                return (self._path / str(height) / _MANIFEST).read_bytes()
        return None

    def chunk(self, height: int, number: int) -> bytes | None:
        """Returns an encoded chunk; None if there is no such snapshot or chunk."""
        try:
            return (self._path / str(height) / _chunk_name(number)).read_bytes()
        except OSError:
            return None

    def restore(self, genesis: Genesis, check: Verify) -> Ledger | None:
        """Returns the ledger after the newest good snapshot, or None; `check` verifies what comes later."""
        for height in reversed(self.heights()):
            try:
                manifest = Manifest.decode((self._path / str(height) / _MANIFEST).read_bytes())
                chunks = self._chunks(height, manifest.chunks)
                return restore(genesis, manifest, chunks, self._verify, check)
            except (OSError, DecodeError, FalseSnapshotError) as error:
                _LOGGER.warning("skipped the snapshot at height %d: %s", height, error)
        return None

    def _chunks(self, height: int, count: int) -> Iterator[bytes]:
        for number in range(count):
            yield (self._path / str(height) / _chunk_name(number)).read_bytes()


class Taking:
    """Decides when to take a snapshot: every so many blocks, or earlier if these have many transactions.

    Transactions bound what a restart applies again. Writing a large state costs more, so their number
    grows with the state: the cost of snapshots stays in proportion to that of the transactions.
    """

    def __init__(self, every_blocks: int, transactions_least: int = 5000) -> None:
        self._every_blocks = every_blocks
        self._transactions_least = transactions_least
        self._taken: Snapshot | None = None
        self._last = 0
        self._transactions = 0  # after the last snapshot

    def started(self, height: int) -> None:
        """The newest snapshot on disk is of this height."""
        self._last = height

    def decided(self, ledger: Ledger, header: CertifiedHeader) -> tuple[Snapshot, CertifiedHeader] | None:
        """Takes note of a decided block; returns the snapshot to write, with its certified header."""
        taken, self._taken = self._taken, None
        height, count = header.header.height, header.header.count
        self._transactions += count
        if ledger.height == height and ledger.protocol.version > 1 and self._is_due(ledger):
            self._taken = Snapshot.take(ledger)
        if taken is None or taken.header.height + 1 != height:
            return None
        self._last, self._transactions, self._taken = taken.header.height, count, None
        return taken, header

    def _is_due(self, ledger: Ledger) -> bool:
        enough = max(self._transactions_least, count_leaves(ledger.freeze()) // LEAVES_PER_TRANSACTION)
        return ledger.height - self._last >= self._every_blocks or self._transactions >= enough


def find_newest(path: Path) -> int | None:
    """Returns the height of the newest whole snapshot in a folder, which another process may have open."""
    heights = [int(each.name) for each in path.glob("*") if each.name.isdecimal()]
    return max((height for height in heights if _is_whole(path, height)), default=None)


def _is_whole(path: Path, height: int) -> bool:
    folder = path / str(height)
    try:
        manifest = Manifest.decode((folder / _MANIFEST).read_bytes())
    except (OSError, DecodeError):
        return False
    names = (_chunk_name(number) for number in range(manifest.chunks))
    return manifest.header.height == height and all((folder / name).is_file() for name in names)


def _chunk_name(number: int) -> str:
    return f"chunk-{number:06}"
