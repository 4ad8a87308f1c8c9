"""The handshake in which two parties prove their keys, and the frames they exchange; no clock, no socket.

The handshake follows SIGMA and TLS 1.3. Each side sends a nonce and an ephemeral X25519 key. The server
signs everything up to its own identity, and the client everything up to its own, which includes the
server's signature. The keys of the frames are derived from the shared secret *and* all three messages, so
an attacker who replaces an identity or an ephemeral key gets keys that fit neither side. Both signed texts
contain their own domain tag and the chain's name, so the signatures are valid for nothing else.

A frame is its length, the payload and a MAC (BLAKE2b, keyed per direction) over the frame's number, the
length and the payload: nothing can be changed, replayed, reordered or left out. (An attachment has no MAC;
`connection.py` says why.) A session is encrypted (XSalsa20-Poly1305, with the frame's number as nonce) if
either side asks for it. By default it is not: for small frames a MAC costs a fifth of it, and secret
payloads are sealed per topic anyway. For frames of 64 KiB and more encryption is cheaper
(`bench/storage.py`).

Inside TLS, both signed texts and the keys also depend on the *binding*, the SHA-256 of the certificate that
the server presents there. So whoever stands in the middle with another certificate gets nowhere, even if
it is valid. Without TLS the binding is empty, and not a byte differs from what it was before there was one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b, sha256
from hmac import compare_digest
from typing import Annotated, TypeVar

from nacl.bindings import (
    crypto_scalarmult,
    crypto_scalarmult_base,
    crypto_secretbox,
    crypto_secretbox_open,
)
from nacl.exceptions import CryptoError

from veristream.kabis.protocol.codec import Coded, DecodeError, Octets, Writer
from veristream.kabis.protocol.fields import Name, PublicKey, Signature, fixed
from veristream.kabis.protocol.keys import SignatureError, Signer, verify
from veristream.kabis.wire.tls import Tls

NONCE_BYTES = 32
EPHEMERAL_BYTES = 32
HANDSHAKE_BYTES_MAX = 2048
LENGTH_BYTES = 4
MAC_BYTES = 16
BUFFER_BYTES = 64 << 10
"""The size of the receive buffer; frames up to this size are copied out of it, larger ones are not."""
_COUNTER_BYTES = 8
_TLS_RECORDS = frozenset({0x160301, 0x160303, 0x150301, 0x150303})
"""How a handshake or an alert of TLS begins; as the length of a frame it would be far too large."""
_BOX_NONCE_BYTES = 24


_Message = TypeVar("_Message", bound=Coded)


class WireError(Exception):
    """The peer is not the expected one, or its data was tampered with."""


class Role(Enum):
    """The role of a party on the wire; `ANONYMOUS` has a key like all others, but it is not registered."""

    VALIDATOR = 1
    STORAGE = 2
    PRODUCER = 3
    CONSUMER = 4
    ADMIN = 5
    ANONYMOUS = 6


@dataclass(frozen=True, slots=True)
class Peer:
    """The other side: it has proved that it holds the key; the name is only its claim."""

    role: Role
    name: Name
    public: PublicKey


@dataclass(frozen=True, slots=True)
class Identity:
    """Who we are: our chain, role, name and key; with `tls`, our connections are inside TLS."""

    chain_id: str
    role: Role
    name: str
    signer: Signer
    tls: Tls | None = None

    @property
    def peer(self) -> Peer:
        """What the other side learns about us."""
        return Peer(self.role, self.name, self.signer.public)


@dataclass(frozen=True, slots=True)
class Secrets:
    """The random secrets of one side for one handshake."""

    nonce: bytes
    ephemeral: bytes

    @staticmethod
    def draw(random: bytes) -> Secrets:
        """Makes the secrets of 64 random bytes."""
        if len(random) != NONCE_BYTES + EPHEMERAL_BYTES:
            raise ValueError("64 random bytes are needed")
        return Secrets(random[:NONCE_BYTES], random[NONCE_BYTES:])


@dataclass(frozen=True, slots=True)
class _Hello(Coded, kind="wire-hello", bytes_max=HANDSHAKE_BYTES_MAX):
    """The first message: the client's share."""

    chain_id: Name
    nonce: Annotated[bytes, fixed(NONCE_BYTES)]
    ephemeral: Annotated[bytes, fixed(EPHEMERAL_BYTES)]
    encrypt: bool


