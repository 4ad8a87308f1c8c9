"""Measures one check in a separate process: `_check.py MODEL PROPERTY WORKERS NAME=VALUE...`.

The property is checked twice, and the second time is measured, with kernel and search loops in memory. It
uses only what every commit since 5cd713d has, so that `compare.py` can run it with the code of each.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import fields

from veristream.library import check, load_all
from veristream.search.limits import Limits
from veristream.verdict import word


def main() -> None:
    path, name, workers, *settings = sys.argv[1:]
    constants = {key: int(value) for key, _, value in (s.partition("=") for s in settings)}
    networks = load_all(path, constants)
    # All states are searched at both commits, also at one that could search fewer.
    full = {"reduction": False} if "reduction" in {field.name for field in fields(Limits)} else {}
    limits = Limits(workers=int(workers), **full)
    check(networks, [name], limits=limits)
    began = time.perf_counter()
    (result,) = check(networks, [name], limits=limits)
    ended = time.perf_counter()
    found = {
        "verdict": word(result.verdict),
        "states": result.effort.states,
        "transitions": result.effort.transitions,
        "search_seconds": ended - began,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
