"""A storage party as a process.

Run as `python -m veristream.kabis.cluster.storage_process --folder ... --genesis ...`.

It listens on loopback by default, writes its address to the ready file when it answers, stops cleanly on
SIGTERM or SIGINT, and keeps what it confirmed when it is killed. Exits with 0 after a clean stop, 2 if the
arguments are wrong, 3 if the machine fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.channels.interfaces import Storage
from veristream.kabis.channels.parties import StorageParties
from veristream.kabis.client.connect import open_ordering, open_storage
from veristream.kabis.client.known_members import FILE as MEMBERS_FILE
from veristream.kabis.client.known_members import find_handovers, is_known_key
from veristream.kabis.cluster.readings import read_storage
from veristream.kabis.kafka.settings import KafkaSettings, load_settings, parse_bootstrap
from veristream.kabis.log.disk.files import Full, replace
from veristream.kabis.log.disk.log import Flush, Log, LogOptions
from veristream.kabis.log.disk.repair import repair
from veristream.kabis.log.disk.segment import Damaged
from veristream.kabis.process.monitor import monitored
from veristream.kabis.process.settings import Settings as ProcessSettings
from veristream.kabis.process.settings import load_settings as load_process_settings
from veristream.kabis.process.tls import read_tls
from veristream.kabis.protocol.codec import DecodeError
from veristream.kabis.protocol.genesis import Genesis, load_genesis
from veristream.kabis.protocol.keys import SecretKey, load_key
from veristream.kabis.protocol.members import MemberRole, Party
from veristream.kabis.storage.admission import Gate, WaitingLimits
from veristream.kabis.storage.backfill import Backfill
from veristream.kabis.storage.chain import ChainView, follow_chain
from veristream.kabis.storage.core import StorageCore
from veristream.kabis.storage.late_clients import load_clients
from veristream.kabis.storage.messages import Standing
from veristream.kabis.storage.party import Directory, PartyLog, StorageParty
from veristream.kabis.storage.saved_view import load_view, save_view
from veristream.kabis.storage.seat import Seat
from veristream.kabis.wire.connection import Attached, Handlers, Later, RequestError
from veristream.kabis.wire.endpoints import Address, Server, serve
from veristream.kabis.wire.handshake import Identity, Peer, Role
from veristream.kabis.wire.process import run_process
from veristream.kabis.wire.tls import Tls

_LOGGER = logging.getLogger(__name__)

VIEW_FILE = "chain.view"
SAVE_VIEW_BLOCKS = 1000
"""How many blocks a party that is killed reads again."""
DISMISS_EVERY_S = 1.0
ASK_S = 10.0
"""How long another storage party may take to answer."""

MakeParty = Callable[[StorageCore, PartyLog, float], StorageParty]
Request = TypeVar("Request")


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of a storage party."""

    folder: Path
    genesis: Genesis
    party: str
    key: SecretKey
    listen: Address
    log: LogOptions
    ready: Path | None = None
    retain_bytes: int | None = None
    retain_ms: int | None = None
    retain_every_s: float = 10.0
    clients: Path | None = None
    anonymous: bool = False
    encrypt: bool = False
    repair: bool = False
    follow: bool = False
    kafka: KafkaSettings | None = None
    process: ProcessSettings = field(default_factory=ProcessSettings)
    metrics_port: int = 0
    tls: Tls | None = None
    key_path: Path | None = None
    next_key: SecretKey | None = None
    members_path: Path | None = None

    @property
    def keys(self) -> list[SecretKey]:
        """The party's key, and the one that is to replace it."""
        return [key for key in (self.key, self.next_key) if key is not None]

    def is_known_key(self) -> bool:
        """Whether the file of the members beside the genesis says that the key is the party's."""
        path, public = self.members_path, self.key.public
        return path is not None and is_known_key(path, self.genesis, MemberRole.STORAGE, self.party, public)


