"""Four validators as processes: order, agreement, kills, a liar among them, strangers."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.kabis.chain import CHAIN, VALIDATORS, key_of
from tests.kabis.ordering.cluster import (
    Cluster,
    Reader,
    act,
    make_batches,
    make_topic,
    run,
    statuses,
    submit_widely,
)
from veristream.kabis.ordering.client import OrderingClient
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX
from veristream.kabis.protocol.keys import save_key
from veristream.kabis.protocol.outcomes import Admitted, Already, Done, Outcome, Reason, Refused
from veristream.kabis.wire.endpoints import Address, RequestError, connect
from veristream.kabis.wire.handshake import Identity, Peer, Role, WireError

pytestmark = pytest.mark.long

BYZANTINE = "tests.kabis.ordering.byzantine"
ALL = range(len(VALIDATORS))


async def push(client: OrderingClient, transactions: Sequence[bytes], in_flight: int = 40) -> None:
    """Submits all, so many at a time, until F + 1 validators have each; none may be refused for good.

    What a liar alone has is lost, and a validator that is a block behind does not know the topic yet.
    """
    free = asyncio.Semaphore(in_flight)

    async def push_one(transaction: bytes) -> None:
        async with free:
            while sum(map(_is_taken, await submit_widely(client, transaction))) < 2:
                await asyncio.sleep(0.1)

    await asyncio.gather(*(push_one(transaction) for transaction in transactions))


def _is_taken(outcome: Outcome) -> bool:
    """Whether a validator keeps it."""
    if isinstance(outcome, Refused):
        assert outcome.reason in (Reason.EARLY, Reason.TOO_MANY, Reason.UNKNOWN_TOPIC), outcome
        return outcome.reason is Reason.EARLY
    return True


async def begin(cluster: Cluster, client: OrderingClient, reader: Reader) -> None:
    """Makes the topic that batches go to."""
    await push(client, [make_topic()])
    await reader.follow_until(client, lambda: reader.ledger.topic("orders") is not None)


async def push_until(
    client: OrderingClient, reader: Reader, stream: Sequence[bytes], done: Callable[[], bool]
) -> int:
    """Pushes 30 of the stream together, then one after the other until it is so; gives how many.

    A liar that is slow may miss what goes by quickly, and has to say something to be caught.
    """
    pushed, wanted = 0, 30
    while pushed < wanted:
        await push(client, stream[pushed:wanted])
        pushed = wanted
        await reader.follow_until(client, lambda last=stream[pushed - 1]: last in reader.transactions)  # type: ignore[misc]
        wanted += not done()
        assert wanted <= len(stream), "it does not come"
    return pushed


async def check_agreement(client: OrderingClient, reader: Reader, indices: Sequence[int] = ALL) -> None:
    """All have the block and the state that the reader has, or has a moment later.

    A liar that keeps speaking of the next height has it begin at last, without transactions.
    """
    found = await statuses(client, indices, reader.ledger.height)
    height = max(status.height for status in found)
    await reader.follow_until(client, lambda: reader.ledger.height >= height)
    assert [(status.block_id, status.state) for status in found] == [
        (reader.blocks[status.height - 1].block.block_id(), reader.states[status.height])
        for status in found
    ]


def check_order(reader: Reader, *streams: Sequence[bytes]) -> None:
    """Every transaction is there once, each stream in its order, and nothing else but the topic."""
    found = reader.transactions
    assert len(found) == len(set(found)) == sum(map(len, streams)) + 1
    for stream in streams:
        wanted = set(stream)
        assert [each for each in found if each in wanted] == list(stream)


def test_a_thousand_transactions_of_two_clients_are_the_same_blocks_everywhere(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start()

        async def test() -> None:
            await cluster.ready()
            alice, bob, reader = cluster.client(), cluster.client("bob"), Reader(cluster.genesis)
            await begin(cluster, alice, reader)
            streams = make_batches("alice", 500), make_batches("bob", 500, partition=1)
            following = asyncio.create_task(
                reader.follow_until(bob, lambda: len(reader.transactions) == 1001)
            )
            await asyncio.gather(push(alice, streams[0]), push(bob, streams[1]))
            await following
            check_order(reader, *streams)
            await check_agreement(alice, reader)
            assert await alice.submit(3, streams[0][7]) == Already()
            blocks = await bob.read(1, reader.ledger.height)
            assert [each.block.block_id() for each in blocks] == [
                each.block.block_id() for each in reader.blocks
            ]
            assert (await alice.status()).height == reader.ledger.height
            await alice.close()
            await bob.close()

        run(test)
        assert [cluster.end(index, signal.SIGTERM) for index in ALL] == [0, 0, 0, 0]


def test_killed_validators_lose_nothing(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start()
        stream = make_batches("alice", 120)

        async def test() -> None:
            await cluster.ready()
            client, reader = cluster.client(), Reader(cluster.genesis)
            await begin(cluster, client, reader)

            async def push_and_follow(first: int, last: int) -> None:
                await push(client, stream[first:last])
                await reader.follow_until(client, lambda: stream[last - 1] in reader.transactions)

            await push_and_follow(0, 20)
            cluster.end(2, signal.SIGKILL)
            await push_and_follow(20, 40)
            cluster.start(2)
            await push_and_follow(40, 60)
            await cluster.ready(2)
            await check_agreement(client, reader)
            pushing = asyncio.create_task(push(client, stream[60:80]))
            await asyncio.sleep(0.05)
            for index in ALL:
                cluster.end(index, signal.SIGKILL)
            cluster.start()
            await cluster.ready()
            await asyncio.gather(pushing, return_exceptions=True)
            known = list(reader.transactions)
            await push_and_follow(60, 120)
            assert reader.transactions[: len(known)] == known
            check_order(reader, stream)
            await check_agreement(client, reader)
            evidence = [await client.evidence_of(index) for index in ALL]
            assert [(each.accused, each.seen) for each in evidence] == [((), 0)] * 4
            await client.close()

        run(test)


@pytest.mark.parametrize(
    "faults",
    [("equivocate",), ("bad-blocks", "flood"), ("garbage",), ("silent",)],
    ids=lambda each: each[0],
)
def test_one_liar_changes_nothing(tmp_path: Path, faults: tuple[str, ...]) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start(0, 1, 3)
        cluster.start(2, module=BYZANTINE, more=[part for fault in faults for part in ("--fault", fault)])
        honest = (0, 1, 3)
        stream = make_batches("alice", 300)

        async def test() -> None:
            await cluster.ready()
            client, reader = cluster.client(), Reader(cluster.genesis)
            await begin(cluster, client, reader)
            accused = {("validator", "v2")} if faults == ("equivocate",) else set()
            pushed = await push_until(
                client, reader, stream, lambda: accused == set(reader.ledger.accusations())
            )
            assert [each for each in reader.transactions if each in stream] == stream[:pushed]
            await check_agreement(client, reader, honest)
            for index in honest:
                evidence = await client.evidence_of(index)
                assert {(each.role, each.name) for each in evidence.accused} == accused
            await client.close()

        run(test)
        for index in honest:
            assert cluster.end(index, signal.SIGTERM) == 0


def test_strangers_are_turned_away(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start(0)

        async def turned_away(identity: Identity) -> str:
            """What a stranger is told."""
            party = cluster.genesis.validators[0]
            server = Peer(Role.VALIDATOR, party.name, party.public)
            with pytest.raises(WireError) as caught:
                await connect(Address.parse(party.address), identity, server)
            return str(caught.value)

        async def test() -> None:
            await cluster.ready(0)
            alice, mallory = key_of("alice"), key_of("mallory")
            other = Identity("another-chain", Role.PRODUCER, "alice", alice)
            assert "of the chain 'test-chain'" in await turned_away(other)
            for role, name, key, words in (
                (Role.PRODUCER, "mallory", mallory, "not registered"),
                (Role.PRODUCER, "alice", mallory, "not registered"),
                (Role.ADMIN, "alice", alice, "not registered"),
                (Role.STORAGE, "s0", mallory, "not registered"),
                (Role.VALIDATOR, "v1", mallory, "not a validator"),
                (Role.VALIDATOR, "v0", key_of("v0"), "not a validator"),  # it is itself
                (Role.ANONYMOUS, "anybody", mallory, "only registered keys"),
            ):
                assert words in await turned_away(Identity(CHAIN, role, name, key))
            client = cluster.client()
            assert (await client.status_of(0)).height == 0
            refused = await client.submit(0, act("alice", 1, SetTopic("mine", 1, validated=True)))
            assert isinstance(refused, Refused) and refused.reason is Reason.NOT_ADMIN
            refused = await client.submit(0, b"nonsense")
            assert isinstance(refused, Refused) and refused.reason is Reason.MALFORMED
            with pytest.raises(RequestError, match="at most"):
                await client.submit(0, bytes(TRANSACTION_BYTES_MAX + 1))
            await client.close()

        run(test)


def test_wrong_options_are_explained(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster, socket.socket() as taken:
        save_key(tmp_path / "other.key", key_of("alice"))
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        busy = f"127.0.0.1:{taken.getsockname()[1]}"

        def fail(index: int, *more: str) -> tuple[int, str]:
            ended = subprocess.run(
                cluster.command(index, *more), capture_output=True, text=True, timeout=60
            )
            return ended.returncode, ended.stderr

        for more, status, words in (
            (["--name", "v9"], 2, "no validator 'v9'"),
            (["--key", str(tmp_path / "other.key")], 2, "not that of 'v0'"),
            (["--listen", "nowhere"], 2, "HOST:PORT"),
            (["--listen", busy], 3, "cannot listen"),
            (["--genesis", str(tmp_path / "none.json")], 3, "cannot read the genesis"),
        ):
            code, text = fail(0, *more)
            assert code == status and words in text and "Traceback" not in text


def test_outcomes_travel() -> None:
    from veristream.kabis.ordering.requests import decode_outcome, encode_outcome

    for outcome in (Admitted(7, 2), Done(), Already(), *(Refused(reason, "why") for reason in Reason)):
        assert decode_outcome(encode_outcome(outcome)) == outcome
