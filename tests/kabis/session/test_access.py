"""Access rules by the command line, on a real cluster with a closed ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.kabis.session.console import Console, opened

pytestmark = pytest.mark.xdist_group("kabis-access")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """A cluster that was founded closed, with a validated topic."""
    with opened(tmp_path_factory.mktemp("access") / "cluster") as console:
        console.do("up", "--detach", "--closed")
        console.do("topic", "create", "orders")
        console.do("client", "add", "mallory")
        yield console


READ = ("consume", "orders", "--from-beginning", "--max", "2", "--json")


def test_nobody_writes_or_reads_without_a_right(run: Console) -> None:
    told = run("produce", "orders", given="pears\n")
    assert told.code == 2
    assert "a right is missing: producer needs write on the topic orders" in told.told
    assert "veristream kabis access grant" in told.told
    run.do("access", "grant", "producer", "write", "--topic", "ord*")
    run.do("produce", "orders", given="pears\nplums\n")
    told = run(*READ)
    assert told.code == 2
    assert "a right is missing: consumer needs read on the topic orders" in told.told


def test_a_stranger_in_a_group_takes_nothing_from_its_member(run: Console) -> None:
    run.do("access", "grant", "producer", "write", "--topic", "ord*")
    run.do("produce", "orders", given="figs\nkiwis\n")
    run.do("access", "role", "consumer", "readers")
    run.do("access", "grant", "role:readers", "read", "--topic", "*")
    run.do("access", "grant", "role:readers", "read", "--group", "buyers")
    told = run(*READ, "--group", "buyers", "--as", "mallory")
    assert told.code == 2
    assert "mallory needs read on the group buyers" in told.told
    assert len(run.do(*READ, "--group", "buyers").objects()) == 2


def test_rules_are_listed_and_revoked(run: Console) -> None:
    run.do("access", "grant", "mallory", "read", "--topic", "orders")
    rule = {"who": "mallory", "operation": "read", "resource": "topic", "pattern": "orders"}
    listed = json.loads(run.do("access", "list", "--json").output)
    assert listed["closed"] is True and rule in listed["rules"]
    assert "mallory" in run.do("access", "list").output
    revoked = run.do("access", "revoke", "mallory", "read", "--topic", "orders")
    assert revoked.output.startswith("revoked: read on the topic orders for mallory")
    assert rule not in json.loads(run.do("access", "list", "--json").output)["rules"]
    told = run("access", "revoke", "mallory", "read", "--topic", "orders")
    assert (told.code, "veristream kabis access list" in told.told) == (2, True)
    assert "closed" in run.do("access", "close").output
    assert "open" in run.do("access", "open").output
    assert json.loads(run.do("access", "list", "--json").output)["closed"] is False
    run.do("access", "close")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("mallory", "read"), "give either --topic or --group"),
        (("mallory", "read", "--topic", "a", "--group", "b"), "give either --topic or --group"),
        (("mallory", "write", "--group", "buyers"), "the only right on a group is to read"),
        (("mallory", "read", "--topic", "a*b"), "neither a name, nor a prefix"),
        (("malory", "read", "--topic", "orders"), "there is no client malory"),
        (("mallory", "eat", "--topic", "orders"), "eat"),
    ],
)
def test_rules_that_make_no_sense_are_explained(run: Console, words: tuple[str, ...], told: str) -> None:
    ended = run("access", "grant", *words)
    assert (ended.code, told in ended.told) == (2, True), ended


def test_quotas_are_set_one_by_one(run: Console) -> None:
    assert "groups 5, topics without limit" in run.do("access", "limit", "--groups", "5").output
    run.do("access", "limit", "--transactions", "100")
    quota = json.loads(run.do("access", "list", "--json").output)["quota"]
    assert quota == {"groups": 5, "topics": 0, "transactions": 100}
    ended = run("access", "limit")
    assert (ended.code, "give --groups, --topics or --transactions" in ended.told) == (2, True)
    run.do("access", "limit", "--groups", "0", "--transactions", "0")
