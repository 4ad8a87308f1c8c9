"""Measures Kabis' wire protocol and storage on one machine: round trips, throughput, durable batches.

All traffic goes over loopback to another process. The benchmark compares `asyncio` with `uvloop`, used on
both sides, and frames with a MAC with encrypted ones and with TLS. The server's quotas are lifted, or they
would be what is measured. CPU time is of both sides together, in one process. A batch has 1,000 events of
100 bytes; to store it, the party verifies, writes and flushes it, and confirms it with a signed receipt.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from statistics import median
from typing import Any

from _measure import finish, say, table

from veristream.kabis.log.disk.log import Flush, Log, LogOptions
from veristream.kabis.operations.certificates import Authority, Period, draw_key, encode_key
from veristream.kabis.protocol.batch import Stream, build_batch
from veristream.kabis.protocol.codec import ZERO_DIGEST
from veristream.kabis.protocol.genesis import Genesis, Party, StorageMode
from veristream.kabis.protocol.keys import make_key
from veristream.kabis.protocol.records import encode_leaf
from veristream.kabis.storage.client import StorageClient
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.party import StorageParty
from veristream.kabis.wire.endpoints import Address, Connection, Handlers, Limits, Quotas, connect, serve
from veristream.kabis.wire.handshake import Identity, Peer, Role
from veristream.kabis.wire.tls import Tls

CHAIN = "bench"
STORE, ALICE = make_key(b"s" * 32), make_key(b"a" * 32)
SERVER = Identity(CHAIN, Role.STORAGE, "store", STORE)
CLIENT = Identity(CHAIN, Role.PRODUCER, "alice", ALICE)
LOOPBACK = Address("127.0.0.1", 0)
EVENTS, EVENT_BYTES, BATCHES_IN_FLIGHT = 1000, 100, 8
FRAME_BYTES = 64 << 10
UNLIMITED = Limits(quotas=Quotas(bytes_per_s=1e12, requests_per_s=1e9, handshakes_per_s=1e9))
MAC, ENCRYPTED, TLS = "MAC", "encrypted", "TLS"

Measure = Callable[[Connection, int], Coroutine[Any, Any, float]]


def run_on(loop: str, main: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine on the named event loop."""
    factory = None
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def serve_until_told(loop: str, folder: str | None, flush: Flush, tls: Tls | None, pipe: Pipe) -> None:
    """Runs in the other process: echoes the start of each request, or stores it, until told to stop."""

    async def shorten(_peer: Peer, body: bytes) -> bytes:
        return body[:100]

    async def main() -> None:
        tasks, handlers = [], Handlers(shorten)
        if folder is not None:
            log = Log(Path(folder), LogOptions(flush=flush))
            party = StorageParty(StorageCore(genesis(), "store", STORE, log), log)
            tasks, handlers = [asyncio.create_task(party.committer.run())], party.handlers
        server = await serve(LOOPBACK, replace(SERVER, tls=tls), lambda _peer: None, handlers, UNLIMITED)
        pipe.send(server.address)
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        await server.close()
        for task in tasks:
            task.cancel()

    run_on(loop, main())


