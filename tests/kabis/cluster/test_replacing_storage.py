"""A storage party is replaced while a producer works: nothing that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.kabis.audit.here import audit_files
from tests.kabis.session.console import opened
from veristream.kabis.audit import network
from veristream.kabis.audit.network import PartyAccess
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client.administration import Replica
from veristream.kabis.client.producer.producer import KabisProducer
from veristream.kabis.client.pushes import Acknowledged
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster, StartOptions
from veristream.kabis.cluster.folder import ADMIN
from veristream.kabis.ledger.event_receipts import export_receipt, verify_receipt
from veristream.kabis.ledger.membership import find_new_keys
from veristream.kabis.protocol.actions import Action, SetMembers, SetTopic
from veristream.kabis.protocol.keys import SecretKey, make_key, save_key
from veristream.kabis.protocol.members import Members, Party
from veristream.kabis.protocol.records import Record
from veristream.kabis.protocol.transactions import prove_membership
from veristream.kabis.storage.client import StorageClient
from veristream.kabis.storage.messages import Standing, Status
from veristream.kabis.wire.handshake import Role
from veristream.kabis.wire.ports import draw_ports

pytestmark = pytest.mark.long

PATIENCE_S = 60.0
Value = TypeVar("Value")


class Admin:
    """What the admin of a cluster does in this test."""

    def __init__(self, access: Access) -> None:
        self.access = access

    def _run(self, work: Callable[[Replica], Awaitable[Value]]) -> Value:
        async def go() -> Value:
            channels: Channels = await self.access.admin()()
            try:
                replica = Replica(self.access.genesis, channels)
                await replica.follow_to_end()
                return await work(replica)
            finally:
                await channels.close()

        return asyncio.run(go())

    def act(self, action: Action) -> None:
        self._run(lambda replica: replica.act(self.access.author(ADMIN), action))

    def change(self, after: Callable[[Members], Members], keys: dict[str, SecretKey]) -> int:
        """Orders other members, and returns the height from which they are in force."""

        async def order(replica: Replica) -> int:
            before, height = replica.ledger.members, replica.ledger.height + 100
            members, chain_id = after(before), replica.ledger.genesis.chain_id
            new = find_new_keys(before, members)
            proofs = [prove_membership(chain_id, role, each.name, keys[each.name]) for role, each in new]
            action = SetMembers(members, height, tuple(sorted(proofs, key=lambda proof: proof.place)))
            await replica.act(self.access.author(ADMIN), action)
            return height

        return self._run(order)

    def height(self) -> int:
        async def tell(replica: Replica) -> int:
            return replica.ledger.height

        return self._run(tell)

    def members(self) -> Members:
        async def tell(replica: Replica) -> Members:
            return replica.ledger.members

        return self._run(tell)

    def status(self, party: Party) -> Status:
        async def ask() -> Status:
            client = StorageClient(self.access.identity(ADMIN, Role.ADMIN), party, 10.0)
            try:
                return await client.status()
            finally:
                await client.close()

        return asyncio.run(ask())


class Load:
    """Pushes events, a few at a time, until it is stopped; `done` are the acknowledgements."""

    def __init__(self, producer: KabisProducer) -> None:
        self.done: list[Acknowledged] = []
        self._producer = producer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._push)

    def _push(self) -> None:
        number = 0
        while not self._stop.is_set():
            pushed = [
                self._producer.push(Record("orders", b"%d" % each), PATIENCE_S)
                for each in range(number, number + 20)
            ]
            self.done += [each.result(PATIENCE_S) for each in pushed]
            number += 20

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def wait_for(self, count: int) -> None:
        """Waits until so many more events are acknowledged."""
        goal, deadline_s = len(self.done) + count, time.monotonic() + PATIENCE_S
        while len(self.done) < goal:
            assert self._thread.is_alive(), "the producer failed"
            assert time.monotonic() < deadline_s, "nothing is acknowledged"
            time.sleep(0.01)


@contextmanager
def joining(cluster: Cluster, name: str, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a storage party that the genesis does not have."""
    folder = cluster.folder_of(name)
    command = [each.replace("storage-1", name) for each in cluster.command("storage-1", StartOptions())]
    command[command.index("--listen") + 1] = address
    command[command.index("--metrics-port") + 1] = "0"
    with open(folder / "out.txt", "wb") as out:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, "it does not come"
        time.sleep(0.1)


