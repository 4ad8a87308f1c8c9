"""A validator as a process.

Run as `python -m veristream.kabis.cluster.validator_process --genesis F --folder D --name V`.

It listens at its address in the genesis, writes it to the ready file when it answers, and stops cleanly on
SIGTERM or SIGINT. After a kill it loses nothing, and never contradicts its earlier votes. Exits with 0
after a clean stop, 2 if the arguments are wrong or it is no validator any more, 3 if the machine fails.

A validator that is not in the genesis is told where to listen. It follows the chain once its membership is
ordered, and votes from the height on at which that is in force. For its next key, if one is ordered, it
looks in the file `key.next` beside its key, which takes the place of `key` once it is in force.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from dataclasses import replace as changed
from functools import partial
from pathlib import Path
from typing import Any

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client.connect import open_ordering
from veristream.kabis.client.known_members import FILE as MEMBERS_FILE
from veristream.kabis.client.known_members import find_handovers, is_known_key
from veristream.kabis.cluster.readings import read_validator
from veristream.kabis.cluster.rejoining import (
    BLOCKS,
    RECORDS,
    is_restored,
    join_by_snapshot,
    mark_restored,
    note_votes,
    rejoin,
    require_votes,
)
from veristream.kabis.ledger.succession import Handover
from veristream.kabis.log.disk.files import flush_folder, replace
from veristream.kabis.log.disk.log import Flush, Log, LogOptions
from veristream.kabis.log.disk.segment import Damaged
from veristream.kabis.ordering.node import Node
from veristream.kabis.ordering.seats import Me, Signers
from veristream.kabis.ordering.service import Service
from veristream.kabis.ordering.snapshots import Retained, SnapshotFolder
from veristream.kabis.ordering.store import BlockStore, RecordStore
from veristream.kabis.ordering.validator import Settings
from veristream.kabis.process.monitor import monitored
from veristream.kabis.process.settings import Settings as ProcessSettings
from veristream.kabis.process.settings import load_settings
from veristream.kabis.process.tls import read_tls
from veristream.kabis.protocol.blocks import TRANSACTION_BYTES_MAX
from veristream.kabis.protocol.genesis import Genesis, load_genesis
from veristream.kabis.protocol.keys import SecretKey, Signer, load_key
from veristream.kabis.protocol.members import MemberRole
from veristream.kabis.wire.endpoints import Address, Server, serve
from veristream.kabis.wire.handshake import Identity, Role
from veristream.kabis.wire.process import run_process
from veristream.kabis.wire.tls import Tls

_LOGGER = logging.getLogger(__name__)

RECORD_SEGMENT_BYTES = 8 << 20
NEXT = ".next"
"""What the name of the file of the next key ends with."""

LOOK_S = 1.0
"""How often to look for the next key without a new block."""
LEAVE_S = 1.0
"""How long the owner of a key that ended may still read, and so learn why."""

MakeNode = Callable[[Genesis, Me, Signers, tuple[BlockStore, RecordStore], Settings], Node]


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of a validator."""

    genesis: Genesis
    name: str
    key: Path
    folder: Path
    listen: Address
    ready: Path
    flush: Flush = Flush.ALWAYS
    settings: Settings = field(default_factory=Settings)
    anonymous: bool = False
    rejoin: bool = False
    process: ProcessSettings = field(default_factory=ProcessSettings)
    metrics_port: int = 0
    tls: Tls | None = None
    members_path: Path | None = None

    @property
    def me(self) -> Me:
        """Its position among the founding validators, or else its name."""
        index = self.genesis.members.index_of(self.name)
        return self.name if index is None else index

    @property
    def next_key(self) -> Path:
        """The file of the key that it will have."""
        return self.key.with_name(f"{self.key.name}{NEXT}")

    def keys(self) -> tuple[SecretKey, ...]:
        """Returns its key, and the next one if there is one."""
        return (load_key(self.key), *([load_key(self.next_key)] if self.next_key.exists() else ()))

    def is_known_key(self) -> bool:
        """Whether its key replaced the former one while it was down, so that its own blocks do not name it.

        The file beside the genesis tells, since only who has read the ledger replaces the key.
        """
        path, public = self.members_path, load_key(self.key).public
        return path is not None and is_known_key(
            path, self.genesis, MemberRole.VALIDATOR, self.name, public
        )

    def handovers(self) -> tuple[Handover, ...]:
        """Returns the changes of the members that the file beside the genesis proves."""
        return find_handovers(self.members_path, self.genesis)

    def identity(self, key: Signer) -> Identity:
        """Returns who it is, with one of its keys."""
        return Identity(self.genesis.chain_id, Role.VALIDATOR, self.name, key, self.tls)


