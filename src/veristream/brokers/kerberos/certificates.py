"""A certificate for a Kafka on loopback, made by the `keytool` of its Java.

Kafka reads keys in PEM only if they are RSA, DSA or EC keys, so the Ed25519 certificates of Kabis are of
no use here.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from veristream.brokers.kafka import Program
from veristream.brokers.kerberos.tool import do
from veristream.errors import EnvironmentFailure

DAYS = "30"


@dataclass(frozen=True, slots=True)
class Certified:
    """A server's key store with its password, and the certificate that clients trust."""

    store: Path
    password: str
    authority: Path


def certify(program: Program, folder: Path) -> Certified:
    """Makes a key and its certificate for `localhost`, signed by itself; raises EnvironmentFailure."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Certified(folder / "server.p12", secrets.token_hex(16), folder / "server.pem")
    keytool = [str(program.java.with_name("keytool")), "-J-XX:TieredStopAtLevel=1"]
    store = ["-alias", "kafka", "-keystore", str(made.store), "-storepass", made.password]
    key = ["-genkeypair", "-keyalg", "EC", "-storetype", "PKCS12", "-validity", DAYS]
    _run([*keytool, *key, *store, "-dname", "CN=localhost", "-ext", "SAN=DNS:localhost"])
    _run([*keytool, "-exportcert", "-rfc", *store, "-file", str(made.authority)])
    return made


def _run(command: list[str]) -> None:
    try:
        done = do(command, {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"})
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot run {command[0]}: {error.strerror}", "install a JDK and set JAVA_HOME"
        ) from error
    if done.returncode:
        said = (done.stdout + done.stderr).strip()
        raise EnvironmentFailure(f"keytool failed: {said or f'exit {done.returncode}'}")
