"""A client's checkpoint: no state before it is accepted, and no other block of its height."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kabis.client.world import author_of, make_cluster
from tests.kabis.ordering.steady import run_steadily
from veristream.kabis.channels.interfaces import Channels, OrderingStatus
from veristream.kabis.client import driver
from veristream.kabis.client.checkpoint import Checkpoint, CheckpointError, ForkedChainError
from veristream.kabis.client.consumer.consumer import AsyncKabisConsumer
from veristream.kabis.client.following import StalledError
from veristream.kabis.client.producer.producer import AsyncKabisProducer
from veristream.kabis.ledger.certified import CertifiedHeader
from veristream.kabis.ledger.succession import Succession
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.keys import verify
from veristream.kabis.protocol.receipts import CommitCertificate
from veristream_testing.simulation.memory import MemoryCluster, MemoryOrdering

HEIGHT = 6
PATIENCE_S = 0.3


def make_long(prefix: str = "more") -> MemoryCluster:
    cluster = make_cluster()
    while cluster.ledger.height < HEIGHT:
        cluster.act("admin", SetTopic(f"{prefix}-{cluster.ledger.height}", 1, validated=True))
    return cluster


def header_of(cluster: MemoryCluster, height: int) -> CertifiedHeader:
    certified = cluster.blocks[height - 1]
    return CertifiedHeader(certified.block.header, certified.certificate)


def read(path: Path, cluster: MemoryCluster) -> int:
    return Checkpoint(path, cluster.genesis, verify).height


class Old(MemoryOrdering):
    """A single validator that answers, and hides all blocks after the second."""

    async def status(self) -> OrderingStatus:
        return OrderingStatus(2, 1, enough=False)

    async def follow(self, height: int) -> AsyncIterator[CertifiedBlock]:
        for certified in self._cluster.blocks[height - 1 : 2]:
            yield certified
        raise TimeoutError("it has no more")


def make_client(
    cluster: MemoryCluster,
    path: Path,
    kind: type[MemoryOrdering] = MemoryOrdering,
    *,
    produces: bool = False,
) -> AsyncKabisConsumer | AsyncKabisProducer:
    async def connect() -> Channels:
        return Channels(cluster.channels(author_of("alice")).storage, kind(cluster))

    client: AsyncKabisConsumer | AsyncKabisProducer = (
        AsyncKabisProducer(cluster.genesis, author_of("alice"), connect)
        if produces
        else AsyncKabisConsumer(cluster.genesis, None, connect)
    )
    client.keep_checkpoint(path)
    return client


@pytest.mark.parametrize("produces", [False, True])
def test_a_client_does_not_open_before_its_checkpoint(tmp_path: Path, produces: bool) -> None:
    cluster, path = make_long(), tmp_path / "checkpoints" / "alice"

    async def test() -> None:
        async with make_client(cluster, path, Old, produces=produces):
            pass
        assert read(path, cluster) == 2  # without a checkpoint, it believes the only one that answers
        async with make_client(cluster, path, produces=produces):
            pass
        assert read(path, cluster) == HEIGHT
        with pytest.raises(StalledError, match="followed 2 of 6 blocks"):
            await make_client(cluster, path, Old, produces=produces).open(PATIENCE_S)
        assert read(path, cluster) == HEIGHT

    run_steadily(test)


def test_it_is_written_while_the_client_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CHECKPOINT_EVERY_S", 0.02)
    cluster, path = make_long(), tmp_path / "alice"

    async def test() -> None:
        async with make_client(cluster, path):
            cluster.act("admin", SetTopic("late", 1, validated=True))
            while not path.exists() or read(path, cluster) <= HEIGHT:
                await asyncio.sleep(0.02)

    run_steadily(test)


def test_another_certified_block_of_its_height_stops_the_client(tmp_path: Path) -> None:
    cluster, fork, path = make_long(), make_long("other"), tmp_path / "alice"
    assert cluster.genesis == fork.genesis

    async def test() -> None:
        async with make_client(cluster, path):
            pass
        with pytest.raises(ForkedChainError, match=r"block 6 is .* and the checkpoint says"):
            await make_client(fork, path).open(PATIENCE_S)
        assert path.read_bytes() == header_of(cluster, HEIGHT).encode()

    run_steadily(test)


def test_it_never_goes_back_whoever_writes(tmp_path: Path) -> None:
    cluster, path = make_long(), tmp_path / "alice"
    first, second = (Checkpoint(path, cluster.genesis, verify) for _ in range(2))
    first.keep(header_of(cluster, 5), Succession(cluster.genesis))
    second.keep(header_of(cluster, 3), Succession(cluster.genesis))
    assert read(path, cluster) == 5
    second.keep(header_of(cluster, HEIGHT), Succession(cluster.genesis))
    first.keep(header_of(cluster, 5), Succession(cluster.genesis))
    assert read(path, cluster) == HEIGHT


def cut(data: bytes) -> bytes:
    return data[:-1]


def harm(data: bytes) -> bytes:
    return data[:-1] + bytes((data[-1] ^ 1,))


@pytest.mark.parametrize("change", [cut, harm, lambda _: b""])
def test_a_damaged_checkpoint_is_an_error_and_stays(
    tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    cluster, path = make_long(), tmp_path / "alice"
    bad = change(header_of(cluster, HEIGHT).encode())
    path.write_bytes(bad)

    async def test() -> None:
        with pytest.raises(CheckpointError, match="is not a checkpoint of this chain"):
            await make_client(cluster, path).open(PATIENCE_S)

    run_steadily(test)
    assert path.read_bytes() == bad


def test_a_checkpoint_without_a_quorum_or_of_another_chain_is_an_error(tmp_path: Path) -> None:
    cluster, path = make_long(), tmp_path / "alice"
    good = header_of(cluster, HEIGHT)
    certificate = good.certificate
    assert isinstance(certificate, CommitCertificate)
    path.write_bytes(
        replace(good, certificate=replace(certificate, signatures=certificate.signatures[:1])).encode()
    )
    with pytest.raises(CheckpointError):
        read(path, cluster)
    path.write_bytes(good.encode())
    with pytest.raises(CheckpointError):
        Checkpoint(path, replace(cluster.genesis, chain_id="other"), verify)


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_client(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = make_long()
    (tmp_path / "file").write_bytes(b"")

    async def test() -> None:
        checkpoint = Checkpoint(tmp_path / "alice", cluster.genesis, verify)
        checkpoint._path = tmp_path / "file" / "alice"
        checkpoint.keep(header_of(cluster, HEIGHT), Succession(cluster.genesis))

    run_steadily(test)
    assert "the checkpoint is not written" in caplog.text