def rotate(admin: Admin, name: str) -> None:
    """Has a running party sign with another key, which is in a file beside its own."""
    key = make_key(os.urandom(32))
    save_key(admin.access.folder.party(name) / "key.next", key)

    def swap(members: Members) -> Members:
        (before,) = (party for party in members.storage if party.name == name)
        return replaced(members, name, Party(name, key.public, before.address))

    height = admin.change(swap, {name: key})
    wait_until(lambda: admin.height() >= height)
    (party,) = (each for each in admin.members().storage if each.name == name)
    assert party.public == key.public
    wait_until(lambda: admin.status(party).progress == (0, Standing.MEMBER))


def replaced(members: Members, old: str, new: Party) -> Members:
    storage = tuple(new if party.name == old else party for party in members.storage)
    return Members(members.faults, members.storage_mode, members.validators, storage)


def test_a_storage_party_is_replaced_under_load(tmp_path: Path) -> None:
    """With a donor that lies; then the old party is stopped, and another one is killed."""
    with opened(tmp_path / "cluster") as run:
        cluster, access = run.cluster, Access(run.cluster.folder)
        cluster.create(4)
        cluster.start(StartOptions(faults={"storage-2": "alter"}))
        admin = Admin(access)
        admin.act(SetTopic("orders", 2, validated=True))
        key = make_key(os.urandom(32))
        cluster.folder_of("storage-4").mkdir()
        save_key(cluster.folder_of("storage-4") / "key", key)
        new = Party("storage-4", key.public, f"127.0.0.1:{draw_ports(1)[0]}")
        with access.producer() as producer, Load(producer) as load:
            load.wait_for(200)
            before = load.done[0]
            height = admin.change(lambda members: replaced(members, "storage-1", new), {"storage-4": key})
            with joining(cluster, "storage-4", new.address) as process:
                wait_until(lambda: admin.height() >= height)
                wait_until((cluster.folder_of("storage-4") / "ready").exists)
                wait_until(lambda: admin.status(new).progress == (0, Standing.MEMBER))
                words = (cluster.folder_of("storage-4") / "party.log").read_text()
                assert "storage-2 returned a wrong batch, another party is asked" in words
                assert "has all batches up to block" in words
                old = next(party for party in cluster.genesis.storage if party.name == "storage-1")
                assert admin.status(old).standing is Standing.FORMER
                cluster.stop(["storage-1"])
                cluster.restart("storage-2")
                load.wait_for(200)
                rotate(admin, "storage-2")
                cluster.kill("storage-3")
                load.wait_for(200)
                after = load.done[-1]
                load.stop()
                stored = [
                    set(verify_receipt(export_receipt(each.receipt()), cluster.genesis).storage)
                    for each in (before, after)
                ]
                assert stored[0] <= {"storage-1", "storage-2", "storage-3"}
                assert stored[1] == {"storage-2", "storage-4"}
                with access.consumer() as consumer:
                    consumer.subscribe(["orders"])
                    seen: set[tuple[int, int]] = set()
                    deadline_s = time.monotonic() + PATIENCE_S
                    while len(seen) < len(load.done):
                        assert time.monotonic() < deadline_s, (len(seen), len(load.done))
                        seen |= {(event.partition, event.index) for event in consumer.pull(1.0)}
                assert seen == {(each.partition, each.index) for each in load.done}
                assert process.poll() is None
                asking = PartyAccess(cluster.genesis, access.identity(ADMIN, Role.ADMIN))
                history = network.read_history(asking)
                assert len(history.changes) == 2
                assert history.former() == {"storage-1"}
                assert history.storage_parties()[0] == new
        findings, _ = audit_files(cluster.folder.path)
        assert findings == []
