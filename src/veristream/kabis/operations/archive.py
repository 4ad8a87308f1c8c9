"""Archives of backups: a tar file whose last member, the manifest, has the digest of every other member.

Nothing of an archive is believed before its digests are checked: names are plain relative paths of regular
files, and the manifest names exactly the files that are there.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import IO

from veristream.errors import EnvironmentFailure, ModelError

FORMAT = "kabis-backup/1"
MANIFEST = "manifest.json"
_CHUNK_BYTES = 1 << 20
_MANIFEST_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an archive contains: the chain, its parties, whether secret keys are there, digests of files."""

    chain_id: str
    genesis: str
    parties: tuple[str, ...]
    has_keys: bool
    time_ms: int
    files: dict[str, str]


class ArchiveWriter:
    """Adds files to an archive; made by `create_archive`."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.files: dict[str, str] = {}

    def add(self, name: str, file: IO[bytes], size: int) -> None:
        """Adds the first `size` bytes of an open file."""
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o600
        reader = _Hashing(file)
        self._tar.addfile(info, reader)
        self.files[name] = reader.digest.hexdigest()

    def add_bytes(self, name: str, data: bytes) -> None:
        """Adds a file with these contents."""
        self.add(name, io.BytesIO(data), len(data))


class _Hashing:
    """Reads a file and hashes what was read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self.digest.update(data)
        return data


@contextmanager
def create_archive(path: Path) -> Iterator[ArchiveWriter]:
    """Creates an archive that only its owner may read; an archive that is not completed is removed.

    `finish` must be called before the end of the context.
    """
    fresh = path.with_name(path.name + ".new")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.close(descriptor)
    except OSError as error:
        raise ModelError(f"cannot create {path}: {error.strerror}", hint="name a new file") from error
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                yield ArchiveWriter(tar)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        _remove(fresh, path)
        raise EnvironmentFailure(f"cannot write {path}: {error.strerror}", "free space") from error
    except BaseException:
        _remove(fresh, path)
        raise


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def finish(writer: ArchiveWriter, manifest: Manifest) -> None:
    """Writes the manifest as the last member."""
    body = {"format": FORMAT, **asdict(manifest)}
    writer.add_bytes(MANIFEST, json.dumps(body, indent=1).encode() + b"\n")


def extract(path: Path, into: Path) -> Manifest:
    """Extracts an archive into an empty folder and checks all of it; raises ModelError if it is wrong."""
    try:
        with tarfile.open(path, mode="r:") as tar:
            found = {info.name: _extract_one(path, tar, info, into) for info in tar}
    except tarfile.TarError as error:
        raise _damaged(path, str(error)) from error
    except OSError as error:
        raise EnvironmentFailure(f"cannot restore {path}: {error.strerror}") from error
    manifest = _read_manifest(path, into)
    found.pop(MANIFEST)
    for name, digest in manifest.files.items():
        if name not in found:
            raise _damaged(path, f"{name} is missing")
        if found[name] != digest:
            raise _damaged(path, f"{name} does not have its digest")
    if set(found) - set(manifest.files):
        raise _damaged(path, f"{min(set(found) - set(manifest.files))} is not in the manifest")
    (into / MANIFEST).unlink()
    return manifest


def _extract_one(path: Path, tar: tarfile.TarFile, info: tarfile.TarInfo, into: Path) -> str:
    """Writes a member to its place and returns its digest."""
    parts = PurePosixPath(info.name).parts
    if not info.isreg() or not parts or parts[0] == "/" or ".." in parts:
        raise _damaged(path, f"{info.name!r} is not a plain file")
    target = into.joinpath(*parts)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    source, digest = tar.extractfile(info), sha256()
    assert source is not None, "it is a regular file"
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        while chunk := source.read(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def _read_manifest(path: Path, into: Path) -> Manifest:
    try:
        with (into / MANIFEST).open("rb") as file:
            body = json.loads(file.read(_MANIFEST_BYTES_MAX))
        if body.pop("format") != FORMAT:
            raise ValueError("another format")
        files = {str(name): str(digest) for name, digest in body.pop("files").items()}
        parties = tuple(map(str, body.pop("parties")))
        return Manifest(parties=parties, files=files, **body)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, "it has no readable manifest") from error


def _damaged(path: Path, reason: str) -> ModelError:
    return ModelError(f"{path} is damaged or no backup: {reason}", hint="use another backup")
