"""A storage party as a process: started, stopped, killed, and asked things by good and bad clients."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.kabis.storage.chain import (
    ADMIN,
    ALICE,
    BOB,
    CHAIN,
    GENESIS,
    STORES,
    STREAM,
    batch,
    certificate,
)
from veristream.kabis.channels.failures import LyingPartyError
from veristream.kabis.log.disk.opening import scan, segment_paths
from veristream.kabis.protocol.answers import Absent, Below
from veristream.kabis.protocol.genesis import Party, to_json
from veristream.kabis.protocol.keys import SecretKey, make_key, save_key
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.protocol.plain import PlainAppend, PlainEntry, PlainSlice
from veristream.kabis.protocol.receipts import sign_storage_receipt
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.storage.messages import Batches
from veristream.kabis.wire.endpoints import (
    Address,
    Attached,
    Handlers,
    PeerRefusedError,
    RequestError,
    serve,
)
from veristream.kabis.wire.handshake import Identity, Role
from veristream_testing.storage_client import CheckingClient

PLACE = PartitionName("clicks", 0)
ALICE_PRODUCER = Identity(CHAIN, Role.PRODUCER, "alice", ALICE)


class PartyProcess:
    """Storage party s0 in a process of its own; always ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ready = folder / "ready"
        (folder / "genesis.json").write_text(to_json(GENESIS), encoding="utf-8")
        save_key(folder / "s0.key", STORES[0])

    def command(self, *more: str) -> list[str]:
        named = {"--folder": "log", "--genesis": "genesis.json", "--key": "s0.key", "--ready": "ready"}
        options = [part for name, file in named.items() for part in (name, str(self.folder / file))]
        return [
            sys.executable,
            "-m",
            "veristream.kabis.cluster.storage_process",
            *options,
            "--party",
            "s0",
            *more,
        ]

    def start(self, *more: str) -> None:
        self.ready.unlink(missing_ok=True)
        errors = (self.folder / "errors").open("ab")
        self.process = subprocess.Popen(self.command(*more), stderr=errors)
        errors.close()

    async def address(self) -> Address:
        while not self.ready.exists():
            assert self.process.poll() is None, (self.folder / "errors").read_text(encoding="utf-8")
            await asyncio.sleep(0.01)
        state = json.loads(self.ready.read_text(encoding="utf-8"))
        assert state["party"] == "s0" and state["pid"] == self.process.pid
        return Address.parse(state["address"])

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=30)

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*more), capture_output=True, text=True, timeout=60)


@pytest.fixture
def party(tmp_path: Path) -> Iterator[PartyProcess]:
    process = PartyProcess(tmp_path)
    yield process
    if hasattr(process, "process") and process.process.poll() is None:
        process.end(signal.SIGKILL)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    asyncio.run(bounded())


@asynccontextmanager
async def calling(
    party: PartyProcess,
    role: Role = Role.PRODUCER,
    name: str = "alice",
    key: SecretKey = ALICE,
    **more: Any,
):
    identity = Identity(CHAIN, role, name, key)
    client = CheckingClient(identity, GENESIS.storage[0], 30.0, address=await party.address(), **more)
    try:
        yield client
    finally:
        await client.close()


def plain(sequence: int, *values: bytes, session: bytes = b"s" * 16) -> PlainAppend:
    return PlainAppend(PLACE, session, sequence, tuple(encode_leaf(None, value) for value in values))


