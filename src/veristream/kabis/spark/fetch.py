"""Reads the parts of a plan from storage parties that may be silent or lie; independent of Spark.

An extended part has the admitted headers. A batch is accepted if it matches its header and its producer
signed the header; otherwise another party is asked. A plain part is read from one trusted party.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager

from veristream.errors import EnvironmentFailure
from veristream.kabis.channels.failures import FAILURES
from veristream.kabis.channels.interfaces import Storage
from veristream.kabis.client.consumed import Consumed, Origin, decode_events
from veristream.kabis.client.driver import LoopThread
from veristream.kabis.client.errors import BelowLowWaterError
from veristream.kabis.client.fetching import (
    Fetcher,
    find_false_signature,
    origin_of,
)
from veristream.kabis.ledger.state import Admission
from veristream.kabis.protocol.answers import Below
from veristream.kabis.protocol.batch import Batch
from veristream.kabis.protocol.keys import verify as verify_signature
from veristream.kabis.protocol.partitions import PartitionName
from veristream.kabis.spark.plan import AdmittedPart, Part, PlainPart

AHEAD_BATCHES = 8
"""Number of batches requested in advance."""
PLAIN_BYTES = 1 << 20

OpenStorage = Callable[[], Awaitable[Sequence[Storage]]]
"""Opens the storage channels in the event loop that will use them."""


async def read_part(
    parties: Sequence[Storage], part: Part, timeout_s: float
) -> AsyncGenerator[list[Consumed], None]:
    """Yields the events of a part in order, in chunks."""
    match part:
        case AdmittedPart():
            reading = _read_admitted(Fetcher(parties, timeout_s), part)
        case PlainPart():
            party = next(each for each in parties if each.name == part.party)
            reading = _read_plain(party, part)
    async with aclosing(reading) as events:
        async for some in events:
            yield some


async def _read_admitted(fetcher: Fetcher, part: AdmittedPart) -> AsyncGenerator[list[Consumed], None]:
    """Yields batches in order while the next ones are being fetched."""
    covered = part.covered
    waiting = deque(part.admissions)
    ahead: deque[tuple[Admission, asyncio.Task[Batch]]] = deque()
    try:
        while waiting or ahead:
            while waiting and len(ahead) < AHEAD_BATCHES:
                admission = waiting.popleft()
                ahead.append((admission, asyncio.create_task(fetcher.fetch(admission))))
            admission, task = ahead[0]
            batch = await task
            ahead.popleft()
            header = admission.signed.header
            forgery = find_false_signature(
                admission, part.keys[header.producer, header.key_epoch], verify_signature
            )
            if forgery is not None:
                raise forgery
            events = decode_events(batch.leaves, admission.first_index, origin_of(admission), None)
            yield [event for event in events if covered.first <= event.index < covered.end]
    finally:
        for _, task in ahead:
            task.cancel()


async def _read_plain(party: Storage, part: PlainPart) -> AsyncGenerator[list[Consumed], None]:
    """Yields the party's events as long as it returns any."""
    covered = part.covered
    place, origin = PartitionName(*covered.place), Origin(*covered.place, None, None, None, None)
    offset = covered.first
    while offset < covered.end:
        try:
            answer = await party.fetch_plain(place, offset, PLAIN_BYTES, 0)
        except FAILURES as error:
            raise _no_answer(party, covered.place[0], str(error)) from error
        if isinstance(answer, Below):
            raise BelowLowWaterError(*covered.place, offset, answer.low_water)
        if not answer.entries:
            raise _no_answer(party, covered.place[0], f"it now ends at {answer.end}, earlier than before")
        for entry in answer.entries:
            events = decode_events(entry.append.leaves, entry.first_offset, origin, None)
            yield [event for event in events if offset <= event.index < covered.end]
            offset = max(offset, entry.first_offset + len(entry.append.leaves))


def _no_answer(party: Storage, topic: str, why: str) -> EnvironmentFailure:
    return EnvironmentFailure(
        f"the storage party {party.name} of {topic} does not return its events: {why or 'no answer'}",
        "check that it runs; a validated topic can be read from all parties with guarantee=extended",
    )


@contextmanager
def reading(reach: OpenStorage, part: Part, timeout_s: float) -> Iterator[Iterator[list[Consumed]]]:
    """Yields the events of a part; for callers without an event loop."""
    thread = LoopThread("kabis-spark-task")
    try:
        parties = thread.run(_reach(reach))
        events = read_part(parties, part, timeout_s)
        try:
            yield _drain(thread, events)
        finally:
            thread.run(_close(parties, events))
    finally:
        thread.stop()


def _drain(thread: LoopThread, events: AsyncGenerator[list[Consumed], None]) -> Iterator[list[Consumed]]:
    async def following() -> list[Consumed] | None:
        return await anext(events, None)

    while (some := thread.run(following())) is not None:
        yield some


async def _reach(reach: OpenStorage) -> Sequence[Storage]:
    return await reach()


async def _close(parties: Sequence[Storage], events: AsyncGenerator[list[Consumed], None]) -> None:
    await events.aclose()
    for party in parties:
        await party.close()
