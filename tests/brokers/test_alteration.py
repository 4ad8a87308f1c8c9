"""Everything on real Kafka and real CometBFT: failures in mid-stream, then an altered stored record.

Three Kafka clusters, one for each storage party; four validators of CometBFT; a validated topic, and one
that is not. What is altered is altered in Kafka's own files, with Kafka's checksums mended.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.brokers.comet import addresses, running
from tests.brokers.segments import alter, checksum
from tests.brokers.streams import PATIENCE_S, UNVALIDATED, VALIDATED, Stream, create, pull, value_of
from tests.kabis.session.console import Console, Ended, opened
from veristream.brokers.cometbft import CometNetwork
from veristream.brokers.kafka import KafkaClusters
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ledger.event_receipts import EventReceipt
from veristream.kabis.log.kafka.frames import decode_frame, encode_frame
from veristream.kabis.log.kafka.log import topic_of
from veristream.kabis.protocol.members import Memberships

pytestmark = [pytest.mark.brokers, pytest.mark.xdist_group("kafka")]

VICTIM = "storage-1"


def audit(data: Path, *words: str) -> Ended:
    """Runs the command as a user does, with its own Spark."""
    command = [sys.executable, "-m", "veristream.cli", "kabis", "audit", "--data", str(data), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5 * PATIENCE_S, check=False)
    return Ended(done.returncode, done.stdout, done.stderr)


def audited(data: Path, code: int) -> dict[str, Any]:
    ended = audit(data, "--master", "local[2]", "--json")
    assert ended.code == code, ended.output + ended.told
    report: dict[str, Any] = json.loads(ended.output)
    return report


@dataclass(frozen=True, slots=True)
class Scene:
    """A Kabis cluster on Kafka and CometBFT, with a validated and an unvalidated topic."""

    console: Console
    kafkas: KafkaClusters
    network: CometNetwork
    orders: str
    clicks: str

    @property
    def access(self) -> Access:
        return Access(ClusterFolder(self.console.data))

    def kafka_of(self, party: str) -> str:
        """Returns the Kafka cluster that has the log of a party."""
        bootstrap = self.access.kafka()[party].bootstrap
        return next(name for name in self.kafkas.names() if self.kafkas.address(name) == bootstrap)

    @contextmanager
    def stopped(self, party: str) -> Iterator[Path]:
        """What the Kafka of a party keeps, while neither it nor Kabis runs; Kafka runs afterwards."""
        self.console.do("down")
        kafka = self.kafka_of(party)
        self.kafkas.stop([kafka])
        yield self.kafkas.folder / kafka / "data"
        self.kafkas.start([kafka])


@pytest.fixture
def scene(kafkas: KafkaClusters, tmp_path: Path) -> Iterator[Scene]:
    kafkas.start()
    stores = ",".join(kafkas.address(name) for name in kafkas.names())
    with running(tmp_path / "cometbft") as network, opened(tmp_path / "kabis") as console:
        nodes = ",".join(addresses(network))
        console.do("up", "--detach", "--storage", f"kafka={stores}", "--ordering", f"cometbft={nodes}")
        orders, clicks = create(console, "--partitions", 2), create(console, "--unvalidated")
        yield Scene(console, kafkas, network, orders, clicks)
    kafkas.start()


def push_in_trouble(scene: Scene) -> Stream:
    """Pushes events to both topics while a validator and their Kafka cluster are stopped and restarted."""
    kafka = scene.kafka_of(Memberships(scene.access.genesis.members).party_of(scene.clicks))
    with Stream(scene.access, {scene.orders: 2, scene.clicks: 1}) as stream:
        stream.settle()
        scene.network.kill("cometbft-4")
        stream.settle()
        scene.kafkas.stop([kafka])
        stream.settle(scene.orders)
        scene.kafkas.start([kafka])
        stream.settle()
        scene.network.start(["cometbft-4"])
        stream.settle()
    return stream


def find_vouched(stream: Stream, topic: str, numbers: Iterable[int]) -> tuple[int, EventReceipt]:
    """Returns the first of these events for which the victim signed a storage receipt, and its receipt."""
    for number in numbers:
        receipt = stream.pushed[topic][number].result(0).receipt()
        if VICTIM in [each.party for each in receipt.submit.receipts]:
            return number, receipt
    raise AssertionError(f"{VICTIM} signed no receipt")


def spoil(value: bytes) -> Callable[[int, bytes], bytes]:
    """Alters an event in a message of a party's log, and nothing else."""
    return lambda _, message: message.replace(value, value.upper())


