"""Group commit: one flush for many, nobody told too early, and a failure told to all."""

from __future__ import annotations

import asyncio
import threading

import pytest

from veristream.kabis.log.disk.files import Failed
from veristream.kabis.storage.commit import Committer


class SlowLog:
    """A log whose flushes wait to be let through; `syncs` says how far each of them reached."""

    def __init__(self) -> None:
        self.end = 0
        self.syncs: list[int] = []
        self.gate = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.failure: Failed | None = None

    def append(self) -> int:
        self.end += 1
        return self.end - 1

    def sync(self) -> int:
        reached = self.end
        self.begun.release()
        assert self.gate.acquire(timeout=30)
        if self.failure is not None:
            raise self.failure
        self.syncs.append(reached)
        return reached


async def begun(log: SlowLog) -> None:
    assert await asyncio.to_thread(log.begun.acquire, timeout=30)


def test_whoever_comes_during_a_flush_waits_for_the_next_one() -> None:
    async def test() -> None:
        log = SlowLog()
        committer = Committer(log.sync, 0, 0.001)
        running = asyncio.create_task(committer.run())
        first = [asyncio.create_task(committer.wait_for(log.append())) for _ in range(10)]
        await begun(log)
        late = [asyncio.create_task(committer.wait_for(log.append())) for _ in range(10)]
        log.gate.release()
        await asyncio.gather(*first)
        await begun(log)
        assert not any(task.done() for task in late)
        log.gate.release()
        await asyncio.gather(*late)
        assert log.syncs == [10, 20]
        await committer.wait_for(19)  # at once: it is durable
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(test())


def test_a_log_that_waits_for_its_interval_is_asked_again() -> None:
    async def test() -> None:
        answers = iter([0, 0, 1])
        committer = Committer(lambda: next(answers), 0, 0.001)
        running = asyncio.create_task(committer.run())
        more = asyncio.create_task(committer.wait_for_more())
        await committer.wait_for(0)
        await more
        assert next(answers, None) is None
        running.cancel()
        await asyncio.wait([running])

    asyncio.run(test())


def test_a_failure_reaches_everybody_who_waits_and_all_who_come_later() -> None:
    async def test() -> None:
        log = SlowLog()
        log.failure = Failed("the disk is gone", "")
        committer = Committer(log.sync, 0, 0.001)
        running = asyncio.create_task(committer.run())
        waiting = [asyncio.create_task(committer.wait_for(log.append())) for _ in range(3)]
        await begun(log)
        log.gate.release()
        results = await asyncio.gather(*waiting, running, return_exceptions=True)
        assert results == [log.failure] * 4
        with pytest.raises(Failed, match="the disk is gone"):
            await committer.wait_for(3)

    asyncio.run(test())