def test_a_batch_goes_in_and_comes_out(party: PartyProcess) -> None:
    party.start()

    async def test() -> None:
        one, two = batch(0), batch(2)
        async with calling(party) as alice, calling(party, Role.CONSUMER, "bob", BOB) as bob:
            receipts = await asyncio.gather(
                *(alice.store(each.encode(), each.digest()) for each in (one, two))
            )
            assert [receipt.digest for receipt in receipts] == [one.digest(), two.digest()]
            assert await bob.fetch(STREAM, 0) == (one, two)
            assert await bob.fetch(STREAM, 3) == (two,)
            assert await bob.fetch_digest(two.digest()) == two
            assert await bob.fetch_digest(bytes(32)) == Absent()
            statement = await bob.absence(batch(4).signed, certificate(3))
            assert not isinstance(statement, Below) and statement.height == 3
            with pytest.raises(RequestError, match="the party has the batch"):
                await bob.absence(one.signed, certificate(3))
            with pytest.raises(RequestError, match="store is not allowed for the role consumer"):
                await bob.store(one.encode(), one.digest())
            bobs = batch(0, stream=replace(STREAM, producer="bob"), key=BOB)
            with pytest.raises(RequestError, match="a batch of 'bob' does not come from 'alice'"):
                await alice.store(bobs.encode(), bobs.digest())
            with pytest.raises(RequestError, match="another batch than was announced"):
                await alice.store(batch(4).encode(), two.digest())
            assert await bob.fetch_digest(batch(4).digest()) == Absent()
            evil = batch(0, [b"evil"])
            await alice.store(evil.encode(), evil.digest())
            assert await bob.evidence("orders") == ((one.signed, evil.signed),)
            status = await bob.status()
            assert (status.start, status.end, status.durable, status.lost_count) == (0, 3, 3, 0)

    run(test)
    assert party.end(signal.SIGTERM) == 0
    last = scan(segment_paths(party.folder / "log")[-1])
    assert (last.mark.position, last.end_position) == (3, 3)  # closed, not just left


def test_plain_topics_and_marks(party: PartyProcess) -> None:
    party.start("--encrypt")

    async def test() -> None:
        async with calling(party) as alice, calling(party, Role.ADMIN, "admin", ADMIN) as admin:
            waiting = asyncio.ensure_future(alice.fetch_plain(PLACE, 0, wait_ms=20_000))
            await asyncio.sleep(0.05)
            assert await alice.append_plain(plain(0, b"a", b"b")) == 0
            assert await waiting == PlainSlice(2, (PlainEntry(0, plain(0, b"a", b"b")),))
            assert await alice.append_plain(plain(0, b"a", b"b")) == 0
            assert await alice.append_plain(plain(1, b"c")) == 2
            assert await alice.fetch_plain(PLACE, 3, wait_ms=1) == PlainSlice(3, ())
            with pytest.raises(RequestError, match="low_water is not allowed for the role producer"):
                await alice.raise_low_water(PLACE, 2)
            await admin.raise_low_water(PLACE, 2)
            assert await alice.fetch_plain(PLACE, 0) == Below(2)
            with pytest.raises(RequestError, match="catch_up is not allowed for the role producer"):
                await alice.catch_up(0)
            assert await admin.catch_up(0) == Batches(3, ())

    run(test)
    assert party.end(signal.SIGINT) == 0


def test_nothing_confirmed_is_lost_when_the_party_is_killed(party: PartyProcess) -> None:
    confirmed: list[int] = []

    async def store(alice: CheckingClient, number: int) -> None:
        one = batch(number, [b"%d" % number] * 3)
        await alice.store(one.encode(), one.digest())
        confirmed.append(number)

    async def one_round(number: int) -> None:
        async with calling(party) as alice:
            for before in confirmed:
                found = await alice.fetch(STREAM, before, 1)
                assert found == (batch(before, [b"%d" % before] * 3),)
            begin = 1000 * number
            tasks = [asyncio.ensure_future(store(alice, begin + 3 * each)) for each in range(200)]
            enough = len(confirmed) + 20 + secrets.randbelow(60)
            while len(confirmed) < enough:
                await asyncio.sleep(0.001)
            party.end(signal.SIGKILL)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    for number in range(4):
        party.start("--segment-bytes", "20000")
        run(lambda: one_round(number))  # noqa: B023
    assert len(confirmed) >= 80


