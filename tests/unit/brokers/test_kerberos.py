"""Kerberos and the Kafka that demands it: settings, names and what refusals say, without running them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from veristream.brokers.debian import Package, plan
from veristream.brokers.kafka import Program
from veristream.brokers.kerberos import certificates, client, tool
from veristream.brokers.kerberos.build import KERBEROS, KerberosPrograms
from veristream.brokers.kerberos.client import Client, Door, Spoken, read_refusal
from veristream.brokers.kerberos.realm import Realm
from veristream.brokers.kerberos.secured import Identity, SecuredKafka, Security
from veristream.errors import EnvironmentFailure, ModelError

SIMULATED = [
    "Inst libc6 (2.36-9 Debian:12 [amd64])",
    "Inst perl (5.36.0-7 Debian:12 [amd64])",
    "Inst libkrb5-3 (1.20.1-2+deb12u5 Debian:12 [amd64])",
    "Inst libverto1 (0.3.1-1 Debian:12 [amd64])",
    *(f"Inst {name} (1.0-1 Debian:12 [amd64])" for name in KERBEROS.packages),
]


def test_libraries_of_kerberos_come_with_it() -> None:
    """Programs of one release do not run with the libraries of another one that is installed."""
    found = plan(KERBEROS, SIMULATED, ["libc6 installed", "libkrb5-3 installed", "perl installed"])
    assert Package("libkrb5-3", "1.20.1-2+deb12u5") in found
    assert {each.name for each in found} == {"libkrb5-3", "libverto1", *KERBEROS.packages}


def test_without_apt_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFailure, match="Kerberos runs from Debian's packages") as caught:
        Realm(tmp_path / "realm").create()
    assert caught.value.hint == KERBEROS.advice


@pytest.mark.parametrize("name", ["", "Alice", "a b", "alice\naddprinc mallory", "-x", "a/b/c", "alice@X"])
def test_a_name_that_is_no_principal_is_refused(tmp_path: Path, name: str) -> None:
    """It would reach the commands of kadmin."""
    with pytest.raises(ModelError, match="cannot be a principal"):
        Realm(tmp_path).add(name)


def test_a_tool_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "TOOL_S", 0.05)
    with pytest.raises(EnvironmentFailure, match="sleep did not end"):
        tool.do(["/bin/sleep", "60"], {})


DISCONNECTED = """\
%6|1795110606.380|FAIL|rdkafka#producer-1| [thrd:ssl://localhost:25130/bootstrap]: \
ssl://localhost:25130/bootstrap: Disconnected: verify that security.protocol is correctly configured, \
broker might require SASL authentication (after 2ms in state UP)
% ERROR: Local: All broker connections are down: 1/1 brokers are down: terminating
"""
NO_TICKET = """\
%2|1795110602.886|LIBSASL|rdkafka#consumer-1| [thrd:sasl_ssl://localhost:25130/bootstrap]: \
sasl_ssl://localhost:25130/bootstrap: GSSAPI Error: No credentials were supplied, or the credentials \
were unavailable or inaccessible (No Kerberos credentials available (default cache: FILE:/tmp/nobody))
% ERROR: Failed to query metadata for topic orders: Local: Broker transport failure
"""
DENIED = "Broker: Topic authorization failed"
SEEN = {
    f"% Delivery failed for message: {DENIED}\n": DENIED,
    f"% ERROR: Topic orders error: {DENIED}\n": DENIED,
    DISCONNECTED: (
        "Disconnected: verify that security.protocol is correctly configured, "
        "broker might require SASL authentication"
    ),
    NO_TICKET: "No Kerberos credentials available",
    "% ERROR: Failed to query metadata for topic orders: Local: Timed out\n": (
        "Failed to query metadata for topic orders: Local: Timed out"
    ),
    "something else\nthe last line\n": "the last line",
    "": "",
}
"""What kcat printed, and the reason in it."""


@pytest.mark.parametrize("said", SEEN)
def test_the_reason_of_a_refusal(said: str) -> None:
    assert read_refusal(said) == SEEN[said]


def test_only_who_speaks_kerberos_names_its_service() -> None:
    plain = Door("localhost:1", "SSL", Path("/ca.pem")).options()
    assert "security.protocol=SSL" in plain and "ssl.ca.location=/ca.pem" in plain
    assert not any("sasl" in word for word in plain)
    assert "sasl.mechanism=GSSAPI" in Door("localhost:1", "SASL_PLAINTEXT").options()


Create = Callable[[Security], dict[str, str]]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Create:
    """Returns the settings of a Kafka with some security, which is not formatted."""
    certified = certificates.Certified(tmp_path / "server.p12", "secret", tmp_path / "server.pem")
    monkeypatch.setattr("veristream.brokers.kerberos.secured.certify", lambda program, folder: certified)
    monkeypatch.setattr("veristream.brokers.kerberos.secured.find_program", lambda: None)
    written: dict[str, str] = {}
    monkeypatch.setattr(
        "veristream.brokers.kerberos.secured.set_up",
        lambda program, folder, address, settings: written.update(settings, address=address),
    )

    def create(security: Security) -> dict[str, str]:
        written.clear()
        identity = Identity(tmp_path / "krb5.conf", tmp_path / "kafka.keytab")
        SecuredKafka(tmp_path, security, identity).create("localhost:1234")
        return dict(written)

    return create


def test_only_what_is_asked_for_is_demanded(settings: Create) -> None:
    plain, sasl = settings(Security()), settings(Security("SASL_PLAINTEXT"))
    tls, acls = settings(Security("SASL_SSL")), settings(Security("SASL_SSL", acls=True))
    assert [("CLIENT:" + each) in given["listener.security.protocol.map"] for given, each in (
        (plain, "PLAINTEXT"), (sasl, "SASL_PLAINTEXT"), (tls, "SASL_SSL"), (acls, "SASL_SSL")
    )] == [True] * 4  # fmt: skip
    jaas = "listener.name.client.gssapi.sasl.jaas.config"
    assert [jaas in given for given in (plain, sasl, tls, acls)] == [False, True, True, True]
    assert 'principal="kafka/localhost@VERISTREAM.TEST"' in sasl[jaas]
    store = "listener.name.client.ssl.keystore.location"
    assert [store in given for given in (plain, sasl, tls, acls)] == [False, False, True, True]
    rules = "allow.everyone.if.no.acl.found"
    assert [given.get(rules) for given in (plain, sasl, tls, acls)] == [None, None, None, "false"]


def test_nobody_gets_in_by_another_door(settings: Create) -> None:
    """Brokers and administrators prove who they are in every configuration; clients come from outside."""
    for security in (Security(), Security("SASL_SSL", acls=True)):
        given = settings(security)
        assert "INTER:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT" in given["listener.security.protocol.map"]
        assert "CLIENT://localhost:1234," in given["advertised.listeners"]
        for name in ("inter", "controller"):
            assert given[f"listener.name.{name}.sasl.enabled.mechanisms"] == "PLAIN"


def test_a_keytool_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=r"cannot run .*keytool: No such file") as caught:
        certificates.certify(Program(tmp_path / "java", tmp_path), tmp_path / "tls")
    assert "JDK" in caught.value.hint


def test_programs_find_their_own_libraries(tmp_path: Path) -> None:
    library = tmp_path / "usr" / "lib" / "x86_64-linux-gnu"
    for part in ("sasl2", "krb5/plugins/kdb"):
        (library / part).mkdir(parents=True)
    found = KerberosPrograms(tmp_path)
    assert found.environment()["LD_LIBRARY_PATH"] == str(library)
    assert found.environment()["SASL_PATH"] == str(library / "sasl2")
    assert found.databases == library / "krb5" / "plugins" / "kdb"


@pytest.mark.parametrize("remembers", [True, False])
def test_the_replay_cache_is_javas(settings: Create, remembers: bool, tmp_path: Path) -> None:
    """It is on unless it is switched off."""
    (tmp_path / "java").touch()
    kafka = SecuredKafka(
        tmp_path,
        Security("SASL_PLAINTEXT", replay_cache=remembers),
        Identity(tmp_path / "krb5.conf", tmp_path / "kafka.keytab"),
    )
    kafka.program = Program(tmp_path / "java", tmp_path)
    command = kafka.command("kafka-1")
    assert f"-Djava.security.krb5.conf={tmp_path / 'krb5.conf'}" in command
    assert ("-Dsun.security.krb5.rcache=none" in command) != remembers


def fake_client(folder: Path, script: str) -> Client:
    """A client whose kcat is a script."""
    root = folder / "root"
    for part in ("usr/bin", "usr/lib/x86_64-linux-gnu/sasl2"):
        (root / part).mkdir(parents=True)
    kcat = root / "usr" / "bin" / "kcat"
    kcat.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    kcat.chmod(0o755)
    realm = Realm(folder / "realm")
    realm.programs = KerberosPrograms(root)
    return Client(realm, folder / "tickets", "alice")


DOOR = Door("localhost:1", "SASL_PLAINTEXT")


def test_a_client_uses_the_tickets_of_its_cache(tmp_path: Path) -> None:
    alice = fake_client(tmp_path, 'echo "$KRB5CCNAME $*"; cat')
    said = alice.produce(DOOR, "orders", ["one", "two"])
    assert said.refusal == ""
    command, *messages = said.received
    assert command.startswith(f"FILE:{tmp_path / 'tickets'} -P -t orders ")
    assert "client.id=alice" in command
    assert messages == ["one", "two"]


def test_a_client_is_ended_once_it_is_refused_for_good(tmp_path: Path) -> None:
    """kcat would go on trying; what it received before is kept."""
    script = f"echo before; printf '%s' '{DISCONNECTED}' >&2; sleep 5 2>/dev/null; echo after"
    said = fake_client(tmp_path, script).consume(DOOR, "orders")
    assert said == Spoken(SEEN[DISCONNECTED], ("before",))


def test_a_client_that_says_nothing_has_failed_all_the_same(tmp_path: Path) -> None:
    assert fake_client(tmp_path, "exit 3").consume(DOOR, "orders") == Spoken("exit 3", ())


def test_a_client_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TOOL_S", 0.2)
    assert fake_client(tmp_path, "exec sleep 600").consume(DOOR, "orders").refusal == "exit -9"