async def run_validator(options: Options, make_node: MakeNode = Node) -> None:
    """Runs the validator until a signal arrives; raises EnvironmentFailure if a log fails.

    If the others have pruned the blocks that it lacks, it takes a snapshot from them and starts again.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if options.rejoin and not is_restored(options.folder):
        mark_restored(options.folder)
    while not stop.is_set():
        await _run_once(options, make_node, stop)


async def _run_once(options: Options, make_node: MakeNode, stop: asyncio.Event) -> None:
    kept = options.process.snapshots
    require_votes(options.folder)
    with (
        _open_log(options, RECORDS, RECORD_SEGMENT_BYTES) as records,  # first, see `require_votes`
        _open_log(options, BLOCKS, kept.segment_bytes) as blocks,
    ):
        note_votes(options.folder)
        for log in (blocks, records):
            if log.recovery.torn is not None:
                _LOGGER.warning("cut off the torn end of a log: %s", log.recovery.torn)
        retained = Retained(kept.every_blocks, kept.keep_blocks)
        snapshots = SnapshotFolder(options.folder / "snapshots")
        stores = (BlockStore(blocks, snapshots, retained), RecordStore(records))
        if is_restored(options.folder) and not await _rejoin(options, stores[0], stop):
            return
        node = make_node(options.genesis, options.me, options.keys(), stores, options.settings)
        _settle_key(options, node)
        await _serve(options, node, stop)


async def _rejoin(options: Options, blocks: BlockStore, stop: asyncio.Event) -> bool:
    """Waits until a restored validator may vote again; returns False if it is stopped before."""
    identity = options.identity(options.keys()[0])
    ordering = open_ordering(options.genesis, identity, handovers=options.handovers())
    replace(options.ready, json.dumps({"validator": options.name, "pid": os.getpid()}).encode() + b"\n")
    rejoining = asyncio.ensure_future(rejoin(options.folder, blocks, ordering, options.genesis))
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([rejoining, stopping], return_when=asyncio.FIRST_COMPLETED)
        if rejoining.done():
            rejoining.result()
        return rejoining.done()
    finally:
        rejoining.cancel()
        stopping.cancel()
        await asyncio.gather(rejoining, stopping, return_exceptions=True)
        await ordering.close()


def _open_log(options: Options, name: str, segment_bytes: int) -> Log:
    """Opens one of the validator's logs; if it is damaged, the hint says how to recover without repair."""
    folder = options.folder / name
    try:
        return Log(folder, LogOptions(segment_bytes, options.flush))
    except Damaged as error:
        hints = {
            BLOCKS: f"move {folder} away and restart the validator: the others have the blocks",
            RECORDS: f"restore the validator from a backup, or move {folder} away and start it once with "
            "--rejoin: without its records it might vote twice",
        }
        raise EnvironmentFailure(error.message, hints[name]) from error


async def _serve(options: Options, node: Node, stop: asyncio.Event) -> None:
    service = Service(node, anonymous=options.anonymous)
    identity = options.identity(node.signer)
    limits = options.process.to_limits()
    frame_bytes_max = TRANSACTION_BYTES_MAX + 1024
    limits = changed(limits, quotas=limits.quotas.of_validator(), client_frame_bytes_max=frame_bytes_max)
    server = await serve(options.listen, identity, service.authorize, service.handlers, limits)
    service.note, service.blame = server.note, server.blame
    stopping = asyncio.create_task(stop.wait())
    leaving = asyncio.create_task(_dismiss(node, server))
    joining = asyncio.create_task(join_by_snapshot(node, identity, options.handovers()))
    changing = asyncio.create_task(_watch_membership(options, node))
    ends: list[asyncio.Future[Any]] = [stopping, leaving, joining, changing, node.failed]
    try:
        node.start(options.tls)
        state = {"validator": options.name, "address": str(server.address), "pid": os.getpid()}
        replace(options.ready, json.dumps(state).encode() + b"\n")
        _LOGGER.info(
            "validator %s listens at %s, height %d", options.name, server.address, node.ledger.height
        )
        read = partial(read_validator, node, service, server, options.folder)
        async with monitored(options.metrics_port, options.name, read):
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in (node.failed, leaving, joining, changing):
            if end.done():
                end.result()
    finally:
        stopping.cancel()
        leaving.cancel()
        joining.cancel()
        changing.cancel()
        await server.close()
        await node.close()


