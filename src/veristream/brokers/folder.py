"""A folder of brokers, whatever they are: each has one of its own there, with its address and process."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from veristream.kabis.cluster import processes

STOP_PATIENCE_S = 60.0
"""A broker that stops writes out what it has, which takes a busy disk a while; killed, it checks all of it
when it starts again, and drops what is behind the first record that is damaged."""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A broker: which process it is, None if it does not run, and where clients find it."""

    name: str
    pid: int | None
    address: str


def list_brokers(folder: Path) -> list[BrokerStatus]:
    """The brokers that were ever set up in a folder."""
    found = []
    for path in sorted(folder.glob("*/address")):
        running = processes.find(path.parent)
        address = path.read_text(encoding="utf-8").strip()
        found.append(BrokerStatus(path.parent.name, running.pid if running else None, address))
    return found


def stop_brokers(folder: Path) -> list[str]:
    """Stops those that run, whoever started them; gives their names."""
    found = [processes.find(path.parent) for path in sorted(folder.glob("*/process.json"))]
    running = [each for each in found if each is not None]
    processes.stop(running, STOP_PATIENCE_S)
    return [each.name for each in running]


def remove_brokers(folder: Path) -> None:
    """Takes away the folders of all brokers; none of them may run."""
    for path in sorted(folder.glob("*/address")):
        shutil.rmtree(path.parent)
