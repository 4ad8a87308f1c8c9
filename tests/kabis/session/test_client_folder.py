"""A client's own folder: the genesis and one key. The admin's key is elsewhere, and nobody needs it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kabis.session.console import Console, opened
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ledger.follower import Follower

pytestmark = pytest.mark.xdist_group("kabis-keys")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with opened(tmp_path_factory.mktemp("clients") / "cluster") as console:
        console.do("up", "--detach")
        console.do("topic", "create", "orders")
        console.do("client", "add", "anna")
        console.do("client", "add", "bert")
        yield console


def folder_of(cluster: Console, name: str, path: Path) -> Console:
    """A folder with what a client is given: the genesis and its own key."""
    home, mine = ClusterFolder(cluster.data), ClusterFolder(path)
    mine.key_path(name).parent.mkdir(parents=True)
    shutil.copy(home.genesis_path, mine.genesis_path)
    shutil.copy(home.key_path(name), mine.key_path(name))
    assert mine.clients() == [name]
    return Console(path)


def test_a_client_produces_and_consumes_with_its_own_key_alone(cluster: Console, tmp_path: Path) -> None:
    anna = folder_of(cluster, "anna", tmp_path / "anna")
    bert = folder_of(cluster, "bert", tmp_path / "bert")
    pushed = anna.do("produce", "orders", "--as", "anna", given="two pears\na plum\n")
    assert pushed.output == "2 events acknowledged at orders-0 0 to 1\n"
    read = bert.do("consume", "orders", "--as", "bert", "--from-beginning", "--max", 2)
    assert read.output == "two pears\na plum\n"


@pytest.mark.parametrize("words", [("produce", "orders"), ("consume", "orders", "--timeout", "0")])
def test_a_client_follows_the_chain_once(
    cluster: Console, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    anna = folder_of(cluster, "anna", tmp_path / "anna")
    begun: list[Follower] = []
    begin = Follower.__init__

    def count(follower: Follower, *given: Any, **named: Any) -> None:
        begun.append(follower)
        begin(follower, *given, **named)

    monkeypatch.setattr(Follower, "__init__", count)
    anna.do(*words, "--as", "anna")
    assert len(begun) == 1


def test_what_a_client_asks_in_vain_is_told_at_once(cluster: Console, tmp_path: Path) -> None:
    anna = folder_of(cluster, "anna", tmp_path / "anna")
    unknown = anna("produce", "pears", "--as", "anna", given="one\n")
    assert (unknown.code, unknown.output) == (2, "")
    assert unknown.told.splitlines()[0] == "error: pears: no such topic"
    unread = anna("consume", "pears", "--as", "anna")
    assert (unread.code, unread.told.splitlines()[0]) == (2, "error: pears: no such topic")
    missing = anna("topic", "create", "pears")
    assert (missing.code, missing.told.splitlines()[0]) == (
        2,
        f"error: {anna.data} has no key for 'admin'",
    )


def test_a_key_that_is_not_on_the_ledger_is_refused(cluster: Console, tmp_path: Path) -> None:
    anna = folder_of(cluster, "anna", tmp_path / "anna")
    keys = ClusterFolder(anna.data).key_path("eve").parent
    ClusterFolder(anna.data).draw_key("eve")
    shutil.move(anna.data / "keys-next" / "eve", keys / "eve")
    refused = anna("produce", "orders", "--as", "eve", given="mine\n")
    assert (refused.code, refused.output, refused.told.splitlines()[0]) == (
        2,
        "",
        "error: the validators refuse this client: 'eve' is not registered with this key as producer",
    )
