"""A client's checkpoint: the last certified block that it followed, and the members since the genesis.

A state may be old without being false. So a client that has a checkpoint opens at its height or above it,
whatever the validators report, and stops if another block of that height is certified. The certificate is
verified when the file is read. The file is never replaced by an older one.

A snapshot without the changes of the members that the checkpoint knows is refused too: validators that have
left may have lost their keys since.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.ledger.certified import CertifiedHeader, ReceiptError
from veristream.kabis.ledger.succession import Handovers, Succession
from veristream.kabis.log.disk.files import failure, replace
from veristream.kabis.protocol.codec import Coded, DecodeError, decode_one_of, domain_tag
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Verify

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Known(Coded, kind="client-checkpoint", bytes_max=8 << 20):
    """A certified block, and the handovers up to it; without any, the file holds the block alone."""

    block: CertifiedHeader
    handovers: Handovers = ()

    @property
    def height(self) -> int:
        """The height of the block."""
        return self.block.header.height

    @property
    def block_id(self) -> bytes:
        """The id of the block."""
        return self.block.header.block_id()


_TAGS: Mapping[bytes, type[CertifiedHeader] | type[Known]] = {
    domain_tag(kind.KIND): kind for kind in (CertifiedHeader, Known)
}


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
        return 0 if self._known is None else self._known.height

    def check(self, height: int, block_id: bytes) -> None:
        """Raises ForkedChainError if this block of the chain contradicts the checkpoint."""
        if self._known is not None and height == self.height and block_id != self._known.block_id:
            raise ForkedChainError(self._path, height, self._known.block_id, block_id)

    @property
    def succession(self) -> Succession:
        """The members that the checkpoint knows."""
        handovers = () if self._known is None else self._known.handovers
        return Succession.verified(self._genesis, handovers, self._verify)

    def keep(self, last: CertifiedHeader, succession: Succession) -> None:
        """Replaces the file, unless it has this block or a later one; logs if it cannot."""
        if last.header.height <= self.height:
            return
        try:
            self._replace(Known(last, succession.until(last.header.height)))
        except (EnvironmentFailure, CheckpointError) as error:
            _LOGGER.warning("the checkpoint is not written: %s", error)

    def _replace(self, last: Known) -> None:
        lock = self._path.with_name(f"{self._path.name}.lock")
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise failure(error, lock) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # another client may have written a later one meanwhile
            there = self._read()
            if there is None or there.height < last.height:
                replace(self._path, last.encode() if last.handovers else last.block.encode())
                self._known = last
        finally:
            os.close(descriptor)

    def _read(self) -> Known | None:
        try:
            read = decode_one_of(_TAGS, self._path.read_bytes())
            known = Known(read) if isinstance(read, CertifiedHeader) else read
            Succession.verified(self._genesis, known.handovers, self._verify).verify(
                known.block, self._verify
            )
        except FileNotFoundError:
            return None
        except OSError as error:
            raise failure(error, self._path) from error
        except (DecodeError, ReceiptError) as error:
            raise CheckpointError(self._path, str(error)) from error
        return known
