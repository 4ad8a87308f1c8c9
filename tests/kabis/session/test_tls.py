"""A cluster with `--tls`: all commands go through TLS, and a client elsewhere needs only the authority."""

from __future__ import annotations

import json
import pickle
import shutil
import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kabis.session.console import Console, opened
from tests.kabis.wire.certified import found
from tests.spark.conftest import java, session
from veristream.errors import EnvironmentFailure
from veristream.kabis.audit.network import PartyAccess, read_blocks, read_height
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.wire.endpoints import Address
from veristream.kabis.wire.handshake import Role

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["java", "session"]  # the fixtures

pytestmark = pytest.mark.xdist_group("kabis-tls")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with opened(tmp_path_factory.mktemp("tls") / "cluster") as console:
        made = console.do("up", "--detach", "--tls", "--parties", "4")
        parties = ", ".join(console.cluster.names())
        assert made.output.startswith(
            f"certificates for TLS, signed by {console.data}/tls/ca.pem: {parties}\n"
        )
        console.do("topic", "create", "orders")
        console.do("produce", "orders", given="two pears\na plum\n")
        yield console


def folder_of_a_client(cluster: Console, path: Path) -> Console:
    """What a client elsewhere is given: the genesis, its key, and the authority's certificate."""
    home, mine = ClusterFolder(cluster.data), ClusterFolder(path)
    mine.key_path("consumer").parent.mkdir(parents=True)
    shutil.copy(home.genesis_path, mine.genesis_path)
    shutil.copy(home.key_path("consumer"), mine.key_path("consumer"))
    shutil.copy(cluster.data / "tls/ca.pem", path / "authority.pem")
    mine.settings_path.write_text('[tls]\nca = "authority.pem"\n', encoding="utf-8")
    return Console(path)


def test_all_commands_go_through_tls(cluster: Console) -> None:
    assert cluster.do("consume", "orders", "--from-beginning", "--max", 2).output == "two pears\na plum\n"
    status = cluster.look(
        lambda seen: all(each["answers"] for each in json.loads(seen.output)["parties"]), "status", "--json"
    )
    assert [each["name"] for each in json.loads(status.output)["parties"] if each["answers"]] == (
        cluster.cluster.names()
    )
    assert json.loads(cluster.do("config", "--json").output)["tls"]["ca"] == "tls/ca.pem"
    errors = [
        each
        for each in json.loads(cluster("doctor", "--json").output)["findings"]
        if each["severity"] == "error"
    ]
    assert errors == []


def test_every_party_speaks_tls_1_3_and_nothing_else(cluster: Console) -> None:
    context = ssl.create_default_context(cafile=str(cluster.data / "tls/ca.pem"))
    genesis = cluster.cluster.genesis
    for party in genesis.validators + genesis.storage:
        address = Address.parse(party.address)
        with (
            socket.create_connection((address.host, address.port), 10) as plain,
            context.wrap_socket(plain, server_hostname=address.host) as secured,
        ):
            assert secured.version() == "TLSv1.3"
            seen = secured.getpeercert()
            assert seen is not None and seen["subject"] == ((("commonName", party.name),),)
        with socket.create_connection((address.host, address.port), 10) as plain:
            plain.sendall(b"\0\0\0\x40 a hello of our own, without TLS")
            assert plain.recv(100) == bytes.fromhex("15030300020246")


def test_a_client_elsewhere_names_the_authority(cluster: Console, tmp_path: Path) -> None:
    mine = folder_of_a_client(cluster, tmp_path / "mine")
    assert mine.do("consume", "orders", "--from-beginning", "--max", 2).output == "two pears\na plum\n"


def test_up_again_makes_nothing_anew(cluster: Console) -> None:
    before = (cluster.data / "validator-1/tls/certificate.pem").read_bytes()
    cluster.cluster.stop(["storage-3"])
    assert "certificates" not in cluster.do("up", "--detach", "--tls").output
    assert (cluster.data / "validator-1/tls/certificate.pem").read_bytes() == before


def test_tls_is_not_turned_on_under_running_parties(tmp_path: Path) -> None:
    with opened(tmp_path / "cluster") as console:
        console.do("up", "--detach", "--parties", "1")
        refused = console("up", "--detach", "--tls")
        told = f"error: parties of {console.data} are running without TLS\n"
        hint = f"hint: veristream kabis down --data {console.data}\n"
        assert (refused.code, refused.told) == (2, told + hint)
        assert not (console.data / "kabis.toml").exists()


def test_a_party_without_its_certificate_says_so(tmp_path: Path) -> None:
    with opened(tmp_path / "cluster") as console:
        console.cluster.create(1)
        (console.data / "ca.pem").write_text(found(tmp_path).ca)
        (console.data / "kabis.toml").write_text('[tls]\nca = "ca.pem"\n', encoding="utf-8")
        refused = console("up", "--detach")
        # All parties lack theirs, and which one ends first is chance.
        data = console.data.resolve()
        told = [
            f"error: {party} did not start: {data}/{party}/tls/certificate.pem is missing, which TLS needs"
            for party in console.cluster.names()
        ]
        assert refused.code == 2
        assert refused.told.splitlines()[0] in told


def test_the_tasks_of_an_audit_read_through_tls(cluster: Console) -> None:
    """A task gets who it is in bytes, perhaps on another machine."""
    identity = Access(cluster.cluster.folder).identity("consumer", Role.CONSUMER)
    access = pickle.loads(pickle.dumps(PartyAccess(cluster.cluster.genesis, identity)))
    height = read_height(access)
    assert [each.block.header.height for each in read_blocks(access, 1, height)] == list(
        range(1, height + 1)
    )
    with pytest.raises(EnvironmentFailure, match="the other side speaks TLS, and we do not"):
        read_height(replace(access, identity=replace(identity, tls=None)))


@pytest.mark.spark
def test_an_audit_reads_through_tls(cluster: Console, session: SparkSession) -> None:
    report = json.loads(cluster.do("audit", "--json").output)
    assert (report["clean"], report["findings"]) == (True, [])
    assert {each["party"]: each["good"] for each in report["parties"]} == {
        "storage-1": 1,
        "storage-2": 1,
        "storage-3": 1,
    }