def _settle_key(options: Options, node: Node) -> None:
    """Replaces the key by the next one if that is in force; raises ModelError if it has no key in force.

    A validator that lacks blocks at whose heights it voted, because they were moved away, may have a key
    that is in force later on.
    """
    seats = node.validator.seats
    named = [party.public for party in seats.named()]
    if not named:
        return
    if options.next_key.exists() and load_key(options.next_key).public == named[0]:
        options.next_key.replace(options.key)
        flush_folder(options.key.parent)
        _LOGGER.info("the next key of %s is in force", options.name)
    elif not any(seats.has(public) for public in named) and not options.is_known_key():
        if node.records.height > node.ledger.height + 1:
            _LOGGER.warning("%s lacks blocks, and follows the others until it knows its key", options.name)
            return
        raise ModelError(
            f"the key is not that of {options.name!r} in the genesis or on the ledger",
            hint="name its own key file with --key",
        )


async def _watch_membership(options: Options, node: Node) -> None:
    """Returns when others know the validator by another key, so that it starts again with that.

    Raises ModelError a moment after it has left, so that others still get its last votes and blocks.
    """
    seats = node.validator.seats
    known_by = seats.signer.public
    while True:
        left_at = seats.left_at
        if left_at is not None:
            await asyncio.sleep(LEAVE_S)
            raise ModelError(
                f"{options.name} is no longer a validator since height {left_at}",
                hint="its folder may be deleted; an admin can add it again",
            )
        if options.next_key.exists():  # one that is behind needs it before it knows of the change
            following = load_key(options.next_key)
            if not seats.has(following.public):
                seats.learn(following)
        if seats.signer.public != known_by:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                await node.wait_for_block()


async def _dismiss(node: Node, server: Server) -> None:
    """Closes the connections of keys that a block has ended, a moment later: their owners may read it."""
    while True:
        await node.wait_for_block()
        await asyncio.sleep(LEAVE_S)
        server.recheck()


def read_options(arguments: Sequence[str]) -> Options:
    """Parses the command line; raises ModelError if options contradict each other."""
    parser = argparse.ArgumentParser(prog="veristream.kabis.cluster.validator_process", description=__doc__)
    parser.add_argument("--genesis", type=Path, required=True, help="genesis file of the chain")
    parser.add_argument("--folder", type=Path, required=True, help="folder of blocks and votes")
    parser.add_argument("--name", required=True, help="name of this validator")
    parser.add_argument("--key", type=Path, help="file of its secret key; by default FOLDER/key")
    parser.add_argument("--listen", help="HOST:PORT; by default its address in the genesis")
    parser.add_argument("--ready", type=Path, help="file to write when it answers; by default FOLDER/ready")
    parser.add_argument("--flush", choices=[Flush.ALWAYS.value, Flush.NEVER.value], default="always")
    parser.add_argument("--anonymous", action="store_true", help="allow anonymous clients to read")
    parser.add_argument(
        "--rejoin", action="store_true", help="its votes are lost: vote only where it cannot have voted"
    )
    parser.add_argument("--settings", type=Path, help="kabis.toml with limits and more")
    parser.add_argument("--metrics-port", type=int, default=0, help="loopback port of /metrics and /health")
    given = parser.parse_args(arguments)
    genesis, key = load_genesis(given.genesis), given.key or given.folder / "key"
    load_key(key)
    process = load_settings(given.settings)
    return Options(
        genesis=genesis,
        name=given.name,
        key=key,
        folder=given.folder,
        listen=_find_address(genesis, given.name, given.listen),
        ready=given.ready or given.folder / "ready",
        flush=Flush(given.flush),
        anonymous=given.anonymous,
        rejoin=given.rejoin,
        process=process,
        metrics_port=given.metrics_port,
        tls=read_tls(process, given.settings.parent, given.name) if given.settings else None,
        members_path=given.genesis.with_name(MEMBERS_FILE),
    )


def _find_address(genesis: Genesis, name: str, listen: str | None) -> Address:
    """Returns where to listen; raises ModelError if that, or where another validator does, is not said."""
    me = genesis.members.find(MemberRole.VALIDATOR, name)
    if me is None and listen is None:
        names = ", ".join(party.name for party in genesis.validators)
        raise ModelError(
            f"the genesis has no validator {name!r}",
            hint=f"it has {names}; a later validator needs --listen HOST:PORT",
        )
    for party in genesis.validators:
        if party.name != name:
            _parse(party.address, party.name)
    return _parse(listen or ("" if me is None else me.address), name)


def _parse(address: str, name: str) -> Address:
    try:
        return Address.parse(address)
    except ValueError as error:
        raise ModelError(
            f"address of validator {name!r}: {error}",
            hint="every validator needs an address in the genesis",
        ) from error


def main(arguments: Sequence[str] | None = None, make_node: MakeNode = Node) -> int:
    """Runs a validator; returns the exit status."""
    given = sys.argv[1:] if arguments is None else arguments
    return run_process(lambda: run_validator(read_options(given), make_node))


if __name__ == "__main__":
    sys.exit(main())