async def run_party(options: Options, make_party: MakeParty = StorageParty) -> None:
    """Runs the party until a signal arrives; raises EnvironmentFailure if its log fails."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with _open_log(options) as log:
        if log.recovery.torn is not None:
            _LOGGER.warning("cut off the torn end of the log: %s", log.recovery.torn)
        view = load_view(options.folder / VIEW_FILE, options.genesis)
        gate = Gate(view, WaitingLimits(**asdict(options.process.waiting))) if options.follow else None
        core = open_core(options, log, gate)
        _require_member(options, core.seat)
        if core.lost_count:
            _LOGGER.warning("%d records were lost to damage", core.lost_count)
        party = make_party(core, log, options.log.interval_ms / 1000)
        await _serve(options, party, view, stop)
        with suppress(Full):  # it only saves time
            save_view(options.folder / VIEW_FILE, options.genesis, view)


def open_core(options: Options, log: PartyLog, gate: Gate | None = None) -> StorageCore:
    """Rebuilds the party's state from its log; raises EnvironmentFailure if it has foreign records."""
    try:
        seat = Seat(options.genesis, options.party, options.keys, gate)
        return StorageCore(options.genesis, options.party, seat, log, gate=gate)
    except DecodeError as error:
        raise EnvironmentFailure(
            f"the log of {options.party} in {options.folder} has a foreign record: {error}",
            "open it with the program that wrote it, or use another folder for this party",
        ) from error


def _open_log(options: Options) -> AbstractContextManager[PartyLog]:
    """Opens the party's log, on disk or in Kafka; repairs it first if requested."""
    if options.kafka is not None:
        try:
            from veristream.kabis.log.kafka.log import KafkaLog, KafkaLogOptions, topic_of
        except ModuleNotFoundError as error:
            raise EnvironmentFailure(
                "a log in Kafka needs Kafka's client", "pip install 'veristream[kafka]'"
            ) from error
        topic = topic_of(options.genesis.chain_id, options.party)
        return KafkaLog(options.kafka, topic, options.folder, KafkaLogOptions(repair=options.repair))
    if options.repair and options.folder.is_dir():
        for lost in repair(options.folder):
            _LOGGER.warning("records %d to %d are lost", lost.first, lost.end - 1)
    return Log(options.folder, options.log)


async def _serve(options: Options, party: StorageParty, view: ChainView, stop: asyncio.Event) -> None:
    clients = partial(_list_clients, options.clients) if options.clients else tuple
    directory = Directory(options.genesis, clients, anonymous=options.anonymous, chain=view)
    identity = Identity(options.genesis.chain_id, Role.STORAGE, options.party, party.core.seat, options.tls)
    handlers = Handlers(
        partial(_answer, directory, party.answer),
        answer_attached=partial(_answer, directory, party.answer_attached),
    )
    limits = options.process.to_limits()
    server = await serve(
        options.listen, identity, directory.authorize, handlers, limits, encrypt=options.encrypt
    )
    party.note = server.note
    handovers = find_handovers(options.members_path, options.genesis)
    ordering = open_ordering(options.genesis, identity, handovers=handovers) if options.follow else None
    tasks = [
        asyncio.create_task(party.committer.run()),
        asyncio.create_task(_retain(options, party.core, view)),
        asyncio.create_task(_dismiss(directory, server)),
        asyncio.create_task(_find_next_key(options, party.core.seat)),
        asyncio.create_task(stop.wait()),
    ]
    others = open_storage(options.genesis, identity, ASK_S) if options.follow else None
    if ordering is not None and others is not None:
        seat = party.core.seat
        work = Backfill(party.core, view, party.committer, partial(_donors, seat, others), party.progress)
        tasks += map(asyncio.create_task, (follow_chain(view, ordering), _join(work)))
    try:
        if options.ready is not None:
            state = {"party": options.party, "address": str(server.address), "pid": os.getpid()}
            replace(options.ready, json.dumps(state).encode() + b"\n")
        _LOGGER.info("storage party %s listens at %s", options.party, server.address)
        read = partial(read_storage, party, view, server, options.folder)
        async with monitored(options.metrics_port, options.party, read):
            done, _pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for channel in (ordering, others):
            if channel is not None:
                await channel.close()


def _donors(seat: Seat, others: StorageParties) -> list[Storage]:
    """Returns the other storage parties: those in force first, former ones last."""
    others.follow(seat.memberships, seat.next_height)
    return [party for party in others if party.name != seat.name]


