"""Messages between the processes of one run, over mutually authenticated sockets.

Each end proves that it knows the run's secret, by an HMAC of a nonce that the other end has chosen; the
secret itself never travels. A message is a kind, a number and bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from veristream.search.shared.codec import decode, encode

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NONCE = 32
_HEAD = struct.Struct("!BQQ")
_GREETING = b"veristream 1\n"
CONNECT_SECONDS = 30.0
_KEEPALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}
"""Detects a machine that vanished within a minute."""

Content = TypeVar("Content", bound="DataclassInstance")


class RefusedError(Exception):
    """The other end does not belong to this run."""


@dataclass(frozen=True, slots=True)
class Message:
    """A kind, a number with a meaning that depends on the kind, and bytes."""

    kind: int
    number: int
    payload: bytes

    def read(self, expected: type[Content]) -> Content:
        """Returns the dataclass in the payload; raises MessageError if it is another one."""
        return decode(expected, self.payload)


def listen(host: str) -> socket.socket:
    """Returns a socket that accepts connections at a free port."""
    return socket.create_server((host, 0), backlog=128)


def connect(address: tuple[str, int], secret: bytes) -> socket.socket:
    """Returns an authenticated connection; raises OSError and RefusedError."""
    sock = socket.create_connection(address, timeout=CONNECT_SECONDS)
    try:
        nonce = _read_greeting(sock)
        mine = secrets.token_bytes(NONCE)
        sock.sendall(_GREETING + mine + _proof(secret, b"connects", nonce))
        _require(_read(sock, 32), _proof(secret, b"accepts", mine))
    except BaseException:
        sock.close()
        raise
    return _ready(sock)


def accept(server: socket.socket, secret: bytes) -> socket.socket:
    """Returns the next connection that authenticates itself; closes others."""
    while True:
        sock, _ = server.accept()
        sock.settimeout(CONNECT_SECONDS)
        nonce = secrets.token_bytes(NONCE)
        try:
            sock.sendall(_GREETING + nonce)
            theirs = _read_greeting(sock)
            _require(_read(sock, 32), _proof(secret, b"connects", nonce))
            sock.sendall(_proof(secret, b"accepts", theirs))
            return _ready(sock)
        except (OSError, RefusedError):
            sock.close()


def _ready(sock: socket.socket) -> socket.socket:
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock


def _proof(secret: bytes, role: bytes, nonce: bytes) -> bytes:
    return hmac.new(secret, role + nonce, hashlib.sha256).digest()


def _require(shown: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(shown, expected):
        raise RefusedError("the other end does not know this run's secret")


def _read_greeting(sock: socket.socket) -> bytes:
    if _read(sock, len(_GREETING)) != _GREETING:
        raise RefusedError("the other end speaks another protocol")
    return _read(sock, NONCE)


def _read(sock: socket.socket, count: int) -> bytes:
    """Reads exactly `count` bytes; raises ConnectionError if the connection ends before."""
    parts: list[bytes] = []
    while count:
        part = sock.recv(min(count, 1 << 20))
        if not part:
            raise ConnectionError("the connection ended")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def frame(kind: int, number: int, payload: bytes = b"") -> bytes:
    """Returns the bytes of a message."""
    return _HEAD.pack(kind, number, len(payload)) + payload


def send(sock: socket.socket, kind: int, number: int = 0, content: DataclassInstance | None = None) -> None:
    """Sends a message with a dataclass as its payload."""
    sock.sendall(frame(kind, number, b"" if content is None else encode(content)))


def receive(sock: socket.socket) -> Message:
    """Returns the next message; raises OSError if the connection ends."""
    kind, number, size = _HEAD.unpack(_read(sock, _HEAD.size))
    return Message(kind, number, _read(sock, size))
