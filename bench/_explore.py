"""Measures one exploration in a separate process: `_explore.py MODEL WORKERS NAME=VALUE...`.

Prints one JSON object. The native search loops are loaded before the clock starts, like a peer's own
program. The model's kernel is compiled from scratch, and that time is reported separately. Symmetry is
off, since the peers search the same states without it.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from veristream.ir.network import Network
from veristream.ir.property import Always
from veristream.library import load
from veristream.search.limits import Limits, silent
from veristream.search.reach.batch import Batch
from veristream.search.reach.safety import opened, opening_locally

WARM_UP = """
network warm_up
var a: 0..299 = 0
var b: 0..299 = 0
component A { location here initial edge here -> here { action up when a < 299 do { a := a + 1; } } }
component B { location here initial edge here -> here { action up when b < 299 do { b := b + 1; } } }
property small: always a + b < 600
"""


def main() -> None:
    path, workers, *settings = sys.argv[1:]
    constants = {name: int(value) for name, _, value in (s.partition("=") for s in settings)}
    with tempfile.TemporaryDirectory() as cache:
        warm = Path(cache) / "warm_up.net"
        warm.write_text(WARM_UP, encoding="utf-8")
        explore(warm, {}, int(workers))  # with the user's cache, which contains the loops
        os.environ["VERISTREAM_CACHE"] = cache
        print(json.dumps(explore(Path(path), constants, int(workers))))


def read(path: Path, constants: dict[str, int]) -> Network:
    """Reads the model to measure; of a Python model it keeps only the invariants, which a peer gets too."""
    network = load(path, constants)
    if path.suffix != ".py":
        return network
    invariants = tuple(one for one in network.properties if isinstance(one.claim, Always))
    assert invariants, f"{path} states no invariant"
    return replace(network, properties=invariants)


def explore(path: Path, constants: dict[str, int], workers: int) -> dict[str, float]:
    """Explores the model in full, checking its properties on the way."""
    began = time.perf_counter()
    network = read(path, constants)
    batch = Batch()
    for property_ in network.properties:
        batch.add(property_)
    limits = Limits(workers=workers, symmetry=False)
    with opened(network, batch, (limits, silent), opening_locally(limits)) as search:
        compiled = time.perf_counter()
        search.run()
        ended = time.perf_counter()
    exploration = search.session.exploration
    return {
        "states": exploration.counts.states,
        "transitions": exploration.counts.transitions,
        "compile_seconds": compiled - began,
        "search_seconds": ended - compiled,
        "bytes_per_state": exploration.byte_count / exploration.counts.states,
    }


if __name__ == "__main__":
    main()
