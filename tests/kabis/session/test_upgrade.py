"""A cluster of protocol version 1 is upgraded by one command while it runs, and its receipts stay valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kabis.session.console import Console, opened
from veristream.kabis.client.administration import Replica, visit
from veristream.kabis.cluster import folder
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ledger.state import Protocol

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("kabis-upgrade")]


def protocol_of(console: Console) -> Protocol:
    access = Access(ClusterFolder(console.data)).require_up()

    async def work(replica: Replica) -> Protocol:
        return replica.ledger.protocol

    return visit(access.genesis, access.admin(), work)


def height_of(console: Console) -> int:
    access = Access(ClusterFolder(console.data)).require_up()

    async def work(replica: Replica) -> int:
        return replica.ledger.height

    return visit(access.genesis, access.admin(), work)


def test_a_chain_of_version_1_is_upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "VERSION_MAX", 1)
    with opened(tmp_path / "cluster") as console:
        console.do("up", "--detach")
        console.do("topic", "create", "orders")
        console.do("produce", "orders", given="one\n")
        old = tmp_path / "old.json"
        console.do("receipt", "export", "orders", 0, "--out", old)
        assert b"receipt/1" in old.read_bytes()
        too_early = console("topic", "retain", "orders", "--batches", 2)
        assert (too_early.code, "lacks this; an admin may upgrade it" in too_early.told) == (2, True)
        unknown = console("upgrade", "--to", 9)
        assert (unknown.code, "does not know this protocol version" in unknown.told) == (2, True)
        at = height_of(console) + 3
        assert console.do("upgrade", "--at", at).output == f"protocol version 2 from block {at} on\n"
        assert protocol_of(console) == Protocol(1, 2, at)
        for number in range(4):
            console.do("produce", "orders", given=f"{number}\n")
        assert protocol_of(console) == Protocol(2)
        again = console("upgrade")
        assert (again.code, "already has protocol version 2" in again.told) == (2, True)
        limited = console.do("topic", "retain", "orders", "--batches", 2).output
        assert limited == "orders: each partition keeps 2 batches\n"
        assert console("topic", "retain", "nowhere").code == 2
        new = tmp_path / "new.json"
        console.do("receipt", "export", "orders", 4, "--out", new)
        assert b"receipt/2" in new.read_bytes()
        console.do("produce", "orders", given="last\n")
        listed = console.do("topic", "list", "--json").output
        assert '"from": 4' in listed
        assert '"to": 6' in listed
        for file in (old, new):
            console.do("receipt", "verify", file)
        unlimited = console.do("topic", "retain", "orders").output
        assert unlimited == "orders: each partition keeps everything\n"
