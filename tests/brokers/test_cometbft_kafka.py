"""Kabis on a Kafka cluster for each storage party, ordered by CometBFT."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.brokers.comet import addresses, running
from tests.kabis.session.console import opened
from veristream.brokers.kafka import KafkaClusters

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("kafka")]

LINES = [f"event {number}" for number in range(50)]


def test_a_session_over_kafka_and_cometbft(kafkas: KafkaClusters, tmp_path: Path) -> None:
    stores = ",".join(kafkas.address(name) for name in kafkas.names())
    with running(tmp_path / "cometbft") as network, opened(tmp_path / "kabis") as console:
        nodes = ",".join(addresses(network))
        console.do("up", "--detach", "--storage", f"kafka={stores}", "--ordering", f"cometbft={nodes}")
        console.do("topic", "create", "orders")
        console.do("produce", "orders", given="".join(f"{line}\n" for line in LINES[:25]))
        network.kill("cometbft-4")
        kafkas.kill("kafka-2")
        console.do("produce", "orders", given="".join(f"{line}\n" for line in LINES[25:]))
        read = console.do("consume", "orders", "--from-beginning", "--max", len(LINES)).lines()
        assert read == LINES

        path = tmp_path / "receipt.json"
        console.do("receipt", "export", "orders", len(LINES) - 1, "--out", path)
        console.do("down")
        shown = console.do("receipt", "verify", path, "--genesis", console.data / "genesis.json").lines()
    assert shown[:2] == ["the receipt holds", f"  event     {LINES[-1]}"]
    kafkas.start(["kafka-2"])
