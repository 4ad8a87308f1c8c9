"""X.509 certificates with Ed25519 keys, for clusters on one machine; an operator brings those of his own.

Python's ssl reads certificates but makes none, so the few structures needed here are encoded by hand: DER
of RFC 5280, with the keys and signatures of RFC 8410.
"""

from __future__ import annotations

import base64
import ipaddress
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from veristream.kabis.protocol.keys import SEED_BYTES, SecretKey, make_key

DAY_S = 86_400
AUTHORITY_DAYS = 3650
PARTY_DAYS = 825
_BACKDATED_S = 3600
"""A clock that is a little late must not find a new certificate not valid yet."""
_SEQUENCE, _SET, _INTEGER, _BITS, _OCTETS, _OID, _UTF8 = 0x30, 0x31, 0x02, 0x03, 0x04, 0x06, 0x0C
_TRUE = bytes.fromhex("0101ff")
_ED25519, _COMMON_NAME = "2b6570", "550403"
_BASIC, _USAGE, _EXTENDED, _NAMES = "551d13", "551d0f", "551d25", "551d11"
_SUBJECT_ID, _AUTHORITY_ID = "551d0e", "551d23"
_FOR_SERVERS, _FOR_CLIENTS = "2b06010505070301", "2b06010505070302"
_SIGNS, _SIGNS_CERTIFICATES = bytes.fromhex("0780"), bytes.fromhex("0106")


@dataclass(frozen=True, slots=True)
class Period:
    """When a certificate is valid, in seconds since 1970."""

    begin_s: int
    end_s: int

    @staticmethod
    def of_days(days: int) -> Period:
        """Returns a period that has just begun."""
        now_s = int(time.time())
        return Period(now_s - _BACKDATED_S, now_s + days * DAY_S)


@dataclass(frozen=True, slots=True)
class Authority:
    """Who signs certificates; its name is in each of them."""

    name: str
    key: SecretKey

    def certify_itself(self, period: Period) -> str:
        """Returns the authority's own certificate in PEM."""
        extensions = [
            _extension(_BASIC, _pack(_SEQUENCE, _TRUE), critical=True),
            _extension(_USAGE, _pack(_BITS, _SIGNS_CERTIFICATES), critical=True),
        ]
        return self._certify(self.name, self.key.public, period, extensions)

    def certify(self, name: str, public: bytes, hosts: Sequence[str], period: Period) -> str:
        """Returns the certificate in PEM of a key that serves at these hosts, and is a client too."""
        uses = _pack(_OID, bytes.fromhex(_FOR_SERVERS)) + _pack(_OID, bytes.fromhex(_FOR_CLIENTS))
        extensions = [
            _extension(_BASIC, _pack(_SEQUENCE), critical=True),
            _extension(_USAGE, _pack(_BITS, _SIGNS), critical=True),
            _extension(_EXTENDED, _pack(_SEQUENCE, uses)),
            _extension(_NAMES, _pack(_SEQUENCE, *map(_host, dict.fromkeys(hosts)))),
        ]
        return self._certify(name, public, period, extensions)

    def _certify(self, name: str, public: bytes, period: Period, extensions: list[bytes]) -> str:
        extensions = [
            *extensions,
            _extension(_SUBJECT_ID, _pack(_OCTETS, _key_id(public))),
            _extension(_AUTHORITY_ID, _pack(_SEQUENCE, _pack(0x80, _key_id(self.key.public)))),
        ]
        serial = bytes((0x40 | os.urandom(1)[0] & 0x3F,)) + os.urandom(15)  # positive, and no zero in front
        signed = _pack(
            _SEQUENCE,
            _pack(0xA0, _pack(_INTEGER, b"\x02")),  # version 3
            _pack(_INTEGER, serial),
            _ALGORITHM,
            _name(self.name),
            _pack(_SEQUENCE, _moment(period.begin_s), _moment(period.end_s)),
            _name(name),
            _pack(_SEQUENCE, _ALGORITHM, _pack(_BITS, b"\x00", public)),
            _pack(0xA3, _pack(_SEQUENCE, *extensions)),
        )
        signature = _pack(_BITS, b"\x00", self.key.sign(signed))
        return _to_pem("CERTIFICATE", _pack(_SEQUENCE, signed, _ALGORITHM, signature))


def draw_key() -> SecretKey:
    """Returns a new key for TLS; it is never one that signs anything else."""
    return make_key(os.urandom(SEED_BYTES))


def encode_key(key: SecretKey) -> str:
    """Returns a secret key as PKCS #8 in PEM."""
    seed = _pack(_OCTETS, _pack(_OCTETS, key.seed))
    return _to_pem("PRIVATE KEY", _pack(_SEQUENCE, _pack(_INTEGER, b"\x00"), _ALGORITHM, seed))


def decode_key(text: str) -> SecretKey:
    """Returns the key that `encode_key` encoded. Raises ValueError."""
    lines = text.split("-----")
    data = base64.b64decode(lines[2]) if len(lines) == 5 else b""
    key = make_key(data[-SEED_BYTES:]) if len(data) >= SEED_BYTES else None
    if key is None or encode_key(key) != text:
        raise ValueError("not an Ed25519 key in PEM")
    return key


def _pack(tag: int, *parts: bytes) -> bytes:
    """Encodes a value of DER: its tag, its length, and its parts."""
    value = b"".join(parts)
    length = len(value)
    if length < 0x80:
        return bytes((tag, length)) + value
    size = (length.bit_length() + 7) // 8
    return bytes((tag, 0x80 | size)) + length.to_bytes(size, "big") + value


_ALGORITHM = _pack(_SEQUENCE, _pack(_OID, bytes.fromhex(_ED25519)))


def _extension(identifier: str, value: bytes, *, critical: bool = False) -> bytes:
    flag = _TRUE if critical else b""
    return _pack(_SEQUENCE, _pack(_OID, bytes.fromhex(identifier)), flag, _pack(_OCTETS, value))


def _name(text: str) -> bytes:
    common = _pack(_SEQUENCE, _pack(_OID, bytes.fromhex(_COMMON_NAME)), _pack(_UTF8, text[:64].encode()))
    return _pack(_SEQUENCE, _pack(_SET, common))


def _host(host: str) -> bytes:
    try:
        return _pack(0x87, ipaddress.ip_address(host).packed)
    except ValueError:
        return _pack(0x82, host.encode("idna"))


def _moment(at_s: int) -> bytes:
    at = time.gmtime(at_s)
    if at.tm_year < 2050:
        return _pack(0x17, time.strftime("%y%m%d%H%M%SZ", at).encode())
    return _pack(0x18, time.strftime("%Y%m%d%H%M%SZ", at).encode())


def _key_id(public: bytes) -> bytes:
    return sha256(public).digest()[:20]


def _to_pem(label: str, data: bytes) -> str:
    text = base64.b64encode(data).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))
