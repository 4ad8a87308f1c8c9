"""The certificates that a cluster on one machine makes for itself, as Python's ssl reads them."""

from __future__ import annotations

import ssl
import tomllib
from pathlib import Path

import pytest

from tests.kabis.session.console import Console
from tests.kabis.wire.certified import NOW_S, PAST, TODAY, found, of
from veristream.errors import ModelError
from veristream.kabis.operations.certificate_check import check_certificate
from veristream.kabis.operations.certificates import (
    DAY_S,
    Authority,
    Period,
    decode_key,
    draw_key,
    encode_key,
)
from veristream.kabis.operations.findings import Finding, Severity
from veristream.kabis.operations.issuing import turn_on
from veristream.kabis.process.tls import read_tls
from veristream.kabis.wire.tls import Tls, make_client_context, rehearse


def shake(ours: ssl.SSLContext, tls: Tls, host: str) -> ssl.SSLObject:
    """A handshake in memory with a client's context; returns the client's side."""
    assert tls.certificate
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(tls.certificate, tls.key)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ours.wrap_bio(to_client, to_server, server_hostname=host)
    server = theirs.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(2):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return client


def test_others_accept_them_by_the_strictest_rules(tmp_path: Path) -> None:
    for host, length in (("127.0.0.1", 5), ("::1", 64), ("localhost", 5), ("a.b.example", 63)):
        certified = found(tmp_path / host, "a" * length)
        context = make_client_context(Tls(certified.ca))
        context.verify_flags = ssl.VERIFY_X509_STRICT
        seen = shake(context, certified.certify("validator-1", host), host).getpeercert()
        assert seen is not None
        kind = "IP Address" if host in ("127.0.0.1", "::1") else "DNS"
        shown = "0:0:0:0:0:0:0:1" if host == "::1" else host
        assert seen["subjectAltName"] == ((kind, shown),)
        assert seen["subject"] == ((("commonName", "validator-1"),),)
        assert seen["issuer"] == ((("commonName", "a" * length),),)
        assert ssl.cert_time_to_seconds(str(seen["notBefore"])) == TODAY.begin_s
        assert ssl.cert_time_to_seconds(str(seen["notAfter"])) == TODAY.end_s


def test_a_period_beyond_2050(tmp_path: Path) -> None:
    certified = found(tmp_path)
    period = Period(NOW_S - DAY_S, NOW_S + 80 * 365 * DAY_S)
    assert rehearse(certified.certify("a", period=period), Tls(certified.ca), "127.0.0.1") == period.end_s


def test_a_certificate_of_a_party_certifies_nobody(tmp_path: Path) -> None:
    certified = found(tmp_path)
    key = draw_key()
    middle = Authority("middle", key)
    certificate = certified.authority.certify("middle", key.public, ["127.0.0.1"], TODAY)
    below = of(tmp_path / "below", middle).certify("store")
    assert below.certificate
    below.certificate.write_text(below.certificate.read_text() + certificate)
    with pytest.raises(ModelError, match="is not valid: invalid CA certificate"):
        rehearse(below, Tls(certified.ca), "127.0.0.1")


def test_keys_are_read_back_and_nothing_else_is() -> None:
    key = draw_key()
    assert decode_key(encode_key(key)) == key
    for wrong in ("", "-----", encode_key(key)[:-30], encode_key(key).replace("PRIVATE", "PUBLIC")):
        with pytest.raises(ValueError, match=r"."):
            decode_key(wrong)


# The folder of a cluster


@pytest.fixture
def console(tmp_path: Path) -> Console:
    console = Console(tmp_path / "cluster")
    console.cluster.create(1)
    return console


def read(console: Console) -> dict[str, bytes]:
    return {
        str(path.relative_to(console.data)): path.read_bytes()
        for path in sorted(console.data.glob("**/tls/*"))
    }


