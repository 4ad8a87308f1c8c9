"""The pairs of `pairs.toml`, read."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from veristream.ir.network import Network
from veristream.ir.property import Property
from veristream.ir.text.read import read_network
from veristream.source import Source

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Pair:
    """A model with a claim about it, whether it holds, and why."""

    name: str
    model: str
    claim: str
    holds: bool
    why: str
    constants: Mapping[str, int] = field(default_factory=dict, hash=False)


def _load() -> tuple[Pair, ...]:
    with (HERE / "pairs.toml").open("rb") as file:
        return tuple(Pair(**entry) for entry in tomllib.load(file)["pair"])


PAIRS = _load()


@cache
def read_pair(pair: Pair) -> tuple[Network, Property]:
    """The network and its one property."""
    path = HERE / "models" / f"{pair.model}.net"
    text = f"{path.read_text(encoding='utf-8')}\nproperty {pair.name}: {pair.claim}\n"
    network = read_network(Source(path.name, text), pair.constants)
    (property_,) = network.properties
    return network, property_
