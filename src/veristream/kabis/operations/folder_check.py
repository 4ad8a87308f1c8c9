"""Checks a cluster's folder: keys, genesis, settings, logs, votes, disk space, limits and ports.

Nothing is changed, and parties may be running.
"""

from __future__ import annotations

import os
import resource
import shutil
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client.known_members import Seat
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import KEY, NEXT_KEY
from veristream.kabis.log.disk.opening import segment_paths
from veristream.kabis.log.disk.repair import find_damages
from veristream.kabis.log.disk.segment import HEADER_BYTES
from veristream.kabis.operations.certificate_check import check_certificate
from veristream.kabis.operations.findings import Finding, Severity, warn
from veristream.kabis.process.monitor import DISK_FREE_MIN_BYTES
from veristream.kabis.protocol.keys import load_key
from veristream.kabis.protocol.members import MemberRole, Party
from veristream.kabis.storage.late_clients import load_clients
from veristream.kabis.wire.endpoints import Address

DISK_FREE_WARNED_BYTES = 1 << 30


def check_folder(cluster: Cluster) -> list[Finding]:
    """Returns what is wrong with the folder; raises ModelError if it does not say who the parties are."""
    running, former = cluster.find(), cluster.former()
    findings = [
        *_check_files(cluster),
        *_check_client_keys(cluster),
        *_check_disk(cluster.folder.path),
        *_check_limit(cluster),
    ]
    for seat in cluster.seats():
        if seat.party.name in former:
            continue
        findings += _check_party(cluster, seat)
        findings += check_certificate(cluster, seat.party)
        if seat.party.name not in running:
            findings += _check_port(cluster, seat.party)
    return findings


def _told(read: Callable[[], object], where: Path) -> Iterator[Finding]:
    """Yields the error that reading something raises."""
    try:
        read()
    except (ModelError, EnvironmentFailure) as error:
        yield Finding(error.message, str(where), error.hint or "restore the file from a backup")


def _check_files(cluster: Cluster) -> Iterator[Finding]:
    folder = cluster.folder
    yield from _told(lambda: cluster.settings, folder.settings_path)
    yield from _told(lambda: load_clients(folder.clients_path), folder.clients_path)
    mode = stat.S_IMODE(folder.path.stat().st_mode)
    if mode & 0o077:
        yield warn(
            f"others may enter the folder (mode {mode:o})", str(folder.path), f"chmod 700 {folder.path}"
        )


def _check_client_keys(cluster: Cluster) -> Iterator[Finding]:
    for path in sorted(cluster.folder.path.glob("keys*/*")):
        yield from _told(lambda path=path: load_key(path), path)  # type: ignore[misc]


def _check_party(cluster: Cluster, seat: Seat) -> Iterator[Finding]:
    name = seat.party.name
    folder = cluster.folder_of(name)
    if not folder.is_dir():
        yield Finding(f"{name} has no folder", str(folder), "restore it from a backup")
        return
    keys = [path for path in (folder / KEY, folder / NEXT_KEY) if path.name == KEY or path.exists()]
    problems = [each for path in keys for each in _told(lambda path=path: load_key(path), path)]  # type: ignore[misc]
    yield from problems
    if not problems:
        yield from _check_keys(cluster, seat, {load_key(path).public for path in keys})
    is_validator = seat.role is MemberRole.VALIDATOR
    for log in ("blocks", "records") if is_validator else ("log",):
        yield from _check_log(folder / log, is_validator=is_validator)
    if is_validator:
        yield from _check_votes(folder)


def _check_keys(cluster: Cluster, seat: Seat, publics: set[bytes]) -> Iterator[Finding]:
    """A party needs the key that it has as a member, and the one that it gets by an ordered change."""
    name, known = seat.party.name, cluster.folder.members()
    for members in {known.in_force, known.latest}:
        party = members.find(seat.role, name)
        if party is not None and party.public not in publics:
            yield Finding(
                f"the key is not that of {name}",
                str(cluster.folder_of(name) / KEY),
                "restore the party's own key from a backup",
            )
            return


def _check_log(folder: Path, *, is_validator: bool) -> Iterator[Finding]:
    try:
        damages = list(find_damages(folder))
    except FileNotFoundError:  # retention has deleted a segment meanwhile
        return
    except OSError as error:
        yield Finding(f"cannot read the log: {error.strerror}", str(folder), "look at the disk")
        return
    except EnvironmentFailure as failure:
        yield Finding(failure.message, str(folder), failure.hint)
        return
    for damage in damages:
        do = "stop the cluster, then start it with `veristream kabis up --repair`"
        if is_validator:
            do = f"stop the validator and move {folder} away: the others have the blocks"
        if folder.name == "records":
            do = f"restore {folder} from a backup: without it the validator might vote twice"
        what = f"damaged at byte {damage.offset}, record {damage.position}: {damage.reason}"
        yield Finding(what, damage.file, do)


def _check_votes(folder: Path) -> Iterator[Finding]:
    """A validator that has blocks has voted; without the records of its votes it might contradict them."""
    has_blocks = any(path.stat().st_size > HEADER_BYTES for path in segment_paths(folder / "blocks"))
    if has_blocks and not segment_paths(folder / "records"):
        yield Finding(
            "the records of this validator's votes are missing",
            str(folder / "records"),
            "restore the validator's folder from a backup: without them it might vote twice",
        )


def _check_disk(path: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(path).free
    if free < DISK_FREE_WARNED_BYTES:
        severity = Severity.ERROR if free < DISK_FREE_MIN_BYTES else Severity.WARNING
        do = "free space, or lower `bytes_max` under [retention] in kabis.toml"
        yield Finding(f"only {free >> 20} MiB are free", str(path), do, severity)


def _check_limit(cluster: Cluster) -> Iterator[Finding]:
    try:
        quotas = cluster.settings.quotas
    except (ModelError, EnvironmentFailure):
        return  # told elsewhere
    highest = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # parties raise their limit as far as that
    needed = quotas.connections_max + quotas.files_reserved
    if highest != resource.RLIM_INFINITY and highest < needed:
        yield warn(
            f"a process may open {highest} files, and {quotas.connections_max} connections need {needed}",
            "limit of open files",
            f"ulimit -Hn {needed}, or lower `connections_max` under [quotas] in kabis.toml",
        )


def _check_port(cluster: Cluster, party: Party) -> Iterator[Finding]:
    try:
        address = Address.parse(cluster.settings.party(party.name).listen or party.address)
    except (ValueError, ModelError, EnvironmentFailure):
        return
    with socket.socket() as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((address.host, address.port))
        except OSError as error:
            yield Finding(
                f"{party.name} is down and cannot listen: {os.strerror(error.errno or 0)}",
                str(address),
                "stop the program that listens there, or move all parties with `kabis up --port 0`",
            )
