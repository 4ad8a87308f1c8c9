"""Units of systemd that run a cluster's parties, one service for each and a target for all.

systemd restarts what fails, as the supervisor does on a laptop; use one of them, not both. Parties get no
privileges, see no other home, and write only to their own folder.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from veristream.errors import ModelError
from veristream.kabis.cluster.cluster import Cluster, StartOptions
from veristream.kabis.cluster.restarts import REFUSED

STOP_S = 30
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_HARDENING = """\
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictSUIDSGID=yes
LockPersonality=yes
CapabilityBoundingSet=
SystemCallArchitectures=native
UMask=0077
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """A file for /etc/systemd/system."""

    name: str
    text: str


def make_units(cluster: Cluster, user: str) -> list[Unit]:
    """Returns the units of all parties, and the target that starts them."""
    if _USER.fullmatch(user) is None:
        raise ModelError(f"{user!r} is not the name of a user", hint="name the user that owns the folder")
    chain = re.sub(r"[^A-Za-z0-9_.-]", "-", cluster.genesis.chain_id)
    target = f"{chain}.target"
    services = [_make_service(cluster, name, user, chain) for name in cluster.names()]
    wants = " ".join(each.name for each in services)
    text = (
        f"[Unit]\nDescription=Kabis chain {chain}\nWants={wants}\n\n[Install]\nWantedBy=multi-user.target\n"
    )
    return [Unit(target, text), *services]


def _make_service(cluster: Cluster, name: str, user: str, chain: str) -> Unit:
    supervisor, quotas = cluster.settings.supervisor, cluster.settings.quotas
    folder = cluster.folder_of(name).resolve()
    command = " ".join(map(quote, [*cluster.command(name, StartOptions(attended=False)), "--note"]))
    within_s = 10 * supervisor.last_s * supervisor.failures_max
    text = (
        f"[Unit]\nDescription=Kabis {name} of chain {chain}\nPartOf={chain}.target\n"
        f"After=network.target\nStartLimitIntervalSec={within_s:g}\n"
        f"StartLimitBurst={supervisor.failures_max}\n\n"
        f"[Service]\nType=exec\nUser={user}\nExecStart={command}\n"
        f"Restart=on-failure\nRestartSec={max(1.0, supervisor.first_s):g}\n"
        f"RestartPreventExitStatus={REFUSED}\nTimeoutStopSec={STOP_S}\nKillMode=mixed\n"
        f"LimitNOFILE={quotas.connections_max + quotas.files_reserved}\n"
        f"{_HARDENING}ReadWritePaths={quote(str(folder))}\n\n"
        f"[Install]\nWantedBy={chain}.target\n"
    )
    return Unit(f"{chain}-{name}.service", text)


def quote(word: str) -> str:
    """Quotes a word for systemd, which expands `%` and `$` also within quotes."""
    escaped = word.replace("\\", "\\\\").replace("%", "%%").replace("$", "$$")
    if escaped == word and shlex.quote(word) == word:
        return word
    return '"' + escaped.replace('"', '\\"').replace("\n", "\\n") + '"'


def write_units(units: list[Unit], folder: Path) -> None:
    """Writes the units to a folder; replaces those that are there."""
    folder.mkdir(parents=True, exist_ok=True)
    for unit in units:
        (folder / unit.name).write_text(unit.text, encoding="utf-8")