async def _join(work: Backfill) -> None:
    """Copies what the party lacks after each change; it serves as well as it can meanwhile."""
    while True:
        await work.run()


async def _answer(
    directory: Directory,
    answer: Callable[[Peer, Request], Awaitable[bytes | Attached | Later]],
    peer: Peer,
    request: Request,
) -> bytes | Attached | Later:
    """Answers a request, unless the peer's key has become invalid since it connected."""
    directory.require_valid(peer)
    return await answer(peer, request)


async def _dismiss(directory: Directory, server: Server) -> None:
    """Closes the connections of keys that have ended on the chain, as far as it is followed."""

    def explain(peer: Peer) -> str | None:
        try:
            directory.require_valid(peer)
        except RequestError as error:
            return str(error)
        return None

    while True:
        await asyncio.sleep(DISMISS_EVERY_S)
        server.recheck(explain)


async def _find_next_key(options: Options, seat: Seat) -> None:
    """Takes the key that a change of the members names, as soon as it is in the file beside the party's."""
    while True:
        await asyncio.sleep(DISMISS_EVERY_S)
        if not seat.lacks_key:
            continue
        try:
            key = _load_next(options.key_path)
        except (ModelError, EnvironmentFailure) as error:
            _LOGGER.error("%s", error.message)
            continue
        if key is not None and seat.add(key):
            _LOGGER.info("signs with another key from the height that the change names")


async def _retain(options: Options, core: StorageCore, view: ChainView) -> None:
    """Periodically deletes what is below the chain's low-water marks, too old or beyond the size limit."""
    saved = view.height
    while True:
        await asyncio.sleep(options.retain_every_s)
        try:
            if view.height >= saved + SAVE_VIEW_BLOCKS:
                save_view(options.folder / VIEW_FILE, options.genesis, view)
                saved = view.height
            core.let_go(view.marks)
            if core.gate is not None and (removed := core.settle()):
                _LOGGER.info("removed %d batches that can never be admitted", removed)
            core.retain(options.retain_bytes, options.retain_ms)
            core.compact()
        except Full as failure:
            _LOGGER.warning("cannot delete old records: %s", failure.message)
        except Damaged as damage:  # the rest of the log is good, and is served
            _LOGGER.error("cannot delete old records of a segment: %s", damage.render())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="veristream.kabis.cluster.storage_process", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="folder of the log")
    parser.add_argument("--genesis", type=Path, required=True, help="genesis file of the chain")
    parser.add_argument("--party", required=True, help="name of this party in the genesis")
    parser.add_argument("--key", type=Path, required=True, help="file of this party's secret key")
    parser.add_argument("--listen", default="127.0.0.1:0", help="HOST:PORT; port 0 chooses a free one")
    parser.add_argument("--ready", type=Path, help="file to write the address to when the party answers")
    parser.add_argument("--flush", choices=[each.value for each in Flush], default=Flush.ALWAYS.value)
    parser.add_argument("--interval-ms", type=int, default=5, help="with --flush interval")
    parser.add_argument("--segment-bytes", type=int, help="by default as in --settings")
    parser.add_argument("--retain-bytes", type=int, help="delete the oldest records beyond this size")
    parser.add_argument("--retain-ms", type=int, help="delete records older than this")
    parser.add_argument("--retain-every-s", type=float, help="how often to check these limits")
    parser.add_argument("--metrics-port", type=int, default=0, help="loopback port of /metrics and /health")
    parser.add_argument("--settings", type=Path, help="kabis.toml; other options override it")
    parser.add_argument("--follow", action="store_true", help="follow the chain for keys and marks")
    parser.add_argument(
        "--clients", type=Path, help="JSON list of further clients; read again when one connects"
    )
    parser.add_argument("--anonymous", action="store_true", help="allow anonymous clients to read")
    parser.add_argument("--encrypt", action="store_true", help="encrypt every connection")
    parser.add_argument("--repair", action="store_true", help="mark damaged records as lost and continue")
    parser.add_argument("--log", default="disk", help="disk, or kafka=HOST:PORT[,HOST:PORT]")
    parser.add_argument(
        "--kafka-properties", type=Path, help="file of librdkafka properties, such as for SASL and TLS"
    )
    return parser


