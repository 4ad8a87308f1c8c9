"""A consumer as a process of any version: it validates, and writes down every event that it is delivered.

python -m tests.kabis.kills.consuming FOLDER NAME FILE
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from tests.kabis.kills.oracle import Delivered
from tests.kabis.kills.producing import PATIENCE_S, TOPIC, end_when_alone
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder


def main(arguments: Sequence[str]) -> None:
    """Reads from the beginning until it is killed; a line is one write, so that only the last is torn."""
    folder, name, path = Path(arguments[0]), arguments[1], Path(arguments[2])
    threading.Thread(target=end_when_alone, daemon=True).start()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    consumer = Access(ClusterFolder(folder)).consumer(name)
    consumer.open(PATIENCE_S)
    consumer.subscribe([TOPIC])
    while True:
        for event in consumer.pull(0.5):
            assert event.validated and event.producer is not None and event.value is not None
            line = f"{event.partition} {event.index} {event.producer} {event.value.hex()}\n"
            os.write(descriptor, line.encode("ascii"))


def read_delivered(path: Path) -> list[Delivered]:
    """Reads what a consumer was delivered until now."""
    whole, _, _torn = path.read_text(encoding="ascii").rpartition("\n") if path.exists() else ("", "", "")
    rows = [line.split() for line in whole.splitlines()]
    return [
        Delivered(int(part), int(index), name, bytes.fromhex(value)) for part, index, name, value in rows
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