def test_strangers_are_told_why_they_are_not_let_in(party: PartyProcess) -> None:
    eve = make_key(b"e" * 32)
    party.start()

    async def refused(role: Role, name: str, key: SecretKey, reason: str) -> None:
        async with calling(party, role, name, key) as client:
            while client.problem is None:
                await asyncio.sleep(0.01)
            assert isinstance(client.problem, PeerRefusedError) and reason in str(client.problem)

    async def test() -> None:
        await refused(Role.PRODUCER, "eve", eve, "'eve' is not registered with this key as producer")
        await refused(Role.PRODUCER, "alice", eve, "'alice' is not registered with this key as producer")
        await refused(Role.ADMIN, "alice", ALICE, "'alice' is not registered with this key as admin")
        await refused(Role.VALIDATOR, "v0", ALICE, "'v0' is not registered with this key")
        await refused(Role.ANONYMOUS, "", eve, "only registered keys")

    run(test)
    party.end(signal.SIGTERM)
    (party.folder / "clients.json").write_text("[]")
    party.start("--anonymous", "--clients", str(party.folder / "clients.json"))

    async def welcome() -> None:
        await refused(Role.CONSUMER, "eve", eve, "'eve' is not registered with this key as consumer")
        (party.folder / "clients.json").write_text(
            json.dumps([{"name": "eve", "public": eve.public.hex()}])
        )
        await refused(Role.ADMIN, "eve", eve, "'eve' is not registered with this key as admin")
        one = batch(0, stream=replace(STREAM, producer="eve"), key=eve)
        async with calling(party, name="eve", key=eve) as client:
            await client.store(one.encode(), one.digest())
        async with calling(party, Role.ANONYMOUS, "", make_key(b"x" * 32)) as anybody:
            assert await anybody.fetch_digest(one.digest()) == one
            with pytest.raises(RequestError, match="append_plain is not allowed for the role anonymous"):
                await anybody.append_plain(plain(0, b"a"))

    run(welcome)


def test_what_is_wrong_at_the_start_is_said(party: PartyProcess) -> None:
    assert "the genesis has no storage party 's9'" in party.run("--party", "s9").stderr
    assert party.run("--party", "s9").returncode == 2
    other = party.run("--party", "s1")
    assert (other.returncode, "the key is not that of 's1'" in other.stderr) == (2, True)
    assert party.run("--listen", "nowhere").returncode == 2
    (party.folder / "bad.json").write_text("[1]")
    assert party.run("--clients", str(party.folder / "bad.json")).returncode == 2
    party.start()

    async def wait() -> None:
        await party.address()

    run(wait)
    second = party.run()
    assert (second.returncode, f"in use by process {party.process.pid}" in second.stderr) == (3, True)
    party.end(signal.SIGKILL)
    segment = segment_paths(party.folder / "log")[0]
    descriptor = os.open(segment, os.O_RDWR)
    os.pwrite(descriptor, b"?", 3)
    os.close(descriptor)
    damaged = party.run()
    assert (damaged.returncode, f"{segment} is damaged at byte 0" in damaged.stderr) == (3, True)
    assert "start it with --repair" in damaged.stderr
    party.start("--repair")
    run(wait)
    assert party.end(signal.SIGTERM) == 0


async def store_until_refused(alice: CheckingClient, reason: str) -> int:
    """Stores large batches, and gives how many were taken before one was refused for this reason."""
    for taken in range(100):
        one = batch(taken, [b"x" * 10_000])
        try:
            await alice.store(one.encode(), one.digest())
        except RequestError as error:
            if reason not in str(error):
                raise
            return taken
    raise AssertionError("never refused")


