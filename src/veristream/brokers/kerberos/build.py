"""MIT Kerberos and kcat, a Kafka client that speaks it, from the packages of this system (Debian).

The wheel of confluent-kafka has no GSSAPI; kcat is the same library, built with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from veristream.brokers.debian import Collection, library_path, unpacked

KERBEROS = Collection(
    "Kerberos",
    "kerberos-1",
    ("krb5-kdc", "krb5-admin-server", "krb5-user", "kcat", "libsasl2-modules-gssapi-mit"),
    ("libkrb5", "libk5crypto", "libgssapi-krb5", "libgssrpc", "libkdb5", "libkadm5"),  # of one release
    "use Debian 12, or run the other brokers: veristream reproduce --real kafka rabbitmq nsq",
)


@dataclass(frozen=True, slots=True)
class KerberosPrograms:
    """Where the unpacked programs are."""

    root: Path

    def server(self, name: str) -> str:
        """Returns the path of a program for administrators, such as krb5kdc."""
        return str(self.root / "usr" / "sbin" / name)

    def client(self, name: str) -> str:
        """Returns the path of a program for users, such as kinit."""
        return str(self.root / "usr" / "bin" / name)

    @property
    def databases(self) -> Path:
        """The modules with which the server stores principals."""
        return next(self.root.glob("usr/lib/*/krb5/plugins/kdb"))

    def environment(self) -> dict[str, str]:
        """Returns the variables that the programs need to find their libraries."""
        mechanisms = next(self.root.glob("usr/lib/*/sasl2"))
        return {
            "PATH": f"{self.root / 'usr' / 'bin'}:/usr/bin:/bin",
            "LD_LIBRARY_PATH": library_path(self.root),
            "SASL_PATH": str(mechanisms),
            "LC_ALL": "C.UTF-8",
        }


def find_programs() -> KerberosPrograms:
    """Returns the programs, unpacking them the first time; raises EnvironmentFailure."""
    folder, _ = unpacked(KERBEROS)
    return KerberosPrograms(folder)
