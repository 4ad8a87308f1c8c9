"""A folder of brokers of any kind: each has a subfolder with its address and process."""

from __future__ import annotations

import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from veristream.kabis.cluster import processes

STOP_PATIENCE_S = 60.0
"""A stopping broker flushes its data, which may take a while on a busy disk. A killed one has to check all
of it on the next start, and drops everything after the first damaged record."""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """A broker: its address, and its process id or None if it is not running."""

    name: str
    pid: int | None
    address: str


def list_brokers(folder: Path) -> list[BrokerStatus]:
    """Returns all brokers that are set up in a folder."""
    found = []
    for path in sorted(folder.glob("*/address")):
        running = processes.find(path.parent)
        address = path.read_text(encoding="utf-8").strip()
        found.append(BrokerStatus(path.parent.name, running.pid if running else None, address))
    return found


def stop_brokers(folder: Path) -> list[str]:
    """Stops the running brokers, no matter who started them; returns their names."""
    found = [processes.find(path.parent) for path in sorted(folder.glob("*/process.json"))]
    running = [each for each in found if each is not None]
    for each in running:
        each.signal(signal.SIGCONT)  # a paused process would not hear that it should stop
    processes.stop(running, STOP_PATIENCE_S)
    return [each.name for each in running]


def remove_brokers(folder: Path) -> None:
    """Deletes the folders of all brokers; none of them may be running."""
    for path in sorted(folder.glob("*/address")):
        shutil.rmtree(path.parent)
