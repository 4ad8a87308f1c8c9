"""Parses and checks the options of readers and writers; every error names its option.

Spark passes options as text, with case-insensitive names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from veristream.errors import ModelError
from veristream.kabis.channels.interfaces import Connect, Storage
from veristream.kabis.client.connect import open_channels
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.process.settings import Settings, TlsSettings
from veristream.kabis.process.tls import read_tls
from veristream.kabis.protocol.genesis import Genesis, load_genesis
from veristream.kabis.protocol.keys import load_key
from veristream.kabis.protocol.members import Party, is_name
from veristream.kabis.protocol.transactions import Author
from veristream.kabis.spark.plan import EARLIEST, LATEST, Choice, Edge
from veristream.kabis.storage.client import StorageClient
from veristream.kabis.wire.handshake import Identity, Role
from veristream.kabis.wire.tls import Tls

ROWS_PER_TASK = 100_000
TIMEOUT_S = 30.0

_TLS = ("tlsCa", "tlsCertificate", "tlsKey")
_ACCESS = ("cluster", "genesis", "key", "keyEpoch", "client", "timeoutSeconds", *_TLS)
_READ = (*_ACCESS, "topics", "guarantee", "startingIndex", "maxRowsPerTask")
BATCH_READ = (*_READ, "endingIndex")
STREAM_READ = (*_READ, "maxRowsPerTrigger", "failOnDataLoss")
_WRITE = (*_ACCESS, "topic", "journal")
BATCH_WRITE = (*_WRITE, "writerId")
STREAM_WRITE = _WRITE
_OF_SPARK = frozenset({"checkpointlocation"})


class Guarantee(StrEnum):
    """The guarantees of the paper's table 1."""

    BASIC = "basic"
    EXTENDED = "extended"


@dataclass(frozen=True, slots=True)
class Caller:
    """A client and its cluster. It is sent to the tasks with the path of the secret key, not the key.

    `folder` is set if the option `cluster` was used.
    """

    genesis: Genesis
    name: str
    key_path: Path
    key_epoch: int
    timeout_s: float
    folder: ClusterFolder | None = None
    tls: Tls | None = None

    def connect(self, role: Role) -> Connect:
        """Opens both channels as the caller, on the driver."""
        kafka = {} if self.folder is None else Access(self.folder).kafka()
        return partial(open_channels, self.genesis, self._identity(role), self._answer_s, kafka)

    async def reach_storage(self, parties: Iterable[Party]) -> tuple[Storage, ...]:
        """Opens only the channels to these storage parties, which is all that a task needs."""
        identity = self._identity(Role.CONSUMER)
        return tuple(StorageClient(identity, party, self._answer_s) for party in parties)

    def _identity(self, role: Role) -> Identity:
        return Identity(self.genesis.chain_id, role, self.name, load_key(self.key_path), self.tls)

    @property
    def _answer_s(self) -> float:
        """Timeout for one answer of one party."""
        return min(5.0, self.timeout_s)

    def author(self) -> Author:
        """The caller as author of signed events."""
        return Author(self.genesis.chain_id, self.name, self.key_epoch, load_key(self.key_path))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The topics, ranges and sizes of a read."""

    caller: Caller
    topics: tuple[str, ...]
    guarantee: Guarantee
    start: Choice
    end: Choice
    rows_per_task: int
    rows_per_trigger: int | None
    fail_on_data_loss: bool


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The default topic of rows, and where the writer keeps its journal and outbox."""

    caller: Caller
    topic: str | None
    journal: Path
    writer_id: str | None


def read_options(given: Mapping[str, str], known: tuple[str, ...]) -> ReadOptions:
    """Parses the options of a reader; raises ModelError."""
    _require_known(given, known)
    topics = tuple(dict.fromkeys(topic.strip() for topic in given.get("topics", "").split(",")))
    wrong = [topic for topic in topics if not is_name(topic)]
    if wrong:
        raise ModelError(
            f"option topics: {', '.join(map(repr, wrong))} is not a topic name"
            if any(topics)
            else "option topics is missing",
            hint="name one topic or several: .option('topics', 'orders,clicks')",
        )
    limit = given.get("maxRowsPerTrigger")
    return ReadOptions(
        caller=_read_caller(given, "consumer"),
        topics=topics,
        guarantee=_read_guarantee(given.get("guarantee", Guarantee.EXTENDED)),
        start=read_choice("startingIndex", given.get("startingIndex", EARLIEST), topics),
        end=read_choice("endingIndex", given.get("endingIndex", LATEST), topics),
        rows_per_task=_read_count("maxRowsPerTask", given.get("maxRowsPerTask", str(ROWS_PER_TASK))),
        rows_per_trigger=None if limit is None else _read_count("maxRowsPerTrigger", limit),
        fail_on_data_loss=_read_flag("failOnDataLoss", given.get("failOnDataLoss", "true")),
    )


def write_options(given: Mapping[str, str], known: tuple[str, ...]) -> WriteOptions:
    """Parses the options of a writer; raises ModelError."""
    _require_known(given, known)
    caller = _read_caller(given, "producer")
    for option in ("topic", "writerId"):
        value = given.get(option)
        if value is not None and not is_name(value):
            raise ModelError(
                f"option {option}: {value!r} is not a valid name", hint="letters, digits, '.', '_', '-'"
            )
    if "journal" in given:
        journal = Path(given["journal"])
    elif "cluster" in given:
        journal = Path(given["cluster"]) / "journals" / caller.name
    else:
        raise ModelError(
            "option journal is missing",
            hint="without option cluster, name a folder where the driver keeps signed events",
        )
    return WriteOptions(caller, given.get("topic"), journal, given.get("writerId"))


