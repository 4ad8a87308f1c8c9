"""The files that `[tls]` in `kabis.toml` names."""

from __future__ import annotations

from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.process.settings import Settings
from veristream.kabis.protocol.keys import read_private
from veristream.kabis.wire.tls import ServerTls, Tls, make_client_context

CERTIFICATE, KEY = "tls/certificate.pem", "tls/key.pem"
"""The files of a party, in its folder, unless its settings name others."""


def read_tls(settings: Settings, folder: Path, party: str | None = None) -> Tls | None:
    """Returns the TLS of a party, or of the folder's clients; None if it is off.

    `folder` has the settings. Raises ModelError or EnvironmentFailure if it cannot be used.
    """
    tls = find_tls(settings, folder, party)
    if tls is None:
        return None
    for path in (tls.certificate, tls.key):
        if path is not None and not path.is_file():
            hint = "`veristream kabis up --tls` makes those of parties on one machine"
            raise ModelError(f"{path} is missing, which TLS needs", hint=hint)
    if tls.key is not None:
        read_private(tls.key)  # others may not read it
    make_client_context(tls)
    if party is not None:
        ServerTls.load(tls)
    return tls


def find_tls(settings: Settings, folder: Path, party: str | None = None) -> Tls | None:
    """As `read_tls`, without checking the certificate and the key."""
    given, folder = settings.tls, folder.resolve()
    if not given.ca:
        return None
    ca = _read(folder / given.ca, "ca")
    if party is None:
        if not given.certificate:
            return Tls(ca)
        return Tls(ca, folder / given.certificate, folder / given.key)
    own = settings.party(party)
    return Tls(
        ca,
        folder / (own.tls_certificate or f"{party}/{CERTIFICATE}"),
        folder / (own.tls_key or f"{party}/{KEY}"),
        _read(folder / given.client_ca, "client_ca") if given.client_ca else "",
    )


def _read(path: Path, key: str) -> str:
    try:
        return path.read_text(encoding="ascii", errors="ignore")  # comments may be in any language
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot read {path}: {error.strerror}", f"it is `{key}` under [tls] in kabis.toml"
        ) from error
