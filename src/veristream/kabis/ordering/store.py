"""A validator's two logs on disk: decided blocks, and records of what it signed.

The record at position p of the first log is the certified block of height p + 1. Blocks that a snapshot
covers may be pruned, so that the log begins at a later height. Records of the second log
are needed only for heights whose block is not yet durable in the first; older segments are deleted.

A vote is sent when its record is durable. A block need not be durable before the next height starts or
before clients see it: more than two thirds of the validators have a durable record of their lock on it,
and keep that record until their own copy of the block is durable.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Protocol

from veristream.errors import EnvironmentFailure
from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.ledger import InvalidBlockError, Ledger
from veristream.kabis.ledger.snapshot import Snapshot
from veristream.kabis.log.disk.log import Gap, LogRecord, Retention
from veristream.kabis.ordering.durable import Memory, SignedOnce, decode_record
from veristream.kabis.ordering.messages import Certificate, Commit, Step, Value
from veristream.kabis.ordering.snapshots import Retained, SnapshotFolder, Taking
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import DecodeError, Octets
from veristream.kabis.protocol.genesis import Genesis
from veristream.kabis.protocol.keys import Verify
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.receipts import CertificateError, CommitCertificate

_LOGGER = logging.getLogger(__name__)

CACHED_BLOCKS = 64


class PrunedError(Exception):
    """The blocks below the height `first` were pruned."""

    def __init__(self, first: int) -> None:
        super().__init__(f"pruned below block {first}; take a snapshot")
        self.first = first


class StoreLog(Protocol):
    """The log under a store: on disk, or in memory for simulations."""

    @property
    def start(self) -> int:
        """The first position in the log."""

    @property
    def end(self) -> int:
        """The position of the next record."""

    @property
    def durable(self) -> int:
        """Every record before this position survives a crash."""

    @property
    def size_bytes(self) -> int:
        """The size of the records."""

    def append(self, *parts: Octets) -> int:
        """Writes a record, given in parts, and returns its position."""

    def sync(self) -> int:
        """Makes appended records durable and returns `durable`."""

    def read(self, position: int) -> bytes:
        """Returns the record at a position."""

    def records(self, start: int | None = None) -> Iterator[LogRecord | Gap]:
        """Yields every record from a position on."""

    def retain(self, retention: Retention) -> int:
        """Removes the oldest records and returns the new start."""

    def skip_to(self, position: int) -> None:
        """Removes all records and continues at a later position."""


class BlockStore:
    """The chain on disk, and its snapshots; the first height is 1 until blocks are pruned."""

    def __init__(
        self,
        log: StoreLog,
        snapshots: SnapshotFolder | None = None,
        retained: Retained | None = None,
        verify: Verify = verify_signature,
    ) -> None:
        retained = retained or Retained()
        self._log = log
        self._verify_vote = verify
        self._recent: OrderedDict[int, bytes] = OrderedDict()
        self._retained = retained
        self._taking = Taking(retained.every_blocks)
        self.snapshots = snapshots

    @property
    def first(self) -> int:
        """Height of the first block that is kept, or will be."""
        return self._log.start + 1

    @property
    def height(self) -> int:
        """Height of the last block; 0 if there is none."""
        return self._log.end

    @property
    def size_bytes(self) -> int:
        return self._log.size_bytes

    def append(self, certified: CertifiedBlock) -> None:
        """Writes the next block; `sync` makes it durable."""
        encoded = certified.encode()
        assert certified.block.header.height == self.height + 1, "blocks are written in their order"
        self._log.append(encoded)
        self._recent[self.height] = encoded
        if len(self._recent) > CACHED_BLOCKS:
            self._recent.popitem(last=False)

    def sync(self) -> int:
        """Flushes appended blocks; returns the durable height. May be called from any thread."""
        return self._log.sync()

    def encoded(self, height: int) -> bytes:
        """Returns the encoded certified block of a height."""
        return self._recent.get(height) or self._log.read(height - 1)

    def slice(self, first: int, last: int, bytes_max: int) -> Iterator[bytes]:
        """Yields the existing blocks of these heights that fit into `bytes_max`, and always the first.

        Raises PrunedError if the first one was pruned.
        """
        if max(1, first) < self.first:
            raise PrunedError(self.first)
        room = bytes_max
        for height in range(max(1, first), min(last, self.height) + 1):
            encoded = self.encoded(height)
            room -= len(encoded)
            if room < 0 and height > first:
                return
            yield encoded

    def load(self, height: int) -> Commit | None:
        """Returns the block of a height as a message between validators; None if it is not here."""
        if not self.first <= height <= self.height:
            return None
        return to_commit(CertifiedBlock.decode(self.encoded(height)))

    def open(self, genesis: Genesis, check: Verify) -> Ledger:
        """Returns the ledger after the last block: the newest good snapshot and the blocks after it."""
        ledger = None if self.snapshots is None else self.snapshots.restore(genesis, check)
        if ledger is not None:
            self._taking.started(ledger.height)
        ledger = ledger or Ledger(genesis, check)
        self.restore(ledger)
        return ledger

    def decided(self, ledger: Ledger, header: CertifiedHeader) -> tuple[Snapshot, CertifiedHeader] | None:
        """Takes note of a decided block; returns what `write` shall write now, if it is time."""
        return None if self.snapshots is None else self._taking.decided(ledger, header)

    def write(self, snapshot: Snapshot, following: CertifiedHeader) -> int:
        """Writes a snapshot and returns its height once it is durable. May be called from any thread."""
        assert self.snapshots is not None, "snapshots are only taken where there is a folder for them"
        self.sync()  # a snapshot ahead of the durable blocks would begin the log anew after a loss of power
        return self.snapshots.write(snapshot, following)

    def prune(self, snapshot_height: int) -> None:
        """Deletes old blocks in whole segments: none after this snapshot, none if it is not whole."""
        if self._retained.keep_blocks and self.snapshots is not None:
            if not self.snapshots.is_whole(snapshot_height):
                _LOGGER.warning(
                    "no block is pruned: the snapshot at height %d is not whole", snapshot_height
                )
                return
            below = min(snapshot_height, self.height - self._retained.keep_blocks)
            self._log.retain(Retention(low_water=max(0, below)))

    def skip_to(self, height: int) -> None:
        """Removes all blocks and continues after this height, of which there is a durable snapshot."""
        self._recent.clear()
        self._log.skip_to(height)

    def restore(self, ledger: Ledger) -> None:
        """Applies every block after the ledger's last one.

        Each block contains the hash of the previous one and of the state after it, so the certificate of
        the last block covers all of them.
        """
        if self._log.start > ledger.height:
            raise EnvironmentFailure(
                f"the blocks below {self.first} are pruned, and no snapshot can be used",
                "move the folder's blocks and snapshots away and restart the validator: others have them",
            )
        if self._log.end < ledger.height:
            self._log.skip_to(ledger.height)  # the snapshot came from others, or the blocks were lost
        certified: CertifiedBlock | None = None
        for entry in self._log.records(ledger.height):
            if isinstance(entry, Gap):
                raise _unusable(entry.position + 1, "it was lost to disk damage")
            try:
                certified = CertifiedBlock.decode(entry.payload)
                ledger.apply(certified.block, certified.certificate)
            except (DecodeError, InvalidBlockError) as error:
                raise _unusable(entry.position + 1, str(error)) from error
        if certified is not None:
            self._verify(ledger, certified)

    def _verify(self, ledger: Ledger, certified: CertifiedBlock) -> None:
        members, certificate = ledger.members_at(ledger.height), certified.certificate
        try:
            certificate.verify(ledger.genesis.chain_id, members.validator_keys, self._verify_vote)
        except CertificateError as error:
            raise _unusable(ledger.height, str(error)) from error
        if (certificate.height, certificate.block_id) != (ledger.height, ledger.last_id):
            raise _unusable(ledger.height, "its certificate is for another block")


def _unusable(height: int, reason: str) -> EnvironmentFailure:
    return EnvironmentFailure(
        f"the stored block {height} cannot be used: {reason}",
        "move the folder's blocks away and restart the validator: it fetches them from the others",
    )


class RecordStore:
    """A validator's durable state on disk; positions below `durable` survive a crash."""

    def __init__(self, log: StoreLog) -> None:
        self._log = log
        self._firsts: deque[tuple[int, int]] = deque()  # heights and positions of their first records

    @property
    def end(self) -> int:
        """The position of the next record."""
        return self._log.end

    @property
    def durable(self) -> int:
        """Every record before this position survives a crash."""
        return self._log.durable

    @property
    def height(self) -> int:
        """The highest height that it has a record of, as far as records are kept; 0 without one."""
        return self._firsts[-1][0] if self._firsts else 0

    def recover(self, height: int) -> Memory:
        """Rebuilds the memory of this height and later ones."""
        memory, highest = Memory(), 0
        for entry in self._log.records():
            if isinstance(entry, Gap):
                raise EnvironmentFailure(
                    "records of this validator's votes were lost to disk damage",
                    "it must not vote again with this key until the chain has moved on: restore the folder",
                )
            try:
                record = decode_record(entry.payload)
            except DecodeError as error:
                raise EnvironmentFailure(f"vote record {entry.position} is corrupt: {error}") from error
            memory.take(record)
            highest = max(
                highest, record.message.height if isinstance(record, SignedOnce) else record.height
            )
            memory.forget_before(height)
        self._firsts.append((highest, self._log.start))
        return memory

    def append(self, height: int, record: bytes) -> int:
        """Writes a record and returns its position."""
        if not self._firsts or height > self._firsts[-1][0]:
            self._firsts.append((height, self._log.end))
        return self._log.append(record)

    def sync(self) -> int:
        """Flushes appended records; returns the durable position. May be called from any thread."""
        return self._log.sync()

    def forget(self, height: int) -> None:
        """Deletes records up to this height; their blocks are durable."""
        while len(self._firsts) > 1 and self._firsts[0][0] <= height:
            self._firsts.popleft()
        self._log.retain(Retention(low_water=self._firsts[0][1]))


def to_commit(certified: CertifiedBlock) -> Commit:
    """Converts a certified block to a message between validators."""
    certificate = certified.certificate
    assert isinstance(certificate, CommitCertificate), "validators keep what they decided themselves"
    value = Value(certified.block.block_id(), certified.block.encode())
    return Commit(
        value,
        Certificate(
            Step.PRECOMMIT,
            certificate.height,
            certificate.round_number,
            certificate.block_id,
            certificate.signatures,
        ),
    )
