"""Real validators change under load: one is replaced, four become seven, a key is rotated."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kabis.chain import STORAGE, batch_of, key_of, submitted
from tests.kabis.ledger.changing import change, replaced
from tests.kabis.ordering.cluster import Cluster, act, make_topic, run, submit_widely
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Channels
from veristream.kabis.client.administration import Replica
from veristream.kabis.ordering.client import OrderingClient
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.keys import load_key, save_key
from veristream.kabis.protocol.members import Members, Party
from veristream.kabis.protocol.outcomes import Refused
from veristream.kabis.wire.ports import HOST, draw_ports

pytestmark = pytest.mark.long

NEWCOMERS = ("v4", "v7", "v8", "v9")
AHEAD = 15


def make_stream(count: int) -> list[bytes]:
    """Batches with as many receipts as F = 2 needs."""
    previous, transactions = ZERO_DIGEST, []
    for sequence in range(count):
        batch = batch_of(f"event {sequence}".encode(), sequence=sequence, previous=previous)
        previous = batch.digest()
        transactions.append(submitted(batch, STORAGE).encode())
    return transactions


class Changing(Cluster):
    """The founding validators and newcomers, each at its port."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.newcomers = {
            name: Party(name, key_of(name).public, f"{HOST}:{port}")
            for name, port in zip(NEWCOMERS, draw_ports(len(NEWCOMERS)), strict=True)
        }
        self.joined: dict[str, subprocess.Popen[bytes]] = {}
        for name in NEWCOMERS:
            (folder / name).mkdir()
            save_key(folder / name / "key", key_of(name))

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        for process in self.joined.values():
            process.kill()
            process.wait()

    def join(self, *names: str) -> None:
        for name in names:
            folder = self.folder / name
            command = [sys.executable, "-m", "veristream.kabis.cluster.validator_process"]
            command += ["--genesis", str(self.folder / "genesis.json"), "--folder", str(folder)]
            command += ["--name", name, "--listen", self.newcomers[name].address]
            with (folder / "errors").open("ab") as errors:
                self.joined[name] = subprocess.Popen(command, stderr=errors, cwd=Path(__file__).parents[3])


class Load:
    """A producer that submits one batch after the other, each until it is decided."""

    def __init__(self, client: OrderingClient, replica: Replica) -> None:
        self.client, self.replica = client, replica
        self.stream = make_stream(5000)
        self.sent = 0
        self.ending = False

    async def run(self) -> None:
        while not self.ending:
            while self.replica.ledger.cursor("alice", "orders", 0).next_sequence <= self.sent:
                await submit_widely(self.client, self.stream[self.sent])
                await self.catch_up()
            self.sent += 1

    async def catch_up(self) -> None:
        try:
            async with asyncio.timeout(0.5):
                await self.replica.follow(self.replica.ledger.height + 1)
        except FAILURES:
            pass


async def order(load: Load, after: Members, number: int) -> int:
    """Orders the members, and returns the height from which they are in force."""
    ledger = load.replica.ledger
    height = ledger.height + AHEAD
    action = act("admin", number, change(ledger.members, after, height))
    while ledger.pending_members is None and ledger.members != after:
        for outcome in await submit_widely(load.client, action):
            assert not isinstance(outcome, Refused), outcome
        await asyncio.sleep(0.1)
    return height


async def until_in_force(load: Load, height: int) -> None:
    sent = load.sent
    while load.replica.ledger.height <= height or load.sent <= sent + 5:
        await asyncio.sleep(0.05)


async def changes(cluster: Changing) -> None:
    await cluster.ready()
    client = cluster.client()
    replica, away = (Replica(cluster.genesis, Channels((), each)) for each in (client, cluster.client()))
    await submit_widely(client, make_topic())
    while replica.ledger.topic("orders") is None:
        await replica.follow(replica.ledger.height + 1)
    load = Load(client, replica)
    loading = asyncio.create_task(load.run())
    members = cluster.genesis.members

    cluster.join("v4")
    members = replaced(members, "v0", cluster.newcomers["v4"])
    await until_in_force(load, await order(load, members, 2))
    removed = cluster.processes.pop(0)
    assert await asyncio.to_thread(removed.wait, 30) == 2
    assert "v0 is no longer a validator since height" in cluster.errors(0).read_text(encoding="utf-8")

    cluster.join("v7", "v8", "v9")
    added = tuple(cluster.newcomers[name] for name in ("v7", "v8", "v9"))
    storage = (*members.storage, *(Party(name, key_of(name).public) for name in ("s3", "s4")))
    members = replace(members, faults=2, validators=(*members.validators, *added), storage=storage)
    await until_in_force(load, await order(load, members, 3))

    save_key(cluster.folder / "v1" / "key.next", key_of("v1", 1))
    rotated = replace(members.validators[1], public=key_of("v1", 1).public)
    members = replaced(members, "v1", rotated)
    await until_in_force(load, await order(load, members, 4))
    while load_key(cluster.folder / "v1" / "key").public != rotated.public:
        await asyncio.sleep(0.05)
    assert not (cluster.folder / "v1" / "key.next").exists()

    for index in (2, 3):  # two of seven may fail, so the newcomers and the new key are needed
        cluster.end(index, signal.SIGKILL)
    await until_in_force(load, replica.ledger.height)
    cluster.start(2, 3)
    load.ending = True
    await loading
    assert replica.ledger.cursor("alice", "orders", 0).next_sequence == load.sent
    assert {party.name for party in replica.ledger.members.validators} == {
        *("v4", "v1", "v2", "v3"),
        *("v7", "v8", "v9"),
    }

    await away.follow_to_end()
    assert away.ledger.height >= replica.ledger.height
    assert away.ledger.members == members and len(away.ledger.succession.heights) == 3
    assert away.ledger.cursor("alice", "orders", 0).next_sequence == load.sent
    await asyncio.gather(client.close(), away.channels.ordering.close())


def test_nothing_is_lost_while_validators_change(tmp_path: Path) -> None:
    with Changing(tmp_path) as cluster:
        cluster.start()
        run(lambda: changes(cluster))


def test_a_validator_that_is_not_in_the_genesis_is_told_where_to_listen(tmp_path: Path) -> None:
    with Changing(tmp_path):
        command = [sys.executable, "-m", "veristream.kabis.cluster.validator_process"]
        command += ["--genesis", str(tmp_path / "genesis.json"), "--folder", str(tmp_path / "v4")]
        ended = subprocess.run([*command, "--name", "v4"], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 2
        assert "the genesis has no validator 'v4'" in ended.stderr and "--listen" in ended.stderr