def test_certificates_are_made_once_and_work(console: Console) -> None:
    (console.data / "kabis.toml").write_text('[log]\nlevel = "debug"', encoding="utf-8")
    assert turn_on(console.cluster) == ["validator-1", "storage-1"]
    assert tomllib.loads((console.data / "kabis.toml").read_text(encoding="utf-8")) == {
        "log": {"level": "debug"},
        "tls": {"ca": "tls/ca.pem"},
    }
    made = read(console)
    assert set(made) == {
        "tls/ca.key",
        "tls/ca.pem",
        "validator-1/tls/certificate.pem",
        "validator-1/tls/key.pem",
        "storage-1/tls/certificate.pem",
        "storage-1/tls/key.pem",
    }
    for name in made:
        assert (console.data / name).stat().st_mode & 0o077 == 0
    settings = console.cluster.settings
    for name in ("validator-1", "storage-1"):
        tls = read_tls(settings, console.data, name)
        client = console.cluster.folder.tls()
        assert tls is not None and client is not None
        for host in ("127.0.0.1", "localhost"):
            assert rehearse(tls, client, host) > NOW_S + 800 * DAY_S
    assert turn_on(console.cluster) == []
    assert read(console) == made


def test_only_a_certificate_that_is_no_longer_good_is_renewed(console: Console) -> None:
    turn_on(console.cluster)
    made = read(console)
    (console.data / "storage-1/tls/key.pem").unlink()
    (console.data / "storage-1/tls/key.pem").write_bytes(made["validator-1/tls/key.pem"])
    assert turn_on(console.cluster) == ["storage-1"]
    again = read(console)
    assert {name for name in made if made[name] != again[name]} == {
        "storage-1/tls/key.pem",
        "storage-1/tls/certificate.pem",
    }
    assert list(problems(console)) == []


def test_what_another_authority_certifies_is_left_alone(console: Console, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(found(tmp_path / "others").ca)
    text = f'[tls]\nca = "{tmp_path}/ca.pem"\n'
    (console.data / "kabis.toml").write_text(text, encoding="utf-8")
    assert turn_on(console.cluster) == []
    assert (console.data / "kabis.toml").read_text(encoding="utf-8") == text
    assert read(console) == {}
    (console.data / "kabis.toml").write_text("[tls]\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"has no `ca`"):
        turn_on(console.cluster)


def problems(console: Console) -> list[Finding]:
    genesis = console.cluster.genesis
    return [
        each
        for party in genesis.validators + genesis.storage
        for each in check_certificate(console.cluster, party)
    ]


def test_doctor_finds_what_keeps_callers_away(console: Console, tmp_path: Path) -> None:
    assert problems(console) == []
    turn_on(console.cluster)
    assert problems(console) == []
    text = (console.data / "tls/ca.key").read_text()
    name = f"Kabis CA of {console.cluster.genesis.chain_id}"
    certified = of(tmp_path / "made", Authority(name, decode_key(text)))
    soon = Period(NOW_S - DAY_S, NOW_S + 3 * DAY_S + 3600)
    planted: dict[str, tuple[Tls, str, Severity]] = {
        "expired": (
            certified.certify("a", period=PAST),
            "TLS of storage-1: the certificate of 127.0.0.1 has expired",
            Severity.ERROR,
        ),
        "elsewhere": (
            certified.certify("b", "10.0.0.1"),
            "TLS of storage-1: the certificate of 127.0.0.1 is not for this address",
            Severity.ERROR,
        ),
        "another authority": (
            found(tmp_path / "others").certify("c"),
            "TLS of storage-1: the certificate of 127.0.0.1 is of no authority that we trust",
            Severity.ERROR,
        ),
        "soon": (
            certified.certify("d", period=soon),
            "the certificate of storage-1 expires in 3 days",
            Severity.WARNING,
        ),
    }
    home = console.data.resolve() / "storage-1/tls"
    for tls, told, severity in planted.values():
        assert tls.certificate and tls.key
        (home / "certificate.pem").write_bytes(tls.certificate.read_bytes())
        (home / "key.pem").write_bytes(tls.key.read_bytes())
        (finding,) = problems(console)
        assert (finding.what, finding.where, finding.severity) == (
            told,
            str(home / "certificate.pem"),
            severity,
        )
    (home / "key.pem").write_bytes((console.data / "validator-1/tls/key.pem").read_bytes())
    (finding,) = problems(console)
    assert finding.what == (
        f"TLS of storage-1: the key {home / 'key.pem'} is not that of the certificate"
        f" {home / 'certificate.pem'}"
    )
    (home / "key.pem").chmod(0o644)
    (finding,) = problems(console)
    assert (finding.what, finding.do) == (
        f"TLS of storage-1: others may read {home / 'key.pem'}, which holds a secret",
        f"chmod 600 {home / 'key.pem'}",
    )
    seen = console("doctor")
    assert (seen.code, "others may read" in seen.output) == (1, True)