def read_options(arguments: Sequence[str]) -> Options:
    """Parses the command line; raises ModelError if options contradict each other."""
    given = _parser().parse_args(arguments)
    genesis, key = load_genesis(given.genesis), load_key(given.key)
    if not given.follow:
        _require_founding(genesis, given.party, [key])
    process = load_process_settings(given.settings)
    kept = process.retention
    if given.clients is not None:
        load_clients(given.clients)
    try:
        listen = Address.parse(given.listen)
    except ValueError as error:
        raise ModelError(str(error), hint="for example --listen 127.0.0.1:0") from error
    return Options(
        folder=given.folder,
        genesis=genesis,
        party=given.party,
        key_path=given.key,
        key=key,
        next_key=_load_next(given.key),
        members_path=given.genesis.with_name(MEMBERS_FILE),
        listen=listen,
        ready=given.ready,
        log=LogOptions(given.segment_bytes or kept.segment_bytes, Flush(given.flush), given.interval_ms),
        retain_bytes=given.retain_bytes or kept.bytes_max or None,
        retain_ms=given.retain_ms or kept.age_s * 1000 or None,
        clients=given.clients,
        anonymous=given.anonymous,
        encrypt=given.encrypt,
        repair=given.repair,
        follow=given.follow,
        retain_every_s=given.retain_every_s or kept.every_s,
        process=process,
        metrics_port=given.metrics_port,
        tls=read_tls(process, given.settings.parent, given.party) if given.settings else None,
        kafka=_read_kafka(given.log, given.kafka_properties),
    )


def _read_kafka(log: str, properties: Path | None) -> KafkaSettings | None:
    kind, _, bootstrap = log.partition("=")
    match kind:
        case "disk" if not bootstrap and properties is None:
            return None
        case "kafka" if bootstrap:
            return load_settings(properties, bootstrap) if properties else parse_bootstrap(bootstrap)
    raise ModelError(f"--log {log} is not valid", hint="use --log disk or --log kafka=HOST:PORT")


def _load_next(key_path: Path | None) -> SecretKey | None:
    """Returns the key that replaces a party's, from the file beside it, if there is one."""
    path = None if key_path is None else key_path.with_name(f"{key_path.name}.next")
    return load_key(path) if path is not None and path.is_file() else None


def _require_member(options: Options, seat: Seat) -> None:
    """Raises ModelError if the party can never be a member with its keys.

    A party that follows the chain may be one that has joined, or will; or its key was replaced, and it has
    not saved its view of the chain since.
    """
    if options.follow and not any(party.name == seat.name for party in options.genesis.storage):
        if seat.standing is Standing.STRANGER:
            _LOGGER.info("%s waits until an admin makes it a member", seat.name)
    elif not seat.memberships.has_joined(seat.name) and not options.is_known_key():
        _require_founding(options.genesis, seat.name, options.keys)


def _require_founding(genesis: Genesis, name: str, keys: Sequence[SecretKey]) -> None:
    found = next((party for party in genesis.storage if party.name == name), None)
    if found is None:
        names = ", ".join(party.name for party in genesis.storage)
        raise ModelError(
            f"the genesis has no storage party {name!r}",
            hint=f"it has {names}; a party that joins later needs --follow",
        )
    if found.public not in [key.public for key in keys]:
        raise ModelError(
            f"the key is not that of {name!r} in the genesis", hint="name its own key file with --key"
        )


def _list_clients(path: Path) -> tuple[Party, ...]:
    """Returns the clients in the file; logs a warning and returns none if it cannot be read."""
    try:
        return load_clients(path)
    except (ModelError, EnvironmentFailure) as error:
        _LOGGER.warning("%s", error.message)
        return ()


def main(arguments: Sequence[str] | None = None, make_party: MakeParty = StorageParty) -> int:
    """Runs a storage party; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    return run_process(lambda: run_party(read_options(given), make_party))


if __name__ == "__main__":
    sys.exit(main())
