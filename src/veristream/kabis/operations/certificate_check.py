"""Checks a party's certificate as its callers will: in a TLS handshake, in memory."""

from __future__ import annotations

import time
from collections.abc import Iterator

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.operations.findings import Finding, warn
from veristream.kabis.process.tls import read_tls
from veristream.kabis.protocol.members import Party
from veristream.kabis.wire.endpoints import Address
from veristream.kabis.wire.tls import rehearse

WARNED_DAYS = 30
_DAY_S = 86_400
_RENEW = "renew it; `veristream kabis up --tls` does so if it made the authority"


def check_certificate(cluster: Cluster, party: Party) -> Iterator[Finding]:
    """Yields what keeps a party's callers from it, or will soon."""
    try:
        settings = cluster.settings
        host = Address.parse(party.address).host
    except (ValueError, ModelError, EnvironmentFailure):
        return  # told elsewhere
    where = str(cluster.folder_of(party.name))
    try:
        tls = read_tls(settings, cluster.folder.path, party.name)
        callers = [tls, read_tls(settings, cluster.folder.path)]
    except (ModelError, EnvironmentFailure) as error:
        yield Finding(f"TLS of {party.name}: {error.message}", where, error.hint or _RENEW)
        return
    if tls is None:
        return
    try:
        end_s = min(rehearse(tls, caller, host) for caller in callers if caller is not None)
    except (ModelError, EnvironmentFailure) as error:
        yield Finding(f"TLS of {party.name}: {error.message}", str(tls.certificate), error.hint or _RENEW)
        return
    days = (end_s - time.time()) / _DAY_S
    if days < WARNED_DAYS:
        what = f"the certificate of {party.name} expires in {days:.0f} days"
        yield warn(what, str(tls.certificate), f"{_RENEW}; then restart the party")
