"""Certificates for tests: one authority, and what it certifies."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from veristream.kabis.operations.certificates import DAY_S, Authority, Period, draw_key, encode_key
from veristream.kabis.wire.tls import Tls

NOW_S = int(time.time())
TODAY = Period(NOW_S - DAY_S, NOW_S + 90 * DAY_S)
PAST = Period(NOW_S - 9 * DAY_S, NOW_S - DAY_S)
FUTURE = Period(NOW_S + DAY_S, NOW_S + 9 * DAY_S)


@dataclass(frozen=True, slots=True)
class Certified:
    """An authority whose certificates are files of a folder."""

    folder: Path
    authority: Authority
    ca: str

    def certify(
        self, name: str, host: str = "127.0.0.1", period: Period = TODAY, *, client_ca: str = ""
    ) -> Tls:
        """A party with a new certificate, that trusts the authority."""
        key, place = draw_key(), self.folder / name
        place.mkdir(parents=True)
        (place / "key.pem").write_text(encode_key(key))
        (place / "key.pem").chmod(0o600)
        (place / "certificate.pem").write_text(self.authority.certify(name, key.public, [host], period))
        return Tls(self.ca, place / "certificate.pem", place / "key.pem", client_ca)


def found(folder: Path, name: str = "an authority") -> Certified:
    return of(folder, Authority(name, draw_key()))


def of(folder: Path, authority: Authority) -> Certified:
    return Certified(folder, authority, authority.certify_itself(TODAY))
