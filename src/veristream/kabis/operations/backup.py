"""Copies a cluster's folder, or some of its parties, to an archive, while it runs or not; and back.

A log is copied up to its durability mark, which is a consistent prefix at any moment. The records of a
validator's votes are copied before its blocks, so that they cover every height above the blocks. Its newest
snapshot is copied while its blocks are held open, so that no block after it is missing.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.cluster.rejoining import mark_restored
from veristream.kabis.log.disk.files import flush_folder
from veristream.kabis.log.disk.opening import segment_paths
from veristream.kabis.log.disk.segment import HEADER_BYTES, decode_marks
from veristream.kabis.operations.archive import ArchiveWriter, Manifest, create_archive, extract, finish
from veristream.kabis.ordering.snapshots import find_newest
from veristream.kabis.protocol.members import MemberRole

LOGS = ("records", "blocks", "log")
"""The logs in a party's folder, in the order in which they are copied."""
SNAPSHOTS = "snapshots"
COMMON = ("genesis.json", "members.json", "clients.json", "kabis.toml", "tls/ca.pem")
SECRET = ("key", "key.next", "kafka.properties", "tls/certificate.pem", "tls/key.pem")
_CHUNK_BYTES = 1 << 20
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Made:
    """A backup that was made: its size, the SHA-256 of the file, and the parties in it."""

    size_bytes: int
    digest: str
    parties: tuple[str, ...]


def make_backup(
    cluster: Cluster, path: Path, names: Sequence[str] = (), *, with_keys: bool = False
) -> Made:
    """Writes a backup of all or some parties to a new file."""
    genesis = cluster.genesis
    parties = tuple(names or cluster.names())
    known = [*cluster.names(), *cluster.former()]
    for name in parties:
        if name not in known:
            raise ModelError(f"there is no party {name!r}", hint=f"choose one of {', '.join(known)}")
    running = cluster.find()
    with create_archive(path) as writer:
        for name in COMMON:
            _add_file(writer, cluster.folder.path, name)
        for name in parties:
            for log in LOGS:
                folder = cluster.folder_of(name) / log
                _add_log(writer, folder, f"{name}/{log}", is_open=name in running)
            if with_keys:
                for secret in SECRET:
                    _add_file(writer, cluster.folder.path, f"{name}/{secret}")
        if with_keys:
            _add_file(writer, cluster.folder.path, "tls/ca.key")
            for key in sorted(cluster.folder.path.glob("keys*/*")):
                _add_file(writer, cluster.folder.path, f"{key.parent.name}/{key.name}")
        time_ms = time.time_ns() // 1_000_000
        digest = genesis.digest().hex()
        finish(writer, Manifest(genesis.chain_id, digest, parties, with_keys, time_ms, writer.files))
    return Made(path.stat().st_size, hash_file(path), parties)


def _add_file(writer: ArchiveWriter, folder: Path, name: str) -> None:
    try:
        writer.add_bytes(name, (folder / name).read_bytes())
    except FileNotFoundError:
        return


def _add_log(writer: ArchiveWriter, folder: Path, name: str, *, is_open: bool) -> None:
    with ExitStack() as stack:
        files = _open_segments(folder, stack)
        if folder.name == "blocks":  # they are open: whatever is pruned now, they begin below the snapshot
            _add_snapshot(writer, folder.parent / SNAPSHOTS, f"{folder.parent.name}/{SNAPSHOTS}")
        for number, (path, file) in enumerate(files):
            size = os.fstat(file.fileno()).st_size
            if is_open and number == len(files) - 1:
                mark, _ = decode_marks(str(path), file.read(HEADER_BYTES))
                file.seek(0)
                size = min(size, mark.offset)
            writer.add(f"{name}/{path.name}", file, size)


def _add_snapshot(writer: ArchiveWriter, folder: Path, name: str) -> None:
    """Adds the newest whole snapshot, if there is one."""
    height = find_newest(folder)
    if height is None:
        return
    try:
        for path in sorted((folder / str(height)).iterdir()):
            writer.add_bytes(f"{name}/{height}/{path.name}", path.read_bytes())
    except FileNotFoundError as error:
        raise EnvironmentFailure(f"the snapshots in {folder} change too fast", "try again") from error


