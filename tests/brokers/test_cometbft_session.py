"""Kabis on CometBFT as a user sees it: commands, clients, receipts and errors."""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.brokers.comet import PATIENCE_S, addresses, running
from tests.kabis.session.console import Console, Ended, opened
from veristream.brokers.cometbft import CometNetwork, find_program
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ledger.event_receipts import (
    ReceiptError,
    ReceiptFault,
    export_receipt,
    verify_receipt,
)
from veristream.kabis.protocol.genesis import load_genesis
from veristream.kabis.protocol.keys import make_key
from veristream.kabis.protocol.records import Record

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("cometbft")]

COUNT = 200


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CometNetwork]:
    with running(tmp_path_factory.mktemp("cometbft")) as network:
        yield network


@pytest.fixture(scope="module")
def console(network: CometNetwork, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    with opened(tmp_path_factory.mktemp("kabis") / "data") as console:
        console.do("up", "--detach", *over(network))
        console.do("topic", "create", "orders")
        console.do("topic", "create", "fruit")
        yield console


def over(network: CometNetwork) -> tuple[str, str]:
    return "--ordering", "cometbft=" + ",".join(addresses(network))


def test_events_arrive_in_order_with_receipts_while_a_validator_comes_and_goes(
    console: Console, network: CometNetwork
) -> None:
    access = Access(ClusterFolder(console.data))
    values = [f"event {number}".encode() for number in range(COUNT)]
    with access.producer() as producer:
        pushed = [producer.push(Record("orders", value)) for value in values[: COUNT // 2]]
        producer.flush()
        network.kill("cometbft-3")
        pushed += [producer.push(Record("orders", value)) for value in values[COUNT // 2 :]]
        done = [each.result(timeout=PATIENCE_S) for each in pushed]
        network.start(["cometbft-3"])
        receipts = [export_receipt(each.receipt()) for each in (done[0], done[-1])]
    assert [each.index for each in done] == list(range(COUNT))

    with access.consumer() as consumer:
        consumer.subscribe(["orders"])
        found: list[bytes | None] = []
        while len(found) < COUNT:
            found += [event.value for event in consumer.pull(timeout=5.0)]
    assert found == values

    for receipt, value in zip(receipts, (values[0], values[-1]), strict=True):
        shown = verify_receipt(receipt, access.genesis)
        assert (shown.event.value, shown.topic, len(shown.storage)) == (value, "orders", 2)
        assert len(shown.validators) >= 3


def test_a_receipt_needs_the_genesis_alone_and_nothing_in_it_can_be_changed(
    console: Console, tmp_path: Path
) -> None:
    console.do("produce", "fruit", given="figs\n")
    path = tmp_path / "receipt.json"
    console.do("receipt", "export", "fruit", 0, "--out", path)
    shown = console.do("receipt", "verify", path, "--genesis", console.data / "genesis.json").lines()
    assert shown[:2] == ["the receipt holds", "  event     figs"]

    genesis = load_genesis(console.data / "genesis.json")
    data = path.read_bytes()
    facts = json.loads(data)
    for name, value in facts.items():
        changed = {**facts, name: value + 1 if isinstance(value, int) else value[:-8] + "AAAAAAAA"}
        with pytest.raises(ReceiptError):
            verify_receipt(json.dumps(changed, indent=2).encode() + b"\n", genesis)
    strangers = tuple(
        replace(party, public=make_key(bytes([number]) * 32).public)
        for number, party in enumerate(genesis.validators)
    )
    with pytest.raises(ReceiptError) as caught:
        verify_receipt(data, replace(genesis, validators=strangers))
    assert caught.value.fault is ReceiptFault.BAD_VOTE


def wait_for_all(console: Console) -> dict[str, Any]:
    """Repeats `kabis status` until everybody answers or the time is up: the command waits only briefly for
    each party, so a slow one may seem to be down."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        status: dict[str, Any] = json.loads(console.do("status", "--json").output)
        if all(party["answers"] for party in status["parties"]) or time.monotonic() > deadline_s:
            return status


def test_status_and_a_restart_of_the_storage_parties(console: Console) -> None:
    status = wait_for_all(console)
    validators = [party for party in status["parties"] if party["role"] == "validator"]
    assert [(party["answers"], party["pid"]) for party in validators] == [(True, None)] * 4
    assert status["makes_progress"] is True

    console.do("topic", "create", "nuts")
    console.do("produce", "nuts", given="almonds\nwalnuts\n")
    assert console.do("down").output == "stopped storage-1, storage-2, storage-3\n"
    console.do("up", "--detach")
    read = console.do("consume", "nuts", "--from-beginning", "--max", 2, "--timeout", PATIENCE_S).lines()
    assert read == ["almonds", "walnuts"]


# Errors


def fails(ended: Ended, code: int, message: str) -> None:
    assert (ended.code, ended.told.splitlines()[0]) == (code, f"error: {message}"), ended.told
    assert ended.told.splitlines()[1].startswith("hint: ")


def copied(console: Console, folder: Path) -> Console:
    """Copies the cluster's genesis and keys to a folder without running parties."""
    shutil.copytree(console.data, folder, ignore=shutil.ignore_patterns("process.json"))
    return Console(folder)


def test_a_node_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound but not listening, so that nobody else can
        taken.bind(("127.0.0.1", 0))
        nowhere = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = Console(tmp_path / "data")("up", "--detach", "--ordering", f"cometbft={nowhere}")
    assert ended.code == 3
    assert ended.told.startswith(f"error: no CometBFT answers at {nowhere}: ")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("text", ["kafka=1.2.3.4:5", "cometbft", "cometbft="])
def test_an_ordering_that_is_none(text: str, tmp_path: Path) -> None:
    ended = Console(tmp_path / "data")("up", "--detach", "--ordering", text)
    fails(ended, 2, f"--ordering {text} is not valid")


def test_a_node_too_few(network: CometNetwork, tmp_path: Path) -> None:
    known = json.loads((network.folder / "cometbft-1" / "config" / "genesis.json").read_text())["chain_id"]
    named = ",".join(addresses(network)[:3])
    ended = Console(tmp_path / "data")("up", "--detach", "--ordering", f"cometbft={named}")
    fails(ended, 2, f"3 nodes are named, but {known} has 4 validators")


def test_a_chain_that_somebody_else_founded(
    console: Console, network: CometNetwork, tmp_path: Path
) -> None:
    other = Console(tmp_path / "data")
    chain_id = load_genesis(console.data / "genesis.json").chain_id
    fails(other("up", "--detach", *over(network)), 2, f"chain {chain_id} already has another genesis")
    assert not (tmp_path / "data" / "genesis.json").exists()


def test_validators_with_other_keys_than_the_genesis_says(
    console: Console, network: CometNetwork, tmp_path: Path
) -> None:
    copy = copied(console, tmp_path / "data")
    genesis = json.loads((copy.data / "genesis.json").read_text())
    genesis["validators"][1]["public"] = make_key(b"k" * 32).public.hex()
    (copy.data / "genesis.json").write_text(json.dumps(genesis))
    message = f"the validators of {genesis['chain_id']} do not have the keys in the genesis"
    fails(copy("up", "--detach", *over(network)), 2, message)


class WithoutApplication(CometNetwork):
    """A chain of one validator that runs CometBFT's example application instead of ours."""

    def command(self, name: str) -> Sequence[str]:
        home = str((self.folder / name).resolve())
        return (str(find_program()), "start", "--home", home, "--proxy_app", "kvstore")


def test_nodes_of_another_chain_and_without_our_application(console: Console, tmp_path: Path) -> None:
    with WithoutApplication(tmp_path / "cometbft") as other:
        other.create(1)
        other.start()
        theirs = json.loads((other.folder / "cometbft-1" / "config" / "genesis.json").read_text())[
            "chain_id"
        ]
        copy = copied(console, tmp_path / "copy")
        ours = load_genesis(copy.data / "genesis.json").chain_id
        message = f"these nodes belong to chain {theirs}, the genesis to {ours}"
        fails(copy("up", "--detach", *over(other)), 2, message)
        ended = Console(tmp_path / "data")("up", "--detach", *over(other))
    assert ended.code == 3
    assert ended.told.startswith("error: a CometBFT node does not run the Kabis application: ")
