"""Makes an authority and certificates for all parties of a folder, and turns TLS on in `kabis.toml`.

    DIR/tls/ca.pem               whom clients trust
    DIR/tls/ca.key               the authority's key, which can certify anybody
    DIR/PARTY/tls/...            a party's certificate and its key, which is not the key that it signs with

Only for a cluster on one machine; elsewhere, the operator's own authority certifies parties.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.log.disk.files import replace
from veristream.kabis.operations.certificates import (
    AUTHORITY_DAYS,
    PARTY_DAYS,
    Authority,
    Period,
    decode_key,
    draw_key,
    encode_key,
)
from veristream.kabis.process.settings import TlsSettings
from veristream.kabis.process.tls import CERTIFICATE, KEY, read_tls
from veristream.kabis.protocol.keys import read_private, write_private
from veristream.kabis.protocol.members import Party
from veristream.kabis.wire.endpoints import Address
from veristream.kabis.wire.tls import rehearse

CA, CA_KEY = "tls/ca.pem", "tls/ca.key"
_TABLE = f'[tls]\nca = "{CA}"  # of `veristream kabis up --tls`\n'


def turn_on(cluster: Cluster) -> list[str]:
    """Returns the parties that got a certificate: all, or those whose own one cannot be used any more.

    Nothing is done if the settings name another authority.
    """
    folder, given = cluster.folder, cluster.settings.tls
    if given not in (TlsSettings(), TlsSettings(ca=CA)):
        return []
    if not given.ca:
        _require_off(cluster)
    authority = _find_authority(folder.path, cluster.genesis.chain_id)
    parties = [cluster.seat(name).party for name in dict.fromkeys(cluster.names())]
    issued = [party.name for party in parties if not _is_certified(cluster, party)]
    for party in parties:
        if party.name in issued:
            _certify(authority, party, folder.party(party.name))
    if not given.ca:
        path = folder.settings_path
        text = path.read_text(encoding="utf-8").rstrip() + "\n\n" if path.is_file() else ""
        replace(path, f"{text}{_TABLE}".encode())
    return issued


def certify_newcomer(cluster: Cluster, party: Party) -> None:
    """Makes the certificate of a party that joins a cluster whose own authority certifies its parties."""
    folder = cluster.folder
    if cluster.settings.tls == TlsSettings(ca=CA) and not (folder.party(party.name) / CERTIFICATE).exists():
        _certify(_find_authority(folder.path, cluster.genesis.chain_id), party, folder.party(party.name))


def _require_off(cluster: Cluster) -> None:
    """Raises ModelError unless TLS can be turned on for all parties at once."""
    path = cluster.folder.settings_path
    if cluster.find():
        raise ModelError(
            f"parties of {cluster.folder.path} are running without TLS",
            hint=f"veristream kabis down --data {cluster.folder.path}",
        )
    if path.is_file() and "tls" in tomllib.loads(path.read_text(encoding="utf-8")):
        raise ModelError(f"[tls] in {path} has no `ca`", hint="remove the table, or name a PEM file")


def _find_authority(folder: Path, chain_id: str) -> Authority:
    """Loads the folder's authority, or makes it; an interrupted making is completed."""
    path = folder / CA_KEY
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        write_private(path, encode_key(draw_key()))
    try:
        authority = Authority(f"Kabis CA of {chain_id}", decode_key(read_private(path)))
    except ValueError as error:
        raise ModelError(f"{path} has no key of ours", hint="restore it from a backup") from error
    if not (folder / CA).exists():
        replace(folder / CA, authority.certify_itself(Period.of_days(AUTHORITY_DAYS)).encode())
    return authority


def _is_certified(cluster: Cluster, party: Party) -> bool:
    """Whether a party has a certificate that others accept."""
    try:
        tls = read_tls(cluster.settings, cluster.folder.path, party.name)
        if tls is not None:
            rehearse(tls, tls, Address.parse(party.address).host)
    except (ModelError, EnvironmentFailure):
        return False
    return tls is not None


def _certify(authority: Authority, party: Party, folder: Path) -> None:
    (folder / KEY).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / KEY).unlink(missing_ok=True)
    key = draw_key()
    write_private(folder / KEY, encode_key(key))
    hosts = (Address.parse(party.address).host, "localhost")
    text = authority.certify(party.name, key.public, hosts, Period.of_days(PARTY_DAYS))
    replace(folder / CERTIFICATE, text.encode())
