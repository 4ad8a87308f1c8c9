"""The few requests of Kafka's protocol that running an experiment needs, each on a connection of its own.

A client library keeps connections and caches; here, one broker is asked and says what it knows now. The
versions are the oldest that Kafka 4 still speaks.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

from veristream.errors import EnvironmentFailure, ModelError

METADATA = (3, 0)
CREATE_TOPICS = (19, 2)
INIT_PRODUCER_ID = (22, 0)
DESCRIBE_TRANSACTIONS = (65, 0)
NOT_FOUND = 105
"""The error of a coordinator that has loaded its log and does not know a transactional id."""
CREATE_PATIENCE_MS = 30_000
_HEADER = Struct(">hhi")
_LENGTH = Struct(">i")
_SHORT = Struct(">h")
_CORRELATION = 7
_TAGS = b"\0"  # no tagged fields


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition as one broker sees it: node numbers, and None if it has no leader."""

    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a broker knows: the live brokers, and the partitions of the topics that were asked for."""

    brokers: frozenset[int]
    topics: Mapping[str, Mapping[int, Partition]]


@dataclass(frozen=True, slots=True)
class Described:
    """What a coordinator says of a transactional id: an error or the state, such as Ongoing; the epoch."""

    error: int
    state: str = ""
    epoch: int = -1

    @property
    def is_coordinated(self) -> bool:
        """Whether it is the coordinator that answers, and has loaded its log."""
        return self.error in (0, NOT_FOUND)


def ask_metadata(address: str, topic: str | None = None, patience_s: float = 2.0) -> Metadata:
    """Asks one broker for a topic, by default for all; raises OSError if it does not answer.

    A topic that it does not know is missing from the result.
    """
    asked = (topic,) if topic is not None else ()
    body = _LENGTH.pack(len(asked)) + b"".join(_text(each) for each in asked)
    answer = _Answer(_ask(address, METADATA, body, patience_s))
    brokers = frozenset(answer.broker() for _ in range(answer.long()))
    topics: dict[str, dict[int, Partition]] = {}
    for _ in range(answer.long()):
        refused, name = answer.short(), answer.text()
        partitions = dict(answer.partition() for _ in range(answer.long()))
        if not refused:
            topics[name] = partitions
    return Metadata(brokers, topics)


def ask_new_topic(
    address: str, name: str, partitions: int, replicas: int, settings: Mapping[str, str]
) -> None:
    """Asks a broker to create a topic; raises ModelError with Kafka's reason if it refuses."""
    chosen = b"".join(_text(key) + _text(value) for key, value in settings.items())
    body = b"".join(
        (
            *(_LENGTH.pack(1), _text(name), _LENGTH.pack(partitions), _SHORT.pack(replicas)),
            *(_LENGTH.pack(0), _LENGTH.pack(len(settings)), chosen),
            *(_LENGTH.pack(CREATE_PATIENCE_MS), b"\0"),
        )
    )
    try:
        answer = _Answer(_ask(address, CREATE_TOPICS, body, 2 * CREATE_PATIENCE_MS / 1000))
    except OSError as error:
        raise EnvironmentFailure(f"the Kafka broker at {address} does not answer: {error}") from error
    answer.long()  # how long to wait before the next request
    answer.long()  # one topic
    answer.text()
    refused, reason = answer.short(), answer.text()
    if refused:
        raise ModelError(f"Kafka does not create the topic {name!r}: {reason or f'error {refused}'}")


def ask_transaction(address: str, transactional_id: str, patience_s: float = 2.0) -> Described:
    """Asks a broker for the state of a transactional id, which only its coordinator knows.

    Raises OSError if it does not answer.
    """
    name = transactional_id.encode()
    body = b"".join((_TAGS, bytes((2, len(name) + 1)), name, _TAGS))  # one name; lengths are one more
    answer = _Answer(_ask(address, DESCRIBE_TRANSACTIONS, body, patience_s))
    answer.skip(len(_TAGS) + 4 + 1)  # the time of throttling, and the number of states
    error = answer.short()
    answer.compact_text()
    state = answer.compact_text()
    answer.skip(4 + 8 + 8)  # the timeout, the beginning, the producer id
    return Described(error, state, answer.short())


def ask_producer_id(address: str, patience_s: float = 2.0) -> int:
    """Asks a broker for a producer id without transactions; returns the error that it answers, or 0.

    A broker that has none left answers an error while it fetches some. Raises OSError without an answer.
    """
    body = _SHORT.pack(-1) + _LENGTH.pack(CREATE_PATIENCE_MS)  # no transactional id
    answer = _Answer(_ask(address, INIT_PRODUCER_ID, body, patience_s))
    answer.long()  # the time of throttling
    return answer.short()


def _text(value: str) -> bytes:
    data = value.encode()
    return _SHORT.pack(len(data)) + data


def _ask(address: str, what: tuple[int, int], body: bytes, patience_s: float) -> bytes:
    host, _, port = address.rpartition(":")
    request = _HEADER.pack(*what, _CORRELATION) + _text("veristream") + body
    with socket.create_connection((host, int(port)), timeout=patience_s) as connection:
        connection.sendall(_LENGTH.pack(len(request)) + request)
        (length,) = _LENGTH.unpack(_receive(connection, _LENGTH.size))
        answer = _receive(connection, length)
    if _LENGTH.unpack_from(answer)[0] != _CORRELATION:
        raise ConnectionError(f"{address} does not speak Kafka's protocol")
    return answer[_LENGTH.size :]


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the broker closed the connection")
        data += part
    return bytes(data)


class _Answer:
    """Reads the fields of an answer one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def short(self) -> int:
        return self._number(_SHORT)

    def long(self) -> int:
        return self._number(_LENGTH)

    def text(self) -> str:
        """Reads a text; a missing one is empty."""
        size = max(0, self.short())
        self._at += size
        return self._data[self._at - size : self._at].decode()

    def skip(self, size: int) -> None:
        self._at += size

    def compact_text(self) -> str:
        """Reads a short text of a newer version; a missing one is empty."""
        size = max(0, self._data[self._at] - 1)
        self._at += 1 + size
        return self._data[self._at - size : self._at].decode()

    def longs(self) -> tuple[int, ...]:
        return tuple(self.long() for _ in range(self.long()))

    def broker(self) -> int:
        """Reads a broker's number, and skips its address."""
        number = self.long()
        self.text()
        self.long()
        return number

    def partition(self) -> tuple[int, Partition]:
        """Reads a partition and its number."""
        self.short()  # an error, which a missing leader says as well
        number, leader = self.long(), self.long()
        return number, Partition(leader if leader >= 0 else None, self.longs(), self.longs())

    def _number(self, form: Struct) -> int:
        value: int = form.unpack_from(self._data, self._at)[0]
        self._at += form.size
        return value
