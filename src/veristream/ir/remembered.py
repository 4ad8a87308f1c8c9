"""Results that depend on a Network alone, remembered for its next property."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from veristream.ir.network import Network

KEPT = 8
"""For so many networks; the oldest one is forgotten first."""

Found = TypeVar("Found")


def remembered(function: Callable[[Network], Found]) -> Callable[[Network], Found]:
    """Calls the function once for each network, known by its identity: to compare large ones takes long."""
    kept: dict[int, tuple[Network, Found]] = {}

    @wraps(function)
    def recall(network: Network) -> Found:
        known = kept.get(id(network))
        if known is not None and known[0] is network:
            return known[1]
        if len(kept) >= KEPT:
            del kept[next(iter(kept))]
        found = function(network)
        kept[id(network)] = network, found
        return found

    return recall
