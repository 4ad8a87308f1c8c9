"""Ed25519 keys: signing, verifying, and the private files that keep them and other secrets.

Verification raises. Code that checks signatures takes `Verify` as a parameter, so that a simulation can
pass a cheap function and a validator one that remembers what it has verified.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from nacl.bindings import crypto_sign, crypto_sign_open, crypto_sign_seed_keypair
from nacl.exceptions import CryptoError

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.protocol.codec import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, Writer

SEED_BYTES = 32
PRIVATE_BYTES_MAX = 1 << 20
"""The longest file that is read for a secret."""
_FILE_HEAD = "kabis/1/secret-key"


class SignatureError(Exception):
    """The signature is not valid for this key and message."""


Verify = Callable[[bytes, bytes, bytes], None]
"""Takes a public key, a message and a signature; raises SignatureError."""


class Signer(Protocol):
    """A key, or a cheap substitute in a simulation."""

    @property
    def public(self) -> bytes:
        """The public key."""

    def sign(self, message: bytes) -> bytes:
        """Returns the signature of a message."""


@dataclass(frozen=True, slots=True)
class SecretKey:
    """An Ed25519 key; its `repr` does not show the secret."""

    public: bytes
    _secret: bytes

    def sign(self, message: bytes) -> bytes:
        """Returns the signature of a message, which is deterministic."""
        return crypto_sign(message, self._secret)[:SIGNATURE_BYTES]

    @property
    def seed(self) -> bytes:
        """The 32 bytes that the key is derived from."""
        return self._secret[:SEED_BYTES]

    def __repr__(self) -> str:
        return f"SecretKey(public={self.public.hex()})"


def make_key(seed: bytes) -> SecretKey:
    """Derives a key from 32 bytes, which the caller draws at random."""
    public, secret = crypto_sign_seed_keypair(seed)
    return SecretKey(public, secret)


def verify(public: bytes, message: bytes, signature: bytes) -> None:
    """Raises SignatureError unless the signature is valid for this key and message."""
    if len(public) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        raise SignatureError("the key or the signature has the wrong length")
    try:
        crypto_sign_open(signature + message, public)
    except CryptoError as error:
        raise SignatureError(f"not a signature of the key {public.hex()[:16]}") from error


class Remembering:
    """Verifies by the given function, and remembers valid signatures.

    A validator sees a signature when a client submits it, when a peer forwards it and in a proposal. At
    most `entries_max` digests are kept, in two halves that are dropped in turn.
    """

    def __init__(self, check: Verify, entries_max: int = 65_536) -> None:
        self._check = check
        self._half_max = max(1, entries_max // 2)
        self._young: set[bytes] = set()
        self._old: set[bytes] = set()

    def __call__(self, public: bytes, message: bytes, signature: bytes) -> None:
        """Raises SignatureError unless the signature is valid."""
        # Lengths are fixed for what passes the check, so that joining the three is unambiguous.
        seen = sha256(public + signature + message).digest()
        if len(public) == PUBLIC_KEY_BYTES and (seen in self._young or seen in self._old):
            return
        self._check(public, message, signature)
        if len(public) != PUBLIC_KEY_BYTES or len(signature) != SIGNATURE_BYTES:
            return
        if len(self._young) >= self._half_max:
            self._old, self._young = self._young, set()
        self._young.add(seen)


def possession_bytes(chain_id: str, name: str, key_epoch: int) -> bytes:
    """Returns the bytes that a new key signs, so that nobody registers another's key."""
    writer = Writer("possession")
    writer.text(chain_id)
    writer.text(name)
    writer.u32(key_epoch)
    return writer.to_bytes()


def save_key(path: Path, key: SecretKey) -> None:
    """Writes the key to a new file that only its owner may read."""
    write_private(path, f"{_FILE_HEAD}\n{key.seed.hex()}\n")


def load_key(path: Path) -> SecretKey:
    """Returns the key in a file that `save_key` wrote; raises ModelError if others may read the file."""
    lines = read_private(path).splitlines()
    if len(lines) != 2 or lines[0] != _FILE_HEAD or len(lines[1]) != 2 * SEED_BYTES:
        raise _not_a_key(path)
    try:
        return make_key(bytes.fromhex(lines[1]))
    except ValueError as error:
        raise _not_a_key(path) from error


def _not_a_key(path: Path) -> ModelError:
    return ModelError(
        f"{path} is not a key file", hint=f"a key file has two lines: {_FILE_HEAD}, then 64 hex digits"
    )


def write_private(path: Path, text: str) -> None:
    """Writes a new file that only its owner may read, durably; who looks for it finds all of it or nothing.

    A validator that runs looks for its next key, and ends if that is no key.
    """
    fresh = path.with_name(f"{path.name}~{os.urandom(4).hex()}")
    try:
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.link(fresh, path)
        finally:
            fresh.unlink()
    except FileExistsError as error:
        hint = "choose another name; keys are never overwritten"
        raise ModelError(f"{path} exists already", hint=hint) from error
    except OSError as error:
        raise EnvironmentFailure(f"cannot write {path}: {error.strerror}") from error


def read_private(path: Path) -> str:
    """Returns the text of a file; raises ModelError if others may read it."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(PRIVATE_BYTES_MAX)
    except OSError as error:
        raise EnvironmentFailure(f"cannot read {path}: {error.strerror}") from error
    if stat.S_IMODE(mode) & 0o077:
        raise ModelError(f"others may read {path}, which holds a secret", hint=f"chmod 600 {path}")
    return data.decode("ascii", errors="replace")