@dataclass(frozen=True, slots=True)
class _Proof(Coded, kind="wire-proof", bytes_max=HANDSHAKE_BYTES_MAX):
    """An identity, with the signature that proves it."""

    peer: Peer
    signature: Signature


@dataclass(frozen=True, slots=True)
class _Answer(Coded, kind="wire-answer", bytes_max=HANDSHAKE_BYTES_MAX):
    """The second message: the server's share and its proof."""

    hello: _Hello
    proof: _Proof


def _write_peer(writer: Writer, peer: Peer) -> None:
    writer.u8(peer.role.value)
    writer.text(peer.name)
    writer.public_key(peer.public)


class ClientHandshake:
    """The client's side: send `hello`, pass the answer to `finish`, and send what that returns."""

    def __init__(
        self, identity: Identity, server: Peer | None, secrets: Secrets, *, encrypt: bool = False
    ) -> None:
        self._identity = identity
        self._server = server
        self._secrets = secrets
        ephemeral = crypto_scalarmult_base(secrets.ephemeral)
        self.hello = _Hello(identity.chain_id, secrets.nonce, ephemeral, encrypt).encode()
        self._encrypt = encrypt

    def finish(self, data: bytes, binding: bytes = b"") -> tuple[bytes, Session]:
        """Returns the proof to send, and the session. Raises WireError."""
        answer = _decode(_Answer, data)
        if answer.hello.chain_id != self._identity.chain_id:
            raise WireError(f"the server is of the chain {answer.hello.chain_id!r}")
        server = answer.proof.peer
        if self._server is not None and server != self._server:
            raise WireError(f"the server is {_called(server)}, expected was {_called(self._server)}")
        asked = _server_bytes(self._identity.chain_id, self.hello, answer.hello, server, binding)
        _check(server, asked, answer.proof.signature, binding)
        ours = _client_bytes(self._identity.chain_id, self.hello, data, self._identity.peer, binding)
        proof = _Proof(self._identity.peer, self._identity.signer.sign(ours)).encode()
        keys = _derive(self._secrets, answer.hello.ephemeral, (self.hello, data, proof), binding)
        encrypted = self._encrypt or answer.hello.encrypt
        return proof, Session(server, send=keys[0], receive=keys[1], encrypted=encrypted)


class ServerHandshake:
    """The server's side: pass the client's hello to `answer`, and its proof to `finish`."""

    def __init__(
        self, identity: Identity, secrets: Secrets, *, encrypt: bool = False, binding: bytes = b""
    ) -> None:
        self._identity = identity
        self._secrets = secrets
        self._encrypt = encrypt
        self._binding = binding
        self._hello = b""
        self._answer = b""
        self._client_hello: _Hello | None = None

    def answer(self, data: bytes) -> bytes:
        """Returns the answer to a client's hello, even to one of another chain, which then knows."""
        hello = _decode(_Hello, data)
        chain_id = self._identity.chain_id
        ephemeral = crypto_scalarmult_base(self._secrets.ephemeral)
        ours = _Hello(chain_id, self._secrets.nonce, ephemeral, self._encrypt)
        signed = _server_bytes(chain_id, data, ours, self._identity.peer, self._binding)
        signature = self._identity.signer.sign(signed)
        self._answer = _Answer(ours, _Proof(self._identity.peer, signature)).encode()
        self._hello, self._client_hello = data, hello
        return self._answer

    def finish(self, data: bytes) -> Session:
        """Returns the session with a client that has proved its key; it is not authorized yet."""
        if self._client_hello is None:
            raise WireError("a proof before the hello")
        if self._client_hello.chain_id != self._identity.chain_id:
            raise WireError(f"the client is of the chain {self._client_hello.chain_id!r}")
        proof = _decode(_Proof, data)
        asked = _client_bytes(self._identity.chain_id, self._hello, self._answer, proof.peer, self._binding)
        _check(proof.peer, asked, proof.signature, self._binding)
        messages = (self._hello, self._answer, data)
        keys = _derive(self._secrets, self._client_hello.ephemeral, messages, self._binding)
        encrypted = self._encrypt or self._client_hello.encrypt
        return Session(proof.peer, send=keys[1], receive=keys[0], encrypted=encrypted)