def _require_known(given: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Raises ModelError for an unknown option, which would otherwise be ignored."""
    names = {name.lower(): name for name in known}
    for name in given:
        if name.lower() in names or name.lower() in _OF_SPARK:
            continue
        near = get_close_matches(name.lower(), names, n=1)
        hint = f"did you mean {names[near[0]]}?" if near else f"options are {', '.join(known)}"
        raise ModelError(f"unknown option {name}", hint=hint)


def _read_caller(given: Mapping[str, str], client: str) -> Caller:
    """Reads the caller from the cluster's folder, or from a genesis and a key."""
    timeout_s = _read_seconds("timeoutSeconds", given.get("timeoutSeconds", str(TIMEOUT_S)))
    name = given.get("client", client)
    if ("cluster" in given) == any(option in given for option in ("genesis", "key", "keyEpoch", *_TLS)):
        raise ModelError(
            "option cluster is missing"
            if "cluster" not in given
            else "option cluster excludes genesis and key, and the options of TLS",
            hint="name the folder of a cluster, or a genesis file and the key file of a client",
        )
    if "cluster" in given:
        return _find_caller(ClusterFolder(Path(given["cluster"]).absolute()), name, timeout_s)
    for option in ("genesis", "key", "client"):
        if option not in given:
            raise ModelError(
                f"option {option} is missing", hint="genesis, key and client must be given together"
            )
    path = Path(given["key"]).absolute()
    _told("key", lambda: load_key(path))
    genesis = _told("genesis", lambda: load_genesis(Path(given["genesis"])))
    key_epoch = _read_count("keyEpoch", given.get("keyEpoch", "0"), count_min=0)
    return Caller(genesis, name, path, key_epoch, timeout_s, tls=_read_tls(given))


def _read_tls(given: Mapping[str, str]) -> Tls | None:
    """Reads whom to trust, on the driver; the files of a certificate must be readable on all machines."""
    if ("tlsCertificate" in given) != ("tlsKey" in given):
        raise ModelError("options tlsCertificate and tlsKey must be given together")
    if "tlsCa" not in given:
        if "tlsKey" in given:
            raise ModelError("option tlsCa is missing", hint="name a PEM file of who certifies the parties")
        return None
    paths = [given.get(option, "") for option in _TLS]
    tls: Tls | None = _told("tlsCa", lambda: read_tls(Settings(tls=TlsSettings(*paths)), Path.cwd()))
    return tls


def _find_caller(folder: ClusterFolder, name: str, timeout_s: float) -> Caller:
    """Returns a client of a folder, with its latest key."""
    genesis = _told("cluster", folder.genesis)
    _told("client", lambda: folder.key(name))
    key_epoch = folder.key_epoch(name)
    path, tls = folder.key_path(name, key_epoch), _told("cluster", folder.tls)
    return Caller(genesis, name, path, key_epoch, timeout_s, folder, tls)


def _told(option: str, load: Callable[[], Any]) -> Any:
    """Loads a value; adds the option's name to errors."""
    try:
        return load()
    except ModelError as error:
        raise ModelError(f"option {option}: {error.message}", hint=error.hint) from error


def read_choice(option: str, text: str, topics: tuple[str, ...]) -> Choice:
    """Parses a start or an end: one word for all partitions, or JSON."""
    if text in (EARLIEST, LATEST):
        return Choice(Edge(text), {})
    example = '"earliest", "latest" or JSON like {"orders": {"0": 17, "1": "latest"}}'
    try:
        places = {
            (topic, int(partition)): _read_index(index)
            for topic, partitions in json.loads(text).items()
            for partition, index in partitions.items()
        }
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ModelError(f"option {option}: {text!r} is not valid", hint=f"use {example}") from error
    for topic, _ in places:
        if topic not in topics:
            raise ModelError(f"option {option}: {topic} is not read", hint="add it to option topics")
    return Choice(Edge.EARLIEST if option == "startingIndex" else Edge.LATEST, places)


def _read_index(value: object) -> int | Edge:
    match value:
        case -2:  # as in Spark's Kafka source
            return Edge.EARLIEST
        case -1:
            return Edge.LATEST
        case str():
            return Edge(value)
        case int() if value >= 0 and not isinstance(value, bool):
            return value
    raise ValueError(f"{value!r} is not an index")


def _read_guarantee(text: str) -> Guarantee:
    try:
        return Guarantee(text)
    except ValueError as error:
        raise ModelError(f"option guarantee: {text!r}", hint="use basic or extended") from error


def _read_count(option: str, text: str, count_min: int = 1) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= count_min):
        raise ModelError(f"option {option}: {text!r}", hint=f"use a whole number, {count_min} or more")
    return int(text)


def _read_flag(option: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ModelError(f"option {option}: {text!r}", hint="use true or false")
    return text.lower() == "true"


def _read_seconds(option: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds < float("inf"):
        raise ModelError(f"option {option}: {text!r}", hint="use a number of seconds greater than 0")
    return seconds
