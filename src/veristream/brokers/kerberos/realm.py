"""A Kerberos realm on this machine: one key distribution centre (KDC), its principals and their keytabs.

    DIR/kdc-1/address         HOST:PORT of the KDC
    DIR/kdc-1/krb5.conf       how clients and servers find it
    DIR/kdc-1/kdc.conf        its configuration
    DIR/kdc-1/keytabs         the long-term keys of principals, which only their owner should have
    DIR/kdc-1/caches          the tickets of clients that have logged in
    DIR/kdc-1/log.txt         its output
    DIR/kdc-1/process.json    its process

It listens on loopback only, and needs no root.
"""

from __future__ import annotations

import re
import secrets
import socket
import subprocess
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

from veristream.brokers.group import BrokerGroup
from veristream.brokers.kerberos.build import KerberosPrograms, find_programs
from veristream.brokers.kerberos.tool import do
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.wire.ports import HOST, draw_ports

KDC: Final = "kdc-1"
NAME: Final = "VERISTREAM.TEST"
_PRINCIPAL = re.compile(r"[a-z][a-z0-9-]*(/[a-z][a-z0-9.-]*)?")

_KRB5_CONF = """\
[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = {address}
 }}
[domain_realm]
 localhost = {realm}
[dbmodules]
 db_module_dir = {databases}
"""
_KDC_CONF = """\
[kdcdefaults]
 kdc_listen = {address}
 kdc_tcp_listen = {address}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/kadm5.acl
  max_life = 1h
  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal
  default_principal_flags = +preauth
 }}
[logging]
 kdc = STDERR
"""


class Realm(BrokerGroup):
    """A realm with its KDC.

    with Realm(folder) as realm:
        realm.create()
        keytab = realm.add("alice")
        realm.start()
        realm.log_in("alice", keytab, cache)
    """

    KIND: ClassVar[str] = "kdc"

    @cached_property
    def programs(self) -> KerberosPrograms:
        """Kerberos' programs; raises EnvironmentFailure."""
        return find_programs()

    @property
    def configuration(self) -> Path:
        """The file that tells clients and servers of the realm, for KRB5_CONFIG."""
        return self._place / "krb5.conf"

    @property
    def _place(self) -> Path:
        return (self.folder / KDC).resolve()

    def create(self) -> None:
        """Sets up the KDC and its empty database, unless they exist."""
        if self.names():
            return
        folder = self._place
        for each in (folder, folder / "keytabs", folder / "caches"):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
        (port,) = draw_ports(1)
        words = {
            "realm": NAME,
            "address": f"{HOST}:{port}",
            "folder": folder,
            "databases": self.programs.databases,
        }
        self.configuration.write_text(_KRB5_CONF.format_map(words), encoding="utf-8")
        (folder / "kdc.conf").write_text(_KDC_CONF.format_map(words), encoding="utf-8")
        master = secrets.token_hex(16)
        self._run([self.programs.server("kdb5_util"), "create", "-s", "-r", NAME, "-P", master])
        (folder / "address").write_text(f"{HOST}:{port}\n", encoding="utf-8")

    def add(self, principal: str) -> Path:
        """Adds a principal with random keys; returns its keytab. Raises ModelError if the name is bad."""
        if _PRINCIPAL.fullmatch(principal) is None:
            raise ModelError(
                f"{principal!r} cannot be a principal", hint="write a name as in alice or kafka/localhost"
            )
        keytab = self._place / "keytabs" / f"{principal.replace('/', '-')}.keytab"
        commands = f"addprinc -randkey {principal}\nktadd -k {keytab} {principal}\n"
        said = self._run([self.programs.server("kadmin.local")], commands)
        if not keytab.is_file():  # it ends with 0 whatever happens
            raise EnvironmentFailure(f"kadmin.local does not add {principal}: {said.strip()}")
        return keytab

    def log_in(self, principal: str, keytab: Path, cache: Path) -> str:
        """Asks the KDC for a ticket with the key of a keytab; returns its refusal, which is empty if it
        granted one. The ticket is then in the cache."""
        command = [self.programs.client("kinit"), "-c", str(cache), "-k", "-t", str(keytab), principal]
        done = self._do(command)
        return done.stderr.strip().removeprefix("kinit: ") if done.returncode else ""

    def environment(self) -> dict[str, str]:
        """Returns the variables with which programs use this realm, and nothing of the caller's own."""
        return {
            **self.programs.environment(),
            "KRB5_CONFIG": str(self.configuration),
            "KRB5_KDC_PROFILE": str(self._place / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self._place / 'caches' / 'nobody'}",
            "HOME": str(self._place),
        }

    def command(self, name: str) -> Sequence[str]:
        """Returns the command line that becomes the KDC."""
        variables = [f"{key}={value}" for key, value in self.environment().items()]
        return ("env", "-i", *variables, self.programs.server("krb5kdc"), "-n")

    def start(self, names: Iterable[str] | None = None) -> list[str]:
        """Starts the KDC unless it runs."""
        started = super().start(names)
        for name in started:
            self.note(name)
        return started

    def answers(self, name: str) -> bool:
        """Whether the KDC listens."""
        host, _, port = self.address(name).rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=1.0):
                return True
        except OSError:
            return False

    def _run(self, command: Sequence[str], given: str = "") -> str:
        done = self._do(command, given)
        if done.returncode:
            tool = Path(command[0]).name
            raise EnvironmentFailure(f"{tool} failed: {done.stderr.strip() or f'exit {done.returncode}'}")
        return done.stderr

    def _do(self, command: Sequence[str], given: str = "") -> subprocess.CompletedProcess[str]:
        return do(command, self.environment(), given)
