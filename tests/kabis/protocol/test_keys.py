"""Ed25519 against RFC 8032, key files, and the memory of good signatures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kabis.chain import key_of
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.protocol.keys import Remembering, SignatureError, load_key, make_key, save_key, verify

# RFC 8032, section 7.1, test 2.
SEED = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
PUBLIC = "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"
SIGNATURE = (
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)


def test_signatures_are_those_of_the_rfc() -> None:
    key = make_key(SEED)
    assert key.public.hex() == PUBLIC
    assert key.sign(b"\x72").hex() == SIGNATURE
    verify(key.public, b"\x72", bytes.fromhex(SIGNATURE))


@pytest.mark.parametrize("what", ["message", "signature", "key", "short key", "short signature"])
def test_any_other_signature_raises(what: str) -> None:
    key, message = make_key(SEED), b"message"
    public, signature = key.public, key.sign(message)
    if what == "message":
        message = b"massage"
    elif what == "signature":
        signature = bytes([signature[0] ^ 1]) + signature[1:]
    elif what == "key":
        public = key_of("another").public
    elif what == "short key":
        public = public[:31]
    else:
        signature = signature[:63]
    with pytest.raises(SignatureError):
        verify(public, message, signature)
    with pytest.raises(SignatureError):
        Remembering(verify)(public, message, signature)


def test_a_key_never_shows_its_secret() -> None:
    key = make_key(SEED)
    assert SEED.hex() not in repr(key)
    assert PUBLIC in repr(key)


def test_what_was_good_is_not_verified_again_and_memory_is_bounded() -> None:
    calls: list[bytes] = []

    def check(public: bytes, message: bytes, signature: bytes) -> None:
        calls.append(message)
        verify(public, message, signature)

    key, remembering = make_key(SEED), Remembering(check, entries_max=4)
    for number in range(3):
        message = bytes([number])
        remembering(key.public, message, key.sign(message))
        remembering(key.public, message, key.sign(message))
    assert calls == [b"\x00", b"\x01", b"\x02"]
    for number in range(3, 9):
        remembering(key.public, bytes([number]), key.sign(bytes([number])))
    assert len(remembering._young) + len(remembering._old) <= 4
    with pytest.raises(SignatureError):
        remembering(key.public, b"\x08", key.sign(b"\x07"))


def test_a_key_file_is_private_and_never_overwritten(tmp_path: Path) -> None:
    path, key = tmp_path / "alice.key", make_key(SEED)
    save_key(path, key)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_key(path) == key
    with pytest.raises(ModelError, match="exists already"):
        save_key(path, key)
    assert list(tmp_path.iterdir()) == [path]
    path.chmod(0o640)
    with pytest.raises(ModelError, match="others may read") as caught:
        load_key(path)
    assert caught.value.hint == f"chmod 600 {path}"


def test_nobody_sees_a_key_file_that_is_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is flushed, as long as that may take, and if the machine fails then."""
    path, seen = tmp_path / "key.next", list[bool]()

    def flush(_: int) -> None:
        seen.append(path.exists())
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("veristream.kabis.protocol.keys.os.fsync", flush)
    with pytest.raises(EnvironmentFailure, match="No space left on device"):
        save_key(path, make_key(SEED))
    assert (seen, list(tmp_path.iterdir())) == ([False], [])


@pytest.mark.parametrize(
    "content", [b"", b"kabis/1/secret-key\n", b"\xff\xfe", b"kabis/1/secret-key\n" + b"zz" * 32 + b"\n"]
)
def test_what_is_no_key_file_is_said_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "alice.key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(ModelError, match="is not a key file"):
        load_key(path)
    with pytest.raises(EnvironmentFailure, match="cannot read"):
        load_key(tmp_path / "missing.key")