def spoil_and_mend(value: bytes) -> Callable[[int, bytes], bytes]:
    """Alters an event in a message of a party's log, and corrects the party's own checksum, too."""
    return lambda offset, message: encode_frame(
        offset, decode_frame(offset, message).replace(value, value.upper())
    )


def accusation(kind: str, receipt: EventReceipt, detail: str) -> dict[str, object]:
    """Returns what the audit must report for the batch of an event."""
    header = receipt.submit.signed.header
    return {
        "kind": kind,
        "role": "storage",
        "accused": VICTIM,
        "topic": header.topic,
        "partition": header.partition,
        "producer": header.producer,
        "key_epoch": header.key_epoch,
        "sequence": header.first_sequence,
        "count": header.count,
        "height": receipt.block.header.height,
        "detail": detail,
    }


def test_the_checksum_is_castagnolis() -> None:
    assert checksum(b"123456789") == 0xE3069283


def test_trouble_costs_nothing_and_what_was_altered_is_named(scene: Scene) -> None:
    """One record with all checksums corrected, and one with all but the party's own."""
    stream = push_in_trouble(scene)
    count = len(stream.pushed[scene.orders])
    stream.require_all(scene.access, scene.orders, VALIDATED)
    stream.require_all(scene.access, scene.clicks, UNVALIDATED)
    report = audited(scene.console.data, 0)
    assert (report["findings"], report["checked"]["events"]) == ([], count)
    told = audit(scene.console.data, "--files").told
    assert "the logs of storage-1, storage-2, storage-3 are in Kafka, and CometBFT has the blocks" in told

    altered, altered_receipt = find_vouched(stream, scene.orders, reversed(range(count)))
    damaged, damaged_receipt = find_vouched(stream, scene.orders, range(count))
    topic = topic_of(scene.access.genesis.chain_id, VICTIM)
    with scene.stopped(VICTIM) as data:
        for number, change in ((altered, spoil_and_mend), (damaged, spoil)):
            value = value_of(scene.orders, number)
            offset = alter(data / f"{topic}-0", value, change(value))
    refused = scene.console("up", "--detach")
    assert refused.code == 3
    assert f"the topic {topic} of Kafka at" in refused.told
    assert f"is damaged at offset {offset}: its checksum is wrong" in refused.told

    scene.console.do("up", "--detach", "--repair")
    report = audited(scene.console.data, 1)
    assert report["findings"] == [
        accusation("altered", altered_receipt, "the returned events are not those that were signed"),
        accusation("withheld", damaged_receipt, "it signed a receipt for the batch but does not return it"),
    ]
    assert report["checked"]["events"] == count
    stream.require_all(scene.access, scene.orders, VALIDATED)


def test_kafka_serves_what_was_altered_and_nobody_notices_where_nothing_is_validated(scene: Scene) -> None:
    """Shows that Kafka cannot detect the alteration, and the limit of unvalidated topics."""
    with Stream(scene.access, {scene.clicks: 1}) as stream:
        stream.settle()
    count, before = len(stream.pushed[scene.clicks]), value_of(scene.clicks, 0)
    party = Memberships(scene.access.genesis.members).party_of(scene.clicks)
    with scene.stopped(party) as data:
        assert alter(data / f"{scene.clicks}-0", before, spoil(before)) == 0
    settings = {
        "bootstrap.servers": scene.access.kafka()[party].bootstrap,
        "group.id": "anybody",
        "check.crcs": True,
    }
    plain = Consumer(settings)
    plain.assign([TopicPartition(scene.clicks, 0, 0)])
    (message,) = plain.consume(1, PATIENCE_S)
    plain.close()
    assert (message.error(), message.value()) == (None, before.upper())
    scene.console.do("up", "--detach")
    events = pull(scene.access, scene.clicks, count, UNVALIDATED)
    expected = [before.upper(), *(value_of(scene.clicks, number) for number in range(1, count))]
    assert [event.value for event in events] == expected
