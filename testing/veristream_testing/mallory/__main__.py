"""Mallory, who is registered: attacks every party of a cluster.

    python -m veristream_testing.mallory FOLDER ATTACK

It prints a line when the attack goes on, and attacks until its input ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import threading
from pathlib import Path

from veristream.kabis.cluster.folder import ClusterFolder
from veristream_testing.mallory.arena import call_attacker
from veristream_testing.mallory.attacks import BY_NAME
from veristream_testing.mallory.target import find_targets

BEGIN_S = 0.7
"""How long an attack takes to reach all parties."""


async def go(folder: ClusterFolder, name: str) -> None:
    """Attacks for ever."""
    attack = BY_NAME[name]
    tasks = [asyncio.ensure_future(attack(target)) for target in find_targets(folder, call_attacker(name))]
    await asyncio.sleep(BEGIN_S)
    sys.stdout.write(json.dumps({"going": name}) + "\n")
    sys.stdout.flush()
    await asyncio.gather(*tasks)


def end_when_alone() -> None:
    """Ends when whoever started us is gone."""
    while os.read(0, 1024):
        pass
    os._exit(0)


def main(folder: str, name: str) -> None:
    """Attacks until the input ends."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    threading.Thread(target=end_when_alone, daemon=True).start()
    asyncio.run(go(ClusterFolder(Path(folder)), name))


if __name__ == "__main__":
    main(*sys.argv[1:])