class Session:
    """Seals and opens frames, with one counter and one key for each direction."""

    def __init__(self, peer: Peer, *, send: bytes, receive: bytes, encrypted: bool) -> None:
        self.peer = peer
        self.encrypted = encrypted
        self._send = send
        self._receive = receive
        self._send_mac = blake2b(key=send, digest_size=MAC_BYTES)
        self._receive_mac = blake2b(key=receive, digest_size=MAC_BYTES)
        self._sent = 0
        self._received = 0

    def seal(self, payload: bytes) -> bytes:
        """Returns the frame of a payload; frames must be sent in this order."""
        number = self._sent.to_bytes(_COUNTER_BYTES, "big")
        self._sent += 1
        length = (len(payload) + MAC_BYTES).to_bytes(LENGTH_BYTES, "big")
        if self.encrypted:
            return length + crypto_secretbox(payload, number.rjust(_BOX_NONCE_BYTES, b"\0"), self._send)
        mac = self._send_mac.copy()
        mac.update(number + length)
        mac.update(payload)
        return b"".join((length, payload, mac.digest()))

    def open(self, body: Octets) -> Octets:
        """Returns the payload of the next frame, given without its length. Raises WireError."""
        number = self._received.to_bytes(_COUNTER_BYTES, "big")
        self._received += 1
        if self.encrypted:
            try:
                return crypto_secretbox_open(
                    bytes(body), number.rjust(_BOX_NONCE_BYTES, b"\0"), self._receive
                )
            except (CryptoError, ValueError) as error:
                raise WireError("a frame was changed, replayed, reordered or left out") from error
        payload = body[:-MAC_BYTES]
        mac = self._receive_mac.copy()
        mac.update(number + len(body).to_bytes(LENGTH_BYTES, "big"))
        mac.update(payload)
        if not compare_digest(mac.digest(), body[-MAC_BYTES:]):
            raise WireError("a frame was changed, replayed, reordered or left out")
        return payload


class Splitter:
    """Splits a stream of bytes into frames; holds at most one incomplete frame.

    Bytes are received straight into its buffer: `room` returns where the next ones go, and `fill` notes how
    many arrived. A large frame has its own buffer and is returned as that buffer, not copied. A peer cannot
    claim memory by announcing a large frame: the buffer grows as bytes arrive, unless a frame of that size
    arrived before.
    """

    def __init__(self, frame_bytes_max: int) -> None:
        self.frame_bytes_max = frame_bytes_max
        self._buffer = bytearray()
        self._start = 0
        self._end = 0
        self._large_bytes = BUFFER_BYTES

    @property
    def partial(self) -> bool:
        """Whether a frame has begun and is incomplete."""
        return self._start < self._end

    @property
    def held_bytes(self) -> int:
        """The size of the buffer."""
        return len(self._buffer)

    def room(self) -> memoryview:
        """Returns where the next bytes go; never empty."""
        held = self._end - self._start
        wanted = self._wanted_bytes(held)
        if self._start + wanted > len(self._buffer):
            self._move(held, wanted)
        return memoryview(self._buffer)[self._end : self._start + wanted]

    def _wanted_bytes(self, held: int) -> int:
        """Returns how many bytes the buffer should hold, from the current frame on."""
        small = min(self.frame_bytes_max + LENGTH_BYTES, BUFFER_BYTES)
        if held < LENGTH_BYTES:
            return small
        whole = LENGTH_BYTES + self._length()
        wanted = small if whole <= small else min(whole, max(self._large_bytes, 2 * held))
        return wanted if wanted > held else held + small  # complete frames wait, and nobody takes them out

    def _move(self, held: int, wanted: int) -> None:
        """Moves the held bytes to the front of a buffer that is large enough, which may be the same."""
        data = self._buffer[self._start : self._end]
        if len(self._buffer) < wanted:
            self._buffer = bytearray(wanted)
        self._buffer[:held] = data
        self._start, self._end = 0, held

    def fill(self, count: int) -> None:
        """Notes that bytes arrived."""
        self._end += count

    def next(self) -> Octets | None:
        """Returns the next frame without its length, or None until it is complete. Raises WireError."""
        held = self._end - self._start
        if held < LENGTH_BYTES:
            return None
        length = self._length()
        if length > self.frame_bytes_max:
            if length >> 8 in _TLS_RECORDS:
                raise WireError("the other side speaks TLS, and we do not: see [tls] in kabis.toml")
            raise WireError(f"a frame of {length} bytes, at most {self.frame_bytes_max}")
        whole = LENGTH_BYTES + length
        if held < whole:
            return None
        begin = self._start + LENGTH_BYTES
        frame = memoryview(self._buffer)[begin : begin + length]
        self._start += whole
        if whole <= BUFFER_BYTES:
            return bytes(frame)
        self._large_bytes = max(self._large_bytes, whole)
        self._buffer = self._buffer[self._start : self._end]  # of a large frame: nothing follows it there
        self._start, self._end = 0, len(self._buffer)
        return frame

    def _length(self) -> int:
        return int.from_bytes(self._buffer[self._start : self._start + LENGTH_BYTES], "big")


