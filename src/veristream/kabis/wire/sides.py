"""The two sides of a connection: the server's, which stands behind a door, and the client's."""

from __future__ import annotations

import asyncio
import logging

from veristream.kabis.protocol.codec import Octets
from veristream.kabis.wire.connection import (
    FRAME_MORE_BYTES,
    REASON_BYTES_MAX,
    REFUSED,
    WELCOME,
    Connection,
)
from veristream.kabis.wire.door import Door
from veristream.kabis.wire.handlers import (
    Authorize,
    ConnectionLostError,
    Handlers,
    Limits,
    PeerRefusedError,
)
from veristream.kabis.wire.handshake import ClientHandshake, Peer, ServerHandshake, WireError, prefix
from veristream.kabis.wire.refusals import call_address, call_peer
from veristream.kabis.wire.tls import BINDING

_LOGGER = logging.getLogger(__name__)


class ServerConnection(Connection):
    """The server's side: it proves its key first, then decides whether to admit the client."""

    def __init__(
        self,
        handshake: ServerHandshake,
        authorize: Authorize,
        handlers: Handlers,
        limits: Limits,
        door: Door,
    ) -> None:
        super().__init__(handlers, limits)
        self._handshake = handshake
        self._authorize = authorize
        self._door = door
        self._frame_bytes = 0
        self.host = ""
        self._on_frame = self._on_hello

    @property
    def has_spoken(self) -> bool:
        """Whether it has sent its hello."""
        return self._on_frame != self._on_hello

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Tells the door that somebody knocked."""
        super().connection_made(transport)
        peername = transport.get_extra_info("peername")
        self.host = str(peername[0]) if peername else ""
        self._door.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the door that somebody left."""
        super().connection_lost(exc)
        if self._share is not None:
            self._share.frame_bytes -= self._frame_bytes
        self._door.leave(self)

    def buffer_updated(self, nbytes: int) -> None:
        """Acts on what arrived; cuts off an identity that begins many large frames and ends none."""
        super().buffer_updated(nbytes)
        held = self._splitter.held_bytes
        if self._share is None or held == self._frame_bytes or self.closed:
            return
        self._share.frame_bytes += held - self._frame_bytes
        self._frame_bytes = held
        if self._share.frame_bytes > self._share.quotas.request_bytes_per_identity:
            self._share.frame_bytes -= held  # it goes at once, so that the others need not
            self._frame_bytes = 0
            self._fail(WireError(f"{self._share.who} has too many unfinished frames"))

    def _on_hello(self, frame: Octets) -> None:
        self._transport.write(prefix(self._handshake.answer(bytes(frame))))
        self._on_frame = self._on_proof

    def _on_proof(self, frame: Octets) -> None:
        session = self._handshake.finish(bytes(frame))
        refusal = self._authorize(session.peer)
        if refusal is not None:
            self._door.refusals.note(call_address(self.host), "refused key")
        refusal = refusal or self._door.admit(self, session.peer)
        self._open(session)
        if refusal is None:
            self._share, self._turns = self._door.share_of(self), self._door.turns
            if self._share is not None and not self._share.is_party:
                longest = self._limits.client_frame_bytes_max + FRAME_MORE_BYTES
                self._splitter.frame_bytes_max = min(self._splitter.frame_bytes_max, longest)
            self._send(WELCOME, 0, b"")
            self.opened.set_result(session.peer)
            return
        self._refuse(session.peer, refusal)

    def _refuse(self, peer: Peer, refusal: str) -> None:
        _LOGGER.info("%s %r is refused: %s", peer.role.name.lower(), peer.name, refusal)
        self._send(REFUSED, 0, refusal.encode()[:REASON_BYTES_MAX])
        self._on_frame = lambda _frame: None
        self._transport.close()

    def expel(self, refusal: str) -> None:
        """Closes an open connection whose peer is not authorized any more."""
        _LOGGER.info("%s %r has to leave: %s", self.peer.role.name.lower(), self.peer.name, refusal)
        self._door.refusals.note(call_peer(self.peer), "ended key")
        self._transport.close()

    def _fail(self, error: Exception) -> None:
        if self._share is None:
            self._door.refusals.note(call_address(self.host), "bad handshake")
        elif isinstance(error, ConnectionLostError):  # it was too slow, as a machine may be
            self._door.refusals.note(self._share.who, "silence")
        else:
            self._door.ban(self._share)
        super()._fail(error)


class ClientConnection(Connection):
    """The client's side."""

    def __init__(
        self,
        handshake: ClientHandshake,
        handlers: Handlers,
        limits: Limits,
    ) -> None:
        super().__init__(handlers, limits)
        self._handshake = handshake
        self._on_frame = self._on_answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the hello."""
        super().connection_made(transport)
        self._transport.write(prefix(self._handshake.hello))

    def _on_answer(self, frame: Octets) -> None:
        binding = self._transport.get_extra_info(BINDING, b"")
        proof, session = self._handshake.finish(bytes(frame), binding)
        self._transport.write(prefix(proof))
        self._open(session)

    def _on_welcome(self, kind: int, body: bytes) -> None:
        if self.opened.done() or kind not in (WELCOME, REFUSED):
            super()._on_welcome(kind, body)
        elif kind == WELCOME:
            self.opened.set_result(self.peer)
        else:
            self._fail(PeerRefusedError(body.decode("utf-8", "replace")))
