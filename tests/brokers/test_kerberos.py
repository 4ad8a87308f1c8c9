"""Intruders on a real Kafka, with and without Kerberos: who refuses them, and what leaks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.missing import is_missing
from veristream.brokers.kafka import find_program as find_kafka
from veristream.brokers.kerberos.build import find_programs
from veristream.brokers.kerberos.realm import KDC, Realm
from veristream.cli.app import app
from veristream.errors import EnvironmentFailure
from veristream.trials.intruders.outcomes import read_shipped

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("kerberos")]


@pytest.fixture(autouse=True)
def kerberos() -> None:
    """Skips tests where Kafka or Kerberos cannot run."""
    try:
        find_kafka()
        find_programs()
    except EnvironmentFailure as missing:
        is_missing(missing.render())


def test_a_realm_knows_its_principals(tmp_path: Path) -> None:
    """Only the right key gets a ticket, only from a KDC that runs, and the KDC ends with its realm."""
    with Realm(tmp_path / "own") as realm:
        realm.create()
        alice, bob = realm.add("alice"), realm.add("bob")
        assert "Cannot contact any KDC" in realm.log_in("alice", alice, tmp_path / "early")
        realm.start()
        assert realm.log_in("alice", alice, tmp_path / "tickets") == ""
        assert (tmp_path / "tickets").is_file()
        assert "no suitable keys" in realm.log_in("alice", bob, tmp_path / "none")
        other = Realm(tmp_path / "other")
        other.create()
        made_up = other.add("alice")
        assert "Preauthentication failed" in realm.log_in("alice", made_up, tmp_path / "none")
        assert "not found in Kerberos database" in realm.log_in(
            "carol", other.add("carol"), tmp_path / "none"
        )
        assert not (tmp_path / "none").exists()
        assert list(realm.find()) == list(Realm(tmp_path / "own").find()) == [KDC]
    assert Realm(tmp_path / "own").find() == {}
    assert not realm.answers(KDC)


def test_intruders_achieve_what_is_expected(tmp_path: Path) -> None:
    """Two configurations, which differ most: tickets alone, and all there is. The command exits with 0."""
    page = tmp_path / "page.html"
    names = ("sasl-plaintext", "sasl-ssl-acls")
    chosen = [word for name in names for word in ("--trial", name)]
    done = CliRunner().invoke(
        app,
        ["reproduce", "--real", "kerberos", *chosen, "--json", "--html", str(page)],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
    tickets, everything = json.loads(done.stdout)["trials"]
    assert (tickets["trial"], everything["trial"]) == names
    succeeded = [
        {result["property"] for result in one["results"] if result["verdict"] == "succeeded"}
        for one in (tickets, everything)
    ]
    assert succeeded[0] == {
        *("change-producer", "produce-as-itself", "consume-as-itself"),
        *("overhear-producer", "overhear-consumer"),
    }
    assert succeeded[1] == set()
    tried = {one.name: [each.attack.value for each in one.expected] for one in read_shipped()}
    assert [result["property"] for result in everything["results"]] == tried["sasl-ssl-acls"]
    assert "Topic authorization failed" in page.read_text(encoding="utf-8")