def prefix(message: bytes) -> bytes:
    """Encodes a message of the handshake with its length."""
    return len(message).to_bytes(LENGTH_BYTES, "big") + message


def _called(peer: Peer) -> str:
    return f"{peer.role.name.lower()} {peer.name!r} with the key {peer.public.hex()[:16]}"


def _decode(kind: type[_Message], data: bytes) -> _Message:
    try:
        return kind.decode(data)
    except DecodeError as error:
        raise WireError(f"the handshake cannot be read: {error}") from error


def _check(peer: Peer, message: bytes, signature: bytes, binding: bytes) -> None:
    try:
        verify(peer.public, message, signature)
    except SignatureError as error:
        where = f" on TLS with the certificate {binding.hex()[:16]}" if binding else ""
        raise WireError(f"{_called(peer)} did not sign this handshake{where}") from error


def _begin_signed(kind: str, binding: bytes) -> Writer:
    """Begins what is signed; inside TLS it has a tag of its own, and the binding."""
    writer = Writer(f"{kind}-tls" if binding else kind)
    if binding:
        writer.digest(binding)
    return writer


def _server_bytes(
    chain_id: str, client_hello: bytes, hello: _Hello, server: Peer, binding: bytes = b""
) -> bytes:
    """Returns what the server signs: both shares and its identity."""
    writer = _begin_signed("wire-server", binding)
    writer.text(chain_id)
    writer.digest(sha256(client_hello).digest())
    writer.digest(sha256(hello.encode()).digest())
    _write_peer(writer, server)
    return writer.to_bytes()


def _client_bytes(
    chain_id: str, client_hello: bytes, answer: bytes, client: Peer, binding: bytes = b""
) -> bytes:
    """Returns what the client signs: both shares, the server's proof, and its own identity."""
    writer = _begin_signed("wire-client", binding)
    writer.text(chain_id)
    writer.digest(sha256(client_hello).digest())
    writer.digest(sha256(answer).digest())
    _write_peer(writer, client)
    return writer.to_bytes()


def _derive(
    secrets: Secrets, ephemeral: bytes, messages: tuple[bytes, bytes, bytes], binding: bytes
) -> tuple[bytes, bytes]:
    """Derives the keys from client to server and back."""
    try:
        shared = crypto_scalarmult(secrets.ephemeral, ephemeral)
    except (CryptoError, RuntimeError) as error:  # a point of low order: anyone would know the secret
        raise WireError("the ephemeral key of the other side is invalid") from error
    transcript = b"".join(sha256(message).digest() for message in messages) + binding
    keys = blake2b(transcript, key=shared, digest_size=64, person=b"kabis/1/wire-key").digest()
    return keys[:32], keys[32:]
