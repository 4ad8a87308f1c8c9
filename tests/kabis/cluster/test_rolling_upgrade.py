"""A cluster of an older version is upgraded while it works: parties first, then clients, then the chain.

Every process begins with the code of the older commit. One party after another is stopped and started with
the present program, while producers and a consumer of the older one go on. Then they are replaced too, and
`veristream kabis upgrade` activates the present protocol version.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.kabis.kills.consuming import read_delivered
from tests.kabis.kills.files import check_files
from tests.kabis.kills.notes import Notes, NotesReader
from tests.kabis.kills.oracle import Delivered, find_problems
from tests.kabis.kills.producing import PARTITIONS, PATIENCE_S, TOPIC
from tests.kabis.kills.trial import of_partition, places_of, pull_all, reading
from tests.kabis.older import ROOT, Older, unpack_older
from tests.kabis.session.console import Console
from veristream.kabis.client.administration import Replica, visit
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.ledger.state import Protocol
from veristream.kabis.protocol.genesis import VERSION_MAX

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("kabis-upgrade")]

PRODUCERS = ("anna", "bert")
CONSUMER = "consumer"
EVENTS_PER_STEP = 3
FOUND = f"""
import sys
from pathlib import Path
from veristream.kabis.client.administration import act_all
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.cluster import Cluster, StartOptions
from veristream.kabis.cluster.folder import ADMIN, ClusterFolder
from veristream.kabis.protocol.actions import RegisterKey, SetTopic
from veristream.kabis.protocol.transactions import prove_possession

folder = ClusterFolder(Path(sys.argv[1]))
cluster = Cluster(folder)
cluster.create()
cluster.start(StartOptions(attended=False))
access = Access(folder)
actions = [SetTopic({TOPIC!r}, {PARTITIONS}, validated=True)]
for name in sys.argv[2:]:
    key = folder.add_client(name)
    proof = prove_possession(access.genesis.chain_id, name, 0, key)
    actions.append(RegisterKey(name, 0, key.public, proof))
act_all(access.genesis, access.admin(), access.author(ADMIN), actions)
"""
"""The older version makes the folder, starts all parties and leaves them running."""


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"{what} does not come"
        time.sleep(0.05)


@dataclass
class Load:
    """Producers that push without end and a consumer that reads it all, each of either version."""

    cluster: Path
    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    deliveries: list[Path] = field(default_factory=list)
    readers: dict[str, NotesReader] = field(init=False)

    def __post_init__(self) -> None:
        self.readers = {name: NotesReader(self.folder / name) for name in PRODUCERS}

    def start(self, name: str, older: Older | None) -> None:
        """Starts a client, with the code of the older version if that is given."""
        if name == CONSUMER:
            self.deliveries.append(self.folder / f"delivered-{len(self.deliveries)}")
            words = ["tests.kabis.kills.consuming", str(self.cluster), name, str(self.deliveries[-1])]
        else:
            words = ["tests.kabis.kills.producing", str(self.cluster), name, str(self.folder / name)]
        if older is not None:
            self.running[name] = older.start(["-m", *words], self.log(name))
            return
        with self.log(name).open("ab") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", *words], stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=ROOT
            )

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.communicate(timeout=PATIENCE_S)

    def told(self) -> dict[str, Notes]:
        return {name: reader.read() for name, reader in self.readers.items()}

    def delivered(self) -> list[Delivered]:
        """What the consumer that runs, or the last one, was delivered."""
        return read_delivered(self.deliveries[-1])

    def wait_for_more(self) -> None:
        """Waits until producers are told of events that they push now, and the consumer has them."""
        goals = {
            name: max(notes.pushed, default=0) + EVENTS_PER_STEP
            for name, notes in self.told().items()
            if name in self.running
        }

        def is_done() -> bool:
            self.require_alive()
            told, places = self.told(), places_of(self.delivered())
            return all(told[name].acknowledged.get(goal) in places for name, goal in goals.items())

        wait_for(is_done, "more")

    def require_alive(self) -> None:
        for name, process in self.running.items():
            assert process.poll() is None, self.log(name).read_text(encoding="utf-8")


@contextmanager
def working(cluster: Path, folder: Path, older: Older) -> Iterator[Load]:
    """Clients of the older version that work; whoever runs in the end is killed."""
    folder.mkdir()
    load = Load(cluster, folder)
    try:
        for name in (*PRODUCERS, CONSUMER):
            load.start(name, older)
        load.wait_for_more()
        yield load
    finally:
        for name in list(load.running):
            load.kill(name)


def protocol_of(cluster: Cluster) -> Protocol:
    access = Access(cluster.folder)

    async def tell(replica: Replica) -> Protocol:
        return replica.ledger.protocol

    return visit(access.genesis, access.admin(), tell)


def is_present(cluster: Cluster, name: str) -> bool:
    """Whether a party runs as the present program starts it; the older one has no settings."""
    running = cluster.find()[name]
    return "--settings" in running.command


def require_whole(load: Load, cluster: Cluster) -> None:
    """Everything acknowledged is there once and in order, for a consumer of today and for the older one."""
    told = load.told()
    wanted = {place for notes in told.values() for place in notes.acknowledged.values()}
    with reading(cluster.folder) as consumer:
        delivered = pull_all(consumer, wanted, PATIENCE_S)
    assert find_problems(told, delivered) == []
    for path in load.deliveries:
        earlier = read_delivered(path)
        for partition in range(PARTITIONS):
            ours, theirs = (of_partition(each, partition) for each in (delivered, earlier))
            assert theirs
            assert theirs[: len(ours)] == ours[: len(theirs)], path.name


def test_parties_then_clients_then_the_chain_are_upgraded_under_load(tmp_path: Path) -> None:
    older = unpack_older(tmp_path / "older")
    cluster = Cluster(ClusterFolder(tmp_path / "cluster"))
    try:
        older.run(FOUND, str(cluster.folder.path), *PRODUCERS)
        validators, storage = (
            [party.name for party in parties]
            for parties in (cluster.genesis.validators, cluster.genesis.storage)
        )
        with working(cluster.folder.path, tmp_path / "clients", older) as load:
            for name in interleave(validators, storage):
                assert not is_present(cluster, name)
                assert cluster.stop([name]) == [name]
                load.wait_for_more()
                cluster.start(names=[name])
                assert is_present(cluster, name)
                load.wait_for_more()
            assert protocol_of(cluster) == Protocol(1)
            for name in (*PRODUCERS, CONSUMER):
                load.kill(name)
                load.start(name, None)
                load.wait_for_more()
            assert Console(cluster.folder.path).do("upgrade").output.startswith("protocol version ")
            wait_for(lambda: protocol_of(cluster) == Protocol(VERSION_MAX), "the present version")
            load.wait_for_more()
            for name in PRODUCERS:
                load.kill(name)
            require_whole(load, cluster)
        assert cluster.ended() == {}
        cluster.stop()
        assert check_files(cluster.folder).protocol == Protocol(VERSION_MAX)
        for name in (*validators, *storage):
            assert "Traceback" not in (cluster.folder_of(name) / "log.txt").read_text(encoding="utf-8")
    finally:
        cluster.stop()


def interleave(validators: Sequence[str], storage: Sequence[str]) -> list[str]:
    """A storage party after each validator: both kinds are mixed while the other one is."""
    pairs = [*zip(validators, storage, strict=False)]
    return [name for pair in pairs for name in pair] + [*validators[len(pairs) :], *storage[len(pairs) :]]
