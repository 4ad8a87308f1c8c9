"""Kernels in memory: two objects, each compiled once, then loaded from a cache on disk.

The relation has the steps of a Network; all properties share it, so a process also loads it once. A small
object beside it has what one of them watches. It calls the relation by address, from a table that we fill.

The cache key covers the Network, what is watched, the code of this package, llvmlite's version and the
processor, so an entry is never stale; a damaged entry is recompiled.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path

import llvmlite
import llvmlite.binding as binding

from veristream.ir.network import Network
from veristream.ir.remembered import remembered
from veristream.kernel.code.objects import Object, load
from veristream.kernel.layout import Layout, lay_out
from veristream.kernel.watch import LINKS, Inside, Watch
from veristream.kernel.watched.inside import inside_of

SOURCES = (
    *("veristream.ir", "veristream.ir.oracle"),
    *("veristream.kernel", "veristream.kernel.code", "veristream.kernel.watched"),
)
"""The packages whose code determines that of kernels."""
KEPT = 8
"""So many relations stay in memory for the next property."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Native code of a Network: the addresses of its functions, and the layout of its rows.

    The addresses are valid as long as the kernel is referenced.
    """

    layout: Layout
    successors: int
    propositions: int
    measure: int
    terminated: int
    product: int  # 0 without a monitor
    reduced: int  # 0 without symmetries
    orbit: int  # 0 without symmetries
    timing: int  # 0 if the network is not timed, like the next three
    tests: int
    places: int
    urgent: int
    code: tuple[Object, ...]  # owns the memory that the addresses point into


def load_kernel(network: Network, watch: Watch) -> Kernel:
    """Returns the network's kernel, from the cache if possible."""
    inside = inside_of(network, watch)
    relation, watched = _load_relation(network, inside), _load_watched(network, watch, inside)
    addresses = (relation.address("successors"), relation.address("orbit") if network.symmetries else 0)
    watched.write(LINKS, addresses)
    steps = watched if watch.shows_steps else relation
    timed, symmetric = network.timed, bool(network.symmetries)
    return Kernel(
        lay_out(network),
        successors=steps.address("successors"),
        propositions=watched.address("propositions"),
        measure=watched.address("measure"),
        terminated=relation.address("terminated"),
        product=watched.address("product") if watch.monitor is not None else 0,
        reduced=steps.address("reduced") if symmetric else 0,
        orbit=addresses[1],
        timing=relation.address("timing") if timed else 0,
        tests=watched.address("tests") if timed else 0,
        places=relation.address("places") if timed else 0,
        urgent=relation.address("urgent") if timed else 0,
        code=(relation, watched),
    )


_relations: dict[str, Object] = {}


def _load_relation(network: Network, inside: Inside) -> Object:
    def emitted() -> str:
        from veristream.kernel.emit import emit  # with all of llvmlite: not for what is cached

        return emit(network, inside)

    key = digest_of(network, inside)
    if key not in _relations:
        if len(_relations) >= KEPT:
            del _relations[next(iter(_relations))]
        _relations[key] = load(cache_directory() / f"{key}.o", emitted)
    return _relations[key]


def _load_watched(network: Network, watch: Watch, inside: Inside) -> Object:
    def emitted() -> str:
        from veristream.kernel.watched.emit import emit_watched

        return emit_watched(network, watch, inside)

    return load(cache_directory() / f"{digest_of(network, watch)}.o", emitted)


def cache_directory() -> Path:
    """Returns the folder of compiled kernels: $VERISTREAM_CACHE, or else in the user's cache directory."""
    own = os.environ.get("VERISTREAM_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "veristream" / "kernels"


@cache
def _code_version() -> bytes:
    """Returns a digest of everything besides the network that determines the compiled code."""
    digest = hashlib.sha256(llvmlite.__version__.encode())
    digest.update(binding.get_host_cpu_name().encode())
    digest.update(binding.get_host_cpu_features().flatten().encode())
    for package in SOURCES:
        modules = [one for one in files(package).iterdir() if one.name.endswith(".py")]
        for module in sorted(modules, key=lambda one: one.name):
            digest.update(module.read_bytes())
    return digest.digest()


def digest_of(network: Network, part: Inside | Watch) -> str:
    """Returns the cache key of the relation, or of the object for what is watched."""
    digest = hashlib.sha256(_digest_network(network))
    digest.update(repr(part).encode())
    return digest.hexdigest()[:40]


@remembered
def _digest_network(network: Network) -> bytes:
    """Returns a digest of the network without its properties; the text of a large one takes a while."""
    digest = hashlib.sha256(_code_version())
    digest.update(repr(replace(network, properties=(), rejected=())).encode())
    return digest.digest()
