"""The names of topics by their ids, as brokers tell them to clients (Metadata)."""

from __future__ import annotations

from typing import Final

from veristream.brokers.proxy.kafka import Key
from veristream.brokers.proxy.octets import Octets, TooShort
from veristream.brokers.proxy.pieces import Request

WITH_IDS: Final = range(10, 14)
"""The versions of Metadata that tell ids and are read; lengths are compact in all of them."""
NUMBER_BYTES: Final = 4


def read_topics(request: Request, data: bytes) -> dict[str, str]:
    """Returns names by ids (32 hexadecimal digits) in an answer, as far as it can be read. Never raises."""
    found: dict[str, str] = {}
    if request.key != Key.METADATA or request.version not in WITH_IDS:
        return found
    octets = Octets(data, compact=True)
    try:
        octets.skip(8)  # length, correlation id
        octets.tags()
        octets.skip(4)  # throttle time
        _skip_brokers(octets)
        for _ in range(octets.count()):
            octets.skip(2)  # error
            name, number = octets.text(), octets.hexadecimal()
            if name is not None:
                found[number] = name
            octets.skip(1)  # internal
            _skip_partitions(octets)
            octets.skip(4)  # permitted operations
            octets.tags()
    except (TooShort, ValueError):
        pass
    return found


def _skip_brokers(octets: Octets) -> None:
    for _ in range(octets.count()):
        octets.skip(4)
        octets.text()  # host
        octets.skip(4)
        octets.text()  # rack
        octets.tags()
    octets.text()  # cluster
    octets.skip(4)  # controller


def _skip_partitions(octets: Octets) -> None:
    for _ in range(octets.count()):
        octets.skip(14)  # error, number, leader, its epoch
        for _ in range(3):  # replicas, those in sync, those offline
            octets.skip(octets.count() * NUMBER_BYTES)
        octets.tags()
