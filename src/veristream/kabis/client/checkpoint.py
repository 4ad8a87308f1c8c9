"""A client's checkpoint: the last certified block that it followed, in a file.

A state may be old without being false. So a client that has a checkpoint opens at its height or above it,
whatever the validators report, and stops if another block of that height is certified. The certificate is
verified when the file is read. The file is never replaced by an older one.
"""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.ledger.event_receipts import CertifiedHeader, ReceiptError
from veristream.kabis.log.disk.files import failure, replace
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Verify

_LOGGER = logging.getLogger(__name__)


class CheckpointError(ModelError):
    """The file is not a certified block of this chain."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{path} is not a checkpoint of this chain: {why}",
            hint="if you know why, delete it; the client then accepts any certified state, however old",
        )


class ForkedChainError(EnvironmentFailure):
    """Another block of the checkpoint's height is certified, so more than F validators have lied."""

    def __init__(self, path: Path, height: int, known: bytes, other: bytes) -> None:
        super().__init__(
            f"block {height:,} is {other.hex()}, and the checkpoint says {known.hex()}",
            f"more than F validators signed twice; keep {path}, which proves it, and ask who operates them",
        )


class Checkpoint:
    """The checkpoint in a file, which need not exist yet; several clients may share it."""

    def __init__(self, path: Path, genesis: Genesis, verify: Verify) -> None:
        """Reads and verifies the file; raises CheckpointError."""
        self._path = path
        self._genesis = genesis
        self._verify = verify
        self._known = self._read()

    @property
    def height(self) -> int:
        """The height below which no state is accepted; 0 without a checkpoint."""
        return 0 if self._known is None else self._known.header.height

    def check(self, height: int, block_id: bytes) -> None:
        """Raises ForkedChainError if this block of the chain contradicts the checkpoint."""
        if self._known is not None and height == self.height and block_id != self._known.header.block_id():
            raise ForkedChainError(self._path, height, self._known.header.block_id(), block_id)

    def keep(self, last: CertifiedHeader) -> None:
        """Replaces the file, unless it has this block or a later one; logs if it cannot."""
        if last.header.height <= self.height:
            return
        try:
            self._replace(last)
        except (EnvironmentFailure, CheckpointError) as error:
            _LOGGER.warning("the checkpoint is not written: %s", error)

    def _replace(self, last: CertifiedHeader) -> None:
        lock = self._path.with_name(f"{self._path.name}.lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise failure(error, lock) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # another client may have written a later one meanwhile
            there = self._read()
            if there is None or there.header.height < last.header.height:
                replace(self._path, last.encode())
                self._known = last
        finally:
            os.close(descriptor)

    def _read(self) -> CertifiedHeader | None:
        try:
            known = CertifiedHeader.decode(self._path.read_bytes())
            known.verify(self._genesis, self._verify)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure(error, self._path) from error
        except (DecodeError, ReceiptError) as error:
            raise CheckpointError(self._path, str(error)) from error
        return known