def _open_segments(folder: Path, stack: ExitStack) -> list[tuple[Path, IO[bytes]]]:
    """Opens all segments, so that retention cannot take them away while they are copied."""
    for _ in range(_ATTEMPTS):
        try:
            return [(path, stack.enter_context(path.open("rb"))) for path in segment_paths(folder)]
        except FileNotFoundError:  # retention was faster
            stack.close()
    raise EnvironmentFailure(f"the segments in {folder} change too fast", "try again")


def hash_file(path: Path) -> str:
    """Returns the SHA-256 of a file, as `sha256sum` prints it."""
    digest = sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


# Restore


def restore_all(path: Path, folder: ClusterFolder, *, give_up_later: bool = False) -> Manifest:
    """Restores a whole archive to a folder that does not exist or is empty.

    Its validators wait until they may vote again, unless blocks after the backup are given up.
    """
    if folder.path.exists() and any(folder.path.iterdir()):
        raise ModelError(f"{folder.path} is not empty", hint="restore to a new folder")
    with _Extracted(path, folder.path) as extracted:
        manifest = extracted.manifest
        validators = _validators(extracted.folder, manifest.parties)
        members = ClusterFolder(extracted.folder).members().in_force
        whole = {party.name for party in members.validators} <= {*validators}
        if whole and not give_up_later:
            raise ModelError(
                "the backup has all validators, and none of them can tell what they decided after it",
                hint="if another validator is still alive, restore the others with --party; otherwise give"
                " up what was decided after the backup with --give-up-later-blocks",
            )
        if not give_up_later:
            for name in validators:
                mark_restored(extracted.folder / name)
        if folder.path.exists():
            folder.path.rmdir()
        extracted.folder.rename(folder.path)
    flush_folder(folder.path.parent)
    return manifest


def restore_parties(path: Path, cluster: Cluster, names: Sequence[str]) -> Manifest:
    """Restores some parties to a cluster of the same chain; raises ModelError if they have data."""
    for name in names:
        if name in cluster.find():
            raise ModelError(f"{name} is running", hint="veristream kabis down stops all parties")
        data = [log for log in LOGS if (cluster.folder_of(name) / log).exists()]
        if any((cluster.folder_of(name) / SNAPSHOTS).glob("*")):
            data.append(SNAPSHOTS)
        if data:
            raise ModelError(
                f"{cluster.folder_of(name)} is not empty: it has {', '.join(data)}", hint="move them away"
            )
    with _Extracted(path, cluster.folder.path) as extracted:
        manifest = extracted.manifest
        if manifest.genesis != cluster.genesis.digest().hex():
            raise ModelError(
                f"{path} is a backup of another chain, {manifest.chain_id}",
                hint=f"the chain in {cluster.folder.path} is {cluster.genesis.chain_id}",
            )
        missing = [name for name in names if name not in manifest.parties]
        if missing:
            raise ModelError(
                f"the backup has no {missing[0]}", hint=f"it has {', '.join(manifest.parties)}"
            )
        validators = _validators(extracted.folder, names)
        for name in names:
            _move_party(extracted.folder / name, cluster.folder_of(name), name in validators)
    return manifest


def _move_party(source: Path, target: Path, is_validator: bool) -> None:
    target.mkdir(mode=0o700, exist_ok=True)
    if is_validator:
        mark_restored(target)  # before any data is there
    for path in sorted(source.iterdir()) if source.is_dir() else ():
        if path.name == SNAPSHOTS and (target / SNAPSHOTS).exists():
            (target / SNAPSHOTS).rmdir()  # it is empty
        if not (target / path.name).exists():  # an existing key stays
            path.rename(target / path.name)
    flush_folder(target)


def _validators(folder: Path, names: Iterable[str]) -> list[str]:
    seats = ClusterFolder(folder).members().seats()
    known = {seat.party.name for seat in seats if seat.role is MemberRole.VALIDATOR}
    return [name for name in names if name in known]


class _Extracted:
    """An archive in a folder beside the target, which is removed in the end unless it was renamed."""

    def __init__(self, path: Path, target: Path) -> None:
        self._path = path
        self.folder = target.with_name(target.name + ".restoring")

    def __enter__(self) -> _Extracted:
        shutil.rmtree(self.folder, ignore_errors=True)
        try:
            self.folder.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise EnvironmentFailure(f"cannot create {self.folder}: {error.strerror}") from error
        try:
            self.manifest = extract(self._path, self.folder)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
