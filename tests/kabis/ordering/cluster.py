"""Four validators as processes on loopback, and clients of theirs."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.kabis.chain import CHAIN, VALIDATORS, batch_of, key_of, make_genesis, submitted
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.ledger.ledger import Ledger
from veristream.kabis.ordering.client import OrderingClient
from veristream.kabis.ordering.requests import Status
from veristream.kabis.protocol.actions import Action, SetTopic
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.genesis import Genesis, to_json
from veristream.kabis.protocol.keys import SecretKey, save_key
from veristream.kabis.protocol.outcomes import Outcome
from veristream.kabis.protocol.transactions import Author, sign_action
from veristream.kabis.wire.handshake import Identity, Role
from veristream.kabis.wire.ports import HOST, draw_ports

LIMIT_S = 300
"""What never ends is ended. A thousand transactions, in blocks of eighty with three flushes each, take more
than a minute where a flush takes two seconds."""
ANSWER_S = 1.0


def draw_genesis() -> Genesis:
    """The chain of the unit tests, each validator at a port that nobody else draws meanwhile."""
    genesis = make_genesis()
    pairs = zip(genesis.validators, draw_ports(len(VALIDATORS)), strict=True)
    return replace(
        genesis, validators=tuple(replace(party, address=f"{HOST}:{port}") for party, port in pairs)
    )


class Cluster:
    """The processes, by validator; whatever was started is ended with the `with` statement."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.genesis = draw_genesis()
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        (folder / "genesis.json").write_text(to_json(self.genesis), encoding="utf-8")
        for name in VALIDATORS:
            (folder / name).mkdir()
            save_key(folder / name / "key", key_of(name))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for index in list(self.processes):
            self.end(index, signal.SIGKILL)

    def command(
        self, index: int, *more: str, module: str = "veristream.kabis.cluster.validator_process"
    ) -> list[str]:
        genesis, folder = self.folder / "genesis.json", self.folder / VALIDATORS[index]
        named = ["--genesis", str(genesis), "--folder", str(folder), "--name", VALIDATORS[index]]
        return [sys.executable, "-m", module, *named, *more]

    def start(
        self,
        *indices: int,
        module: str = "veristream.kabis.cluster.validator_process",
        more: Sequence[str] = (),
    ) -> None:
        for index in indices or range(len(VALIDATORS)):
            (self.folder / VALIDATORS[index] / "ready").unlink(missing_ok=True)
            with self.errors(index).open("ab") as errors:
                self.processes[index] = subprocess.Popen(
                    self.command(index, *more, module=module), stderr=errors, cwd=Path(__file__).parents[3]
                )

    def errors(self, index: int) -> Path:
        return self.folder / VALIDATORS[index] / "errors"

    def end(self, index: int, number: signal.Signals) -> int:
        process = self.processes.pop(index)
        process.send_signal(number)
        return process.wait(timeout=30)

    async def ready(self, *indices: int) -> None:
        for index in indices or range(len(VALIDATORS)):
            ready = self.folder / VALIDATORS[index] / "ready"
            while not ready.exists():
                errors = self.errors(index).read_text(encoding="utf-8")
                assert self.processes[index].poll() is None, errors
                await asyncio.sleep(0.01)
            state = json.loads(ready.read_text(encoding="utf-8"))
            assert state["validator"] == VALIDATORS[index]
            assert state["pid"] == self.processes[index].pid
            assert state["address"] == self.genesis.validators[index].address

    def client(self, name: str = "alice", role: Role = Role.PRODUCER, **more: Any) -> OrderingClient:
        key: SecretKey = more.pop("key", key_of(name))
        chain: str = more.pop("chain", CHAIN)
        return OrderingClient(self.genesis, Identity(chain, role, name, key), 30.0, **more)


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a test that must end."""

    async def bounded() -> None:
        async with asyncio.timeout(LIMIT_S):
            await test()

    asyncio.run(bounded())


def act(name: str, number: int, action: Action) -> bytes:
    """An action of an admin or client, as a transaction."""
    return sign_action(Author(CHAIN, name, 0, key_of(name)), number, action).encode()


def make_topic() -> bytes:
    """The validated topic `orders` with two partitions."""
    return act("admin", 1, SetTopic("orders", 2, validated=True))


def make_batches(producer: str, count: int, partition: int = 0) -> list[bytes]:
    """A producer's first batches, each of one event, as transactions."""
    previous, transactions = ZERO_DIGEST, []
    for sequence in range(count):
        value = f"{producer} {sequence}".encode()
        batch = batch_of(
            value, sequence=sequence, previous=previous, producer=producer, partition=partition
        )
        previous = batch.digest()
        transactions.append(submitted(batch).encode())
    return transactions


async def submit_widely(client: OrderingClient, transaction: bytes) -> list[Outcome]:
    """What the validators that answer soon expect to become of a transaction."""

    async def submit(validator: int) -> Outcome:
        async with asyncio.timeout(ANSWER_S):
            return await client.submit(validator, transaction)

    answers = await asyncio.gather(*map(submit, range(len(VALIDATORS))), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, FAILURES):
            raise answer
    return [answer for answer in answers if not isinstance(answer, BaseException)]


class Reader:
    """A ledger that follows the chain, with all that it saw."""

    def __init__(self, genesis: Genesis) -> None:
        self.ledger = Ledger(genesis)
        self.blocks: list[CertifiedBlock] = []
        self.states = [self.ledger.state_hash()]
        """After each block, by height."""

    @property
    def transactions(self) -> list[bytes]:
        return [encoded for certified in self.blocks for encoded in certified.block.transactions]

    async def follow_until(self, client: OrderingClient, done: Callable[[], bool]) -> None:
        """Applies decided blocks until the condition holds."""
        if done():
            return
        async for certified in client.follow(self.ledger.height + 1):
            self.ledger.apply(certified.block)
            self.blocks.append(certified)
            self.states.append(self.ledger.state_hash())
            if done():
                return


async def statuses(client: OrderingClient, indices: Sequence[int], height: int) -> list[Status]:
    """How these validators are, once each has reached a height."""
    found = []
    for index in indices:
        status = await client.status_of(index)
        while status.height < height:
            await asyncio.sleep(0.02)
            status = await client.status_of(index)
        found.append(status)
    return found
