"""A connection's bytes inside TLS, on top of any transport.

asyncio's and uvloop's own TLS tell a protocol of its connection only when TLS is ready, and hide how much
the peer has not read. Here the connection is at the door from the first byte on, so that a caller who never
finishes TLS is half open, with the same time limit; and what is unsent is what the socket has not taken.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any

from veristream.kabis.wire.connection import Connection
from veristream.kabis.wire.handlers import ConnectionLostError
from veristream.kabis.wire.handshake import WireError
from veristream.kabis.wire.tls import BINDING, bind, explain

FLUSH_BYTES = 256 << 10
"""How much is encrypted before it is passed on."""
_ALERT = bytes.fromhex("15030300020246")
"""What TLS says to a caller of another version, and what we say to one that does not speak TLS at all."""


class TlsChannel(asyncio.Transport, asyncio.Protocol):
    """The protocol of a transport, and the transport of a connection; a client names the server's host."""

    def __init__(self, connection: Connection, context: ssl.SSLContext, host: str | None = None) -> None:
        super().__init__()
        self._connection = connection
        self._host = host
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=host is None, server_hostname=host
        )
        self._early: list[bytes] = []
        self._is_ready = self._has_failed = self._is_paused = False

    # Called by the transport below.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins TLS as the client, or waits for it as the server."""
        self._below: Any = transport  # uvloop's is an asyncio.Transport in all but its class
        self._connection.connection_made(self)
        self._advance()

    def data_received(self, data: bytes) -> None:
        """Decrypts what arrived."""
        if not self._has_failed:
            self._incoming.write(data)
            self._advance()

    def pause_writing(self) -> None:
        """The peer reads more slowly than we write."""
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """The peer has read."""
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the connection; if a server left during TLS, it may not speak TLS."""
        if self._host is not None and not self._is_ready and not self._connection.opened.done():
            text = f"{self._host} ended the connection during the TLS handshake; it may not speak TLS 1.3"
            self._connection.fail(ConnectionLostError(text))
        self._connection.connection_lost(exc)

    # Encryption.

    def _advance(self) -> None:
        """Goes on with TLS as far as what arrived allows."""
        if self._below.is_closing():
            return
        try:
            if not self._is_ready:
                self._tls.do_handshake()
                self._is_ready = True
                for data in self._early:
                    self._encrypt(data)
                self._early.clear()
            self._read()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()

    def _read(self) -> None:
        while not self._is_paused and not self._below.is_closing():
            room = self._connection.get_buffer(-1)
            count: Any = self._tls.read(len(room), room)  # an int, given a buffer
            if count == 0:  # the peer says that it is done
                self.close()
                return
            self._connection.buffer_updated(count)

    def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]
            if self._outgoing.pending >= FLUSH_BYTES:
                self._flush()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._below.is_closing():
            self._below.write(self._outgoing.read())

    def _fail(self, error: ssl.SSLError) -> None:
        """Ends the connection with the alert that tells the other side why."""
        self._has_failed = True
        if not self._is_ready and self._host is None and not self._outgoing.pending:
            self._below.write(_ALERT)
        self._flush()
        self._connection.fail(WireError(f"TLS failed: {explain(error, self._host or 'the caller')}"))

    # Called by the connection.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypts and sends; keeps what comes before TLS is ready."""
        if self._has_failed or self._below.is_closing():
            return
        if not self._is_ready:
            self._early.append(bytes(data))
            return
        try:
            self._encrypt(data)
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()

    def close(self) -> None:
        """Closes the connection after what was already written, and says so inside TLS."""
        if self._is_ready and not self._has_failed and not self._below.is_closing():
            with suppress(ssl.SSLError):  # it wants the peer's answer, for which we do not wait
                self._tls.unwrap()
            self._flush()
        self._below.close()

    def abort(self) -> None:
        """Closes the connection at once, or after an alert."""
        if self._has_failed:
            self._below.close()
        else:
            self._below.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closed or closing."""
        return bool(self._below.is_closing())

    def pause_reading(self) -> None:
        """Decrypts nothing more."""
        self._is_paused = True
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Goes on, but not within this call."""
        self._is_paused = False
        self._below.resume_reading()
        asyncio.get_running_loop().call_soon(self._advance)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Sets when the connection is told that the peer does not read."""
        self._below.set_write_buffer_limits(high=high, low=low)

    def get_write_buffer_size(self) -> int:
        """Returns how many encrypted bytes the socket has not taken."""
        return int(self._below.get_write_buffer_size())

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Returns what the transport below knows, and what handshakes are bound to."""
        if name == BINDING and self._host is not None:
            certificate = self._tls.getpeercert(binary_form=True)
            return bind(certificate) if certificate is not None else default
        return self._below.get_extra_info(name, default)