@contextmanager
def other_process(
    loop: str, folder: str | None = None, flush: Flush = Flush.ALWAYS, tls: Tls | None = None
):
    """Starts a server in a separate process; yields its address."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve_until_told, args=(loop, folder, flush, tls, there)
    )
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("stop")
        process.join(10)
        process.kill()


def certify(folder: Path) -> Tls:
    """Returns TLS with a new certificate for this machine."""
    authority, key = Authority("bench", draw_key()), draw_key()
    certificate, period = folder / "certificate.pem", Period.of_days(1)
    certificate.write_text(authority.certify("store", key.public, [LOOPBACK.host], period))
    (folder / "key.pem").write_text(encode_key(key))
    return Tls(authority.certify_itself(period), certificate, folder / "key.pem")


def genesis() -> Genesis:
    """Returns the genesis of a chain with one party of each kind."""
    one = (Party("store", STORE.public),)
    return Genesis(CHAIN, 0, 0, StorageMode.TOLERANT, one, one, one, (Party("alice", ALICE.public),))


async def one_by_one(connection: Connection, count: int) -> float:
    """Returns sequential round trips per second."""
    began = time.perf_counter()
    for _ in range(count):
        await connection.request(b"x" * 100)
    return count / (time.perf_counter() - began)


async def in_flight(connection: Connection, count: int, body: bytes = b"x" * 100, width: int = 64) -> float:
    """Returns round trips per second with `width` in flight."""

    async def some() -> None:
        for _ in range(count // width):
            await connection.request(body)

    began = time.perf_counter()
    await asyncio.gather(*(some() for _ in range(width)))
    return count // width * width / (time.perf_counter() - began)


async def megabytes(connection: Connection, count: int) -> float:
    """Returns megabytes per second in frames of 64 KiB, with 16 in flight."""
    return await in_flight(connection, count, bytes(FRAME_BYTES), 16) * FRAME_BYTES / 1e6


def measure_wire(loop: str, kind: str, runs: int, scale: int) -> dict[str, float]:
    """Measures the wire protocol on one event loop, with one kind of protection."""
    measures: list[tuple[str, Measure, int]] = [
        ("round_trips_per_s", one_by_one, 500 * scale),
        ("in_flight_per_s", in_flight, 2_000 * scale),
        ("megabytes_per_s", megabytes, 200 * scale),
    ]

    async def main(address: Address) -> dict[str, float]:
        client = replace(CLIENT, tls=tls)
        connection = await connect(address, client, SERVER.peer, encrypt=kind == ENCRYPTED)
        found = {
            name: median([await measure(connection, count) for _ in range(runs)])
            for name, measure, count in measures
        }
        connection.close()
        return found

    with tempfile.TemporaryDirectory() as folder:
        tls = certify(Path(folder)) if kind == TLS else None
        with other_process(loop, tls=tls) as address:
            figures: dict[str, float] = run_on(loop, main(address))
    return figures


def measure_cpu(loop: str, kind: str, runs: int, scale: int) -> dict[str, float]:
    """Measures microseconds of CPU time of both sides for a small and a large request and a connection."""

    async def shorten(_peer: Peer, body: bytes) -> bytes:
        return body[:100]

    async def main(tls: Tls | None) -> dict[str, float]:
        handlers, client = Handlers(shorten), replace(CLIENT, tls=tls)
        server = await serve(LOOPBACK, replace(SERVER, tls=tls), lambda _peer: None, handlers, UNLIMITED)

        async def open_one() -> Connection:
            return await connect(server.address, client, SERVER.peer, encrypt=kind == ENCRYPTED)

        async def reconnect(_connection: Connection, count: int) -> None:
            for _ in range(count):
                each = await open_one()
                each.close()
                await each.lost

        connection, found = await open_one(), {}
        for name, work, count in (
            ("small_us", in_flight, 640 * scale),
            ("large_us", megabytes, 160 * scale),
            ("connect_us", reconnect, 20 * scale),
        ):
            taken = []
            for _ in range(runs):
                began = time.process_time()
                await work(connection, count)
                taken.append((time.process_time() - began) / count * 1e6)
            found[name] = median(taken)
        connection.close()
        await server.close()
        return found

    with tempfile.TemporaryDirectory() as folder:
        figures: dict[str, float] = run_on(loop, main(certify(Path(folder)) if kind == TLS else None))
    return figures


def measure_storage(loop: str, flush: Flush, batches: int) -> dict[str, float]:
    """Measures batches and events per second that one party confirms, and the client's cost."""
    stream = Stream(CHAIN, "topic", 0, "alice", 0)
    leaves = [encode_leaf(b"key", bytes(EVENT_BYTES)) for _ in range(EVENTS)]
    made = [build_batch(stream, EVENTS * n, ZERO_DIGEST, leaves, ALICE) for n in range(batches)]
    ready = [(batch.encode(), batch.digest()) for batch in made]

    async def main(address: Address) -> float:
        client = StorageClient(CLIENT, Party("store", STORE.public, str(address)), 60.0)
        await client.status()
        room = asyncio.Semaphore(BATCHES_IN_FLIGHT)

        async def store(data: bytes, digest: bytes) -> None:
            async with room:
                await client.store(data, digest)

        began = time.perf_counter()
        await asyncio.gather(*(store(*each) for each in ready))
        taken = time.perf_counter() - began
        await client.close()
        return taken

    with tempfile.TemporaryDirectory() as folder, other_process(loop, folder, flush) as address:
        seconds = run_on(loop, main(address))
    return {"batches_per_s": batches / seconds, "events_per_s": batches * EVENTS / seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use fewer and shorter runs")
    quick = bool(parser.parse_args().quick)
    runs, scale = (1, 2) if quick else (3, 10)
    wire, cpu = {}, {}
    for loop in ("asyncio", "uvloop"):
        for kind in (MAC, ENCRYPTED, TLS):
            name = f"{loop}, {kind}"
            say(f"wire: {name} ...")
            wire[name] = measure_wire(loop, kind, runs, scale)
            cpu[name] = measure_cpu(loop, kind, runs, scale)
    head = ("wire", "one by one/s", "64 in flight/s", "MB/s")
    table(
        "over loopback", head, [[name, *(f"{v:,.0f}" for v in row.values())] for name, row in wire.items()]
    )
    head = ("CPU time of both sides, us", "100 B", "64 KiB", "connection")
    table(
        "in one process", head, [[name, *(f"{v:,.0f}" for v in row.values())] for name, row in cpu.items()]
    )
    stored = {}
    for flush in (Flush.ALWAYS, Flush.NEVER):
        say(f"storage: flush {flush.value} ...")
        stored[flush.value] = measure_storage("uvloop", flush, 20 * scale)
    rows = [[name, *(f"{value:,.0f}" for value in row.values())] for name, row in stored.items()]
    table("one storage party, uvloop", ("flush", "batches/s", "events/s"), rows)
    plain, fast = wire["asyncio, MAC"], wire["uvloop, MAC"]
    ratios = {
        "uvloop_over_asyncio": fast["in_flight_per_s"] / plain["in_flight_per_s"],
        "tls_over_mac": wire["uvloop, TLS"]["megabytes_per_s"] / fast["megabytes_per_s"],
        "encrypted_over_mac": wire["uvloop, encrypted"]["megabytes_per_s"] / fast["megabytes_per_s"],
    }
    finish("storage", ratios, {"wire": wire, "cpu_us": cpu, "storage": stored, "quick": quick})


if __name__ == "__main__":
    main()
