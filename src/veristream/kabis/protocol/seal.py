"""Sealing: encrypts the events of a topic under a key that its readers share.

Storage parties see the leaves that they keep, so a confidential topic is sealed: key, value and headers
become one ciphertext (XChaCha20-Poly1305), the value of the leaf that is hashed, signed and stored. It is
bound to chain, topic and key id, so that it opens nowhere else. The timestamp, the size, the partition and
the producer stay visible. The key chooses the partition before sealing.

Readers of a topic share one key: sealing excludes outsiders; signatures show who wrote an event.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nacl.bindings import (
    crypto_aead_xchacha20poly1305_ietf_decrypt,
    crypto_aead_xchacha20poly1305_ietf_encrypt,
)
from nacl.exceptions import CryptoError

from veristream.errors import ModelError
from veristream.kabis.protocol.codec import DecodeError, Reader, Writer, domain_tag
from veristream.kabis.protocol.keys import read_private, write_private
from veristream.kabis.protocol.records import Event, Headers, decode_leaf, encode_leaf

KEY_BYTES = 32
NONCE_BYTES = 24
SEAL_BYTES = 16
"""The overhead of sealing, apart from tag, key id and nonce."""
KEY_ID_MAX = (1 << 32) - 1

_KIND = "sealed"
_TAG = domain_tag(_KIND)
_FORMAT = "topic-keys/1"


class SealError(Exception):
    """A sealed event cannot be opened."""


class NotSealedError(SealError):
    """The event is not sealed, though its topic is."""


class UnknownSealKeyError(SealError):
    """The event is sealed under a key that we do not have."""


class BrokenSealError(SealError):
    """The seal does not match the event, the topic or the key."""


@dataclass(frozen=True, slots=True)
class TopicKeys:
    """The keys of one topic by id; new events are sealed under the current one, old ones still open."""

    topic: str
    current: int
    keys: Mapping[int, bytes]

    def __post_init__(self) -> None:
        if self.current not in self.keys:
            raise ValueError(f"the current key {self.current} of {self.topic} is missing")
        if any(len(key) != KEY_BYTES for key in self.keys.values()):
            raise ValueError(f"a key of {self.topic} is not {KEY_BYTES} bytes long")
        if any(not 0 <= key_id <= KEY_ID_MAX for key_id in self.keys):
            raise ValueError(f"a key id of {self.topic} is out of range")

    def __repr__(self) -> str:
        return f"TopicKeys({self.topic!r}, current={self.current}, ids={sorted(self.keys)})"

    def rotate(self, key: bytes) -> TopicKeys:
        """Returns these keys with a new one, which becomes the current one."""
        key_id = max(self.keys) + 1
        return TopicKeys(self.topic, key_id, {**self.keys, key_id: key})


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals and opens the events of one topic of one chain; `randomness` returns n random bytes."""

    chain_id: str
    keys: TopicKeys
    randomness: Callable[[int], bytes] = os.urandom

    def seal_leaf(
        self, key: bytes | None, value: bytes | None, headers: Headers = (), timestamp_ms: int | None = None
    ) -> bytes:
        """Returns the leaf of the sealed event; raises TooLargeError if it is too large once sealed."""
        nonce = self.randomness(NONCE_BYTES)
        key_id = self.keys.current
        clear = encode_leaf(key, value, headers, None)
        cipher = crypto_aead_xchacha20poly1305_ietf_encrypt(
            clear, _bind(self.chain_id, self.keys.topic, key_id), nonce, self.keys.keys[key_id]
        )
        sealed = _TAG + key_id.to_bytes(4, "big") + nonce + cipher
        return encode_leaf(None, sealed, (), timestamp_ms)

    def open_event(self, event: Event) -> Event:
        """Returns the event as it was before sealing; raises SealError."""
        if event.value is None or not event.value.startswith(_TAG):
            raise NotSealedError(f"an event of {self.keys.topic} is not sealed")
        try:
            reader = Reader(event.value, _KIND)
            key_id, nonce = reader.u32(), reader.fixed(NONCE_BYTES)
            cipher = reader.fixed(max(reader.remaining, SEAL_BYTES))
        except DecodeError as error:
            raise BrokenSealError(str(error)) from error
        key = self.keys.keys.get(key_id)
        if key is None:
            raise UnknownSealKeyError(f"an event of {self.keys.topic} is sealed under key {key_id}")
        try:
            clear = crypto_aead_xchacha20poly1305_ietf_decrypt(
                cipher, _bind(self.chain_id, self.keys.topic, key_id), nonce, key
            )
            opened = decode_leaf(clear)
        except (CryptoError, DecodeError) as error:
            raise BrokenSealError(f"an event of {self.keys.topic} does not open") from error
        return opened._replace(timestamp_ms=event.timestamp_ms)


@lru_cache(maxsize=1024)
def _bind(chain_id: str, topic: str, key_id: int) -> bytes:
    """Returns the associated data of a sealed event; cached, since all events of a topic share it."""
    writer = Writer("seal")
    writer.text(chain_id)
    writer.text(topic)
    writer.u32(key_id)
    return writer.to_bytes()


def save_topic_keys(path: Path, keys: TopicKeys) -> None:
    """Writes a new file that only its owner may read; raises ModelError if it exists."""
    write_private(path, encode_topic_keys(keys))


def encode_topic_keys(keys: TopicKeys) -> str:
    """Returns the keys as the text of their file."""
    fields = {
        "kabis": _FORMAT,
        "topic": keys.topic,
        "current": keys.current,
        "keys": {str(key_id): key.hex() for key_id, key in sorted(keys.keys.items())},
    }
    return json.dumps(fields, indent=2) + "\n"


def load_topic_keys(path: Path) -> TopicKeys:
    """Returns the keys in a file that `save_topic_keys` wrote."""
    text = read_private(path)
    try:
        fields = json.loads(text)
        if not isinstance(fields, dict) or fields.get("kabis") != _FORMAT:
            raise ValueError(f"it does not say that it is {_FORMAT}")
        if not isinstance(fields["topic"], str) or type(fields["current"]) is not int:
            raise ValueError("the topic must be a string and the current key an integer")
        keys = {int(key_id): bytes.fromhex(key) for key_id, key in fields["keys"].items()}
        return TopicKeys(fields["topic"], fields["current"], keys)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path} holds no topic keys: {error}") from error