def test_a_full_disk_is_said_and_survived(tmp_path: Path) -> None:
    """The limit on files is the process's own; the segment grows to it, and then nothing more is taken."""
    party = PartyProcess(tmp_path)
    party.ready.unlink(missing_ok=True)
    limit = f"ulimit -f 60; exec {' '.join(party.command())}"
    party.process = subprocess.Popen(["bash", "-c", limit], stderr=subprocess.DEVNULL)

    async def test() -> None:
        async with calling(party) as alice:
            taken = await store_until_refused(alice, "nothing of it was kept")
            assert 1 <= taken < 10
            small = batch(taken, [b"small"])
            await alice.store(small.encode(), small.digest())
            assert await alice.fetch(STREAM, taken) == (small,)

    try:
        run(test)
    finally:
        assert party.end(signal.SIGTERM) == 0


@asynccontextmanager
async def changing(target: Address, old: bytes, new: bytes):
    """Somebody between a client and a party who puts one word for another wherever he can read it."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data.replace(old, new))
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(target.host, target.port)
        await asyncio.gather(pass_on(reader, back), pass_on(there, writer), return_exceptions=True)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield Address(*server.sockets[0].getsockname()[:2])
    finally:
        server.close()


@pytest.mark.parametrize("encrypt", [False, True])
def test_events_that_are_changed_on_the_way_are_refused(party: PartyProcess, encrypt: bool) -> None:
    """Nobody but the batch's own hash notices it; in an encrypted session there is no word to be seen."""
    party.start()
    one, two = batch(0, [b"two pears"]), batch(1, [b"two pears"])

    async def test() -> None:
        async with calling(party) as alice, changing(await party.address(), b"pears", b"peers") as between:
            there = CheckingClient(
                ALICE_PRODUCER, GENESIS.storage[0], 30.0, address=between, encrypt=encrypt
            )
            await alice.store(one.encode(), one.digest())
            if encrypt:
                await there.store(two.encode(), two.digest())
                assert await there.fetch_digest(one.digest()) == one
            else:
                with pytest.raises(RequestError, match="do not match the root in the signed header"):
                    await there.store(two.encode(), two.digest())
                assert await alice.fetch_digest(two.digest()) == Absent()
                with pytest.raises(LyingPartyError, match="do not match the root in the signed header"):
                    await there.fetch_digest(one.digest())
            await there.close()

    run(test)


def lie(answer: bytes | Attached) -> Handlers:
    async def same(_peer: object, _body: object) -> bytes | Attached:
        return answer

    return Handlers(same, answer_attached=same)


def test_a_party_that_lies_is_found_out() -> None:
    one, other = batch(0), batch(0, [b"other"])
    forged = replace(one, leaves=other.leaves * 2)
    receipts = [
        sign_storage_receipt(CHAIN, "s0", other.digest(), STORES[0]),
        sign_storage_receipt(CHAIN, "s1", one.digest(), STORES[1]),
        sign_storage_receipt(CHAIN, "s0", one.digest(), STORES[1]),
        sign_storage_receipt("other", "s0", one.digest(), STORES[0]),
    ]
    wrong = {
        "store": [
            *(b"\0junk", b"\1", b"", b"\x09", Attached(b"\0", b"")),
            *(b"\0" + receipt.encode() for receipt in receipts),
        ],
        "digest": [
            *(Attached(b"\0", each) for each in (other.encode(), forged.encode(), one.encode()[:-1], b"")),
            *(b"\0" + one.encode(), b"\0", b"\x09"),
        ],
    }

    async def ask(answer: bytes | Attached, question: str) -> None:
        identity = Identity(CHAIN, Role.STORAGE, "s0", STORES[0])
        server = await serve(Address("127.0.0.1", 0), identity, lambda _peer: None, lie(answer))
        party = Party("s0", STORES[0].public, str(server.address))
        client = CheckingClient(ALICE_PRODUCER, party)
        asked = (
            client.store(one.encode(), one.digest())
            if question == "store"
            else client.fetch_digest(one.digest())
        )
        with pytest.raises(LyingPartyError):
            await asked
        await client.close()
        await server.close()

    async def test() -> None:
        for question, answers in wrong.items():
            for answer in answers:
                await ask(answer, question)

    run(test)
