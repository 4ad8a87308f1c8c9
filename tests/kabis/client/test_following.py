"""Following the chain to its end: the time limit, the progress, and what is said at the end."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.kabis.client.world import author_of, make_cluster
from tests.kabis.ordering.steady import run_steadily
from veristream.cli.kabis.work import opening
from veristream.kabis.channels.interfaces import Channels, Connect
from veristream.kabis.client.administration import Replica, visit
from veristream.kabis.client.consumer.consumer import AsyncKabisConsumer
from veristream.kabis.client.following import Progress, StalledError
from veristream.kabis.client.producer.producer import AsyncKabisProducer
from veristream.kabis.cluster import status
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.protocol.actions import SetTopic
from veristream.kabis.protocol.blocks import CertifiedBlock
from veristream.kabis.protocol.genesis import to_json
from veristream.kabis.protocol.outcomes import Done
from veristream_testing.simulation.memory import MemoryCluster, MemoryOrdering

PAUSE_S = 0.1
PATIENCE_S = 0.3
HEIGHT = 10


def make_long() -> MemoryCluster:
    """A chain of ten blocks."""
    cluster = make_cluster()
    while cluster.ledger.height < HEIGHT:
        assert cluster.act("admin", SetTopic(f"more-{cluster.ledger.height}", 1, validated=True)) == Done()
    return cluster


class Slow(MemoryOrdering):
    """Takes longer for all blocks together than the time limit."""

    async def follow(self, height: int) -> AsyncIterator[CertifiedBlock]:
        async for certified in super().follow(height):
            await asyncio.sleep(PAUSE_S)
            yield certified


class Stopping(MemoryOrdering):
    """Returns the first two blocks."""

    async def follow(self, height: int) -> AsyncIterator[CertifiedBlock]:
        for certified in self._cluster.blocks[height - 1 : 2]:
            yield certified
        raise TimeoutError("it is slow")


def connecting(cluster: MemoryCluster, kind: type[MemoryOrdering]) -> Connect:
    async def connect() -> Channels:
        return Channels(cluster.channels(author_of("alice")).storage, kind(cluster))

    return connect


def test_the_time_limit_counts_from_the_last_progress_which_is_shown() -> None:
    cluster, shown = make_long(), list[Progress]()
    connect = connecting(cluster, Slow)

    async def test() -> None:
        consumer = AsyncKabisConsumer(cluster.genesis, None, connect)
        consumer.show_opening(shown.append)
        await consumer.open(PATIENCE_S)
        await consumer.close()
        producer = AsyncKabisProducer(cluster.genesis, author_of("alice"), connect)
        await producer.open(PATIENCE_S)
        await producer.close()
        replica = Replica(cluster.genesis, await connect())
        await replica.follow_to_end(PATIENCE_S)
        assert replica.progress == Progress(HEIGHT, HEIGHT)

    run_steadily(test)
    assert shown == [Progress(height, HEIGHT) for height in range(HEIGHT + 1)]


def test_who_stops_says_how_far_it_came_and_why() -> None:
    cluster = make_long()
    connect = connecting(cluster, Stopping)
    words = "followed 2 of 10 blocks, then no validator returned block 3 for 0.3 s: it is slow"

    async def test() -> None:
        consumer = AsyncKabisConsumer(cluster.genesis, None, connect)
        with pytest.raises(StalledError, match=words):
            await consumer.open(PATIENCE_S)
        await consumer.close()

    async def work(replica: Replica) -> None:
        raise AssertionError("the chain was not followed to its end")

    run_steadily(test)
    with pytest.raises(StalledError, match=words):
        visit(cluster.genesis, connect, work, timeout_s=PATIENCE_S)


def test_a_status_without_time_for_the_whole_chain_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cluster, found, folder = make_long(), list[object](), ClusterFolder(tmp_path)
    folder.genesis_path.write_text(to_json(cluster.genesis), encoding="utf-8")
    monkeypatch.setattr(status, "LEDGER_S", 0.35)

    async def test() -> None:
        for ordering in (Slow(cluster), Stopping(cluster), MemoryOrdering(cluster)):
            found.append(await status._ask_groups(folder, cast(Any, ordering)))

    run_steadily(test)
    slow, stopping, good = found
    assert re.fullmatch(r"followed [1-9] of 10 blocks within 0.35 s", str(slow))
    assert "followed 2 of 10 blocks" in str(stopping)
    assert good == ()


def test_the_line_of_an_opening_appears_on_terminals_and_goes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(opening, "QUIET_S", 0.0)
    monkeypatch.setattr(opening, "REFRESH_S", 0.0)
    with opening.showing_opening() as show:
        show(Progress(1, 2_000))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with opening.showing_opening() as show:
        show(Progress(1_500, 2_000))
        show(Progress(2_000, 2_000))
    assert capsys.readouterr().err == "\r\x1b[Kfollowed 1,500 of 2,000 blocks\r\x1b[K"
