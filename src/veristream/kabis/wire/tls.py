"""TLS 1.3 outside of our own handshake, on request: certificates, whom to trust, and what went wrong.

Our handshake proves registered keys, and goes on inside TLS. TLS adds confidentiality, and what an
operator's auditors and network equipment know: certificates of the operator's own authority.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError

BINDING = "kabis_tls_binding"
"""What a transport calls the SHA-256 of the server's certificate; one without TLS has none."""
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom we trust, what we present, and whom a server admits; a server needs a certificate and its key.

    `ca` and `client_ca` are certificates in PEM: of authorities, or of those that are trusted themselves.
    """

    ca: str
    certificate: Path | None = None
    key: Path | None = None
    client_ca: str = ""


@dataclass(frozen=True, slots=True)
class ServerTls:
    """A server's side of TLS, and what its handshakes are bound to."""

    context: ssl.SSLContext
    binding: bytes

    @staticmethod
    def load(tls: Tls) -> ServerTls:
        """Reads the certificate and the key. Raises ModelError or EnvironmentFailure."""
        if tls.certificate is None or tls.key is None:
            raise ModelError("a server needs a certificate and its key for TLS", hint="see [tls]")
        first = _CERTIFICATE.search(_read(tls.certificate))
        if first is None:
            raise ModelError(f"{tls.certificate} has no certificate", hint="it is a file in PEM")
        context = _make_context(ssl.PROTOCOL_TLS_SERVER)
        context.num_tickets = 0  # nobody resumes, and each would cost a message
        _present(context, tls.certificate, tls.key)
        if tls.client_ca:
            _trust(context, tls.client_ca, "client_ca")
            context.verify_mode = ssl.CERT_REQUIRED
        return ServerTls(context, bind(ssl.PEM_cert_to_DER_cert(first[0])))


def make_client_context(tls: Tls) -> ssl.SSLContext:
    """Returns a client's side of TLS. Raises ModelError or EnvironmentFailure."""
    context = _make_context(ssl.PROTOCOL_TLS_CLIENT)
    _trust(context, tls.ca, "ca")
    if tls.certificate is not None and tls.key is not None:
        _present(context, tls.certificate, tls.key)
    return context


def rehearse(server: Tls, client: Tls, host: str) -> float:
    """Does TLS between both in memory; returns when the server's certificate ends, in seconds since 1970.

    Raises ModelError or EnvironmentFailure as one of them would find it, with the server at this host.
    """
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = make_client_context(client).wrap_bio(to_client, to_server, server_hostname=host)
    theirs = ServerTls.load(server).context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for _ in range(2):  # TLS 1.3 needs no more turns
            for side in (ours, theirs):
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
    except ssl.SSLError as error:
        raise ModelError(explain(error, host)) from error
    certificate = ours.getpeercert()
    if certificate is None:
        raise ModelError(f"TLS with {host} does not end")
    return ssl.cert_time_to_seconds(str(certificate["notAfter"]))


def bind(certificate: bytes) -> bytes:
    """Returns what a handshake is bound to, given the certificate that the server presents."""
    return sha256(certificate).digest()


def _make_context(side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_3
    context.verify_flags |= (
        ssl.VERIFY_X509_PARTIAL_CHAIN
    )  # so that a party's own certificate can be trusted
    return context


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise EnvironmentFailure(f"cannot read {path}: {error.strerror}", "see [tls]") from error


def _present(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    _read(key)  # for its own error
    try:
        context.load_cert_chain(certificate, key, password="")  # an encrypted key must not ask the terminal
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            text = f"the key {key} is not that of the certificate {certificate}"
        else:
            text = f"cannot use the certificate {certificate} with the key {key}: {_say(error)}"
        raise ModelError(text, hint="both are files in PEM, and the key is not encrypted") from error
    except OSError as error:
        raise EnvironmentFailure(f"cannot read {certificate}: {error.strerror}", "see [tls]") from error


def _trust(context: ssl.SSLContext, ca: str, name: str) -> None:
    try:
        context.load_verify_locations(cadata=ca)
    except (ssl.SSLError, ValueError) as error:
        raise ModelError(f"`{name}` under [tls] has no certificate", hint="name a file in PEM") from error


_VERIFY_EXPIRED, _VERIFY_NOT_YET, _VERIFY_HOST, _VERIFY_IP = 10, 9, 62, 64
_VERIFY_UNKNOWN = frozenset({2, 18, 19, 20, 21, 27})
_REASONS: Mapping[str, str] = {
    "WRONG_VERSION_NUMBER": "the other side does not speak TLS",
    "HTTP_REQUEST": "the other side speaks HTTP without TLS",
    "UNSUPPORTED_PROTOCOL": "the other side offers no TLS 1.3",
    "TLSV1_ALERT_PROTOCOL_VERSION": "the other side refuses TLS 1.3",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the other side presents no certificate",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "the other side requires a certificate of ours",
    "TLSV1_ALERT_UNKNOWN_CA": "the other side does not trust our certificate",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "the other side finds our certificate expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the other side does not accept our certificate for this address",
}


def explain(error: ssl.SSLError, host: str) -> str:
    """Returns in words why TLS failed; `host` is the other side's address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        match error.verify_code:
            case code if code == _VERIFY_EXPIRED:
                return f"the certificate of {host} has expired"
            case code if code == _VERIFY_NOT_YET:
                return f"the certificate of {host} is not valid yet"
            case code if code in (_VERIFY_HOST, _VERIFY_IP):
                return f"the certificate of {host} is not for this address"
            case code if code in _VERIFY_UNKNOWN:
                return f"the certificate of {host} is of no authority that we trust"
        return f"the certificate of {host} is not valid: {error.verify_message}"
    return _say(error)


def _say(error: ssl.SSLError) -> str:
    reason = error.reason or str(error)
    return _REASONS.get(reason) or reason.lower().replace("_", " ")
