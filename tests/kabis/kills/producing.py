"""A producer that is there to be killed: it pushes numbered events forever, and notes what it is told.

    python -m tests.kabis.kills.producing FOLDER NAME NOTES [--hasty]

`--hasty` plants a mistake: an event counts as acknowledged when it is submitted, before any block has it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from tests.kabis.kills.notes import Notebook, NotesReader
from tests.kabis.kills.oracle import make_value
from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.client.options import ProducerOptions
from veristream.kabis.client.producer.core import ProducerCore
from veristream.kabis.client.producer.queue import Flight
from veristream.kabis.client.pushes import Pushed, Settlement
from veristream.kabis.cluster.access import Access
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.protocol.records import Record

TOPIC = "kills"
PARTITIONS = 2
BATCH_EVENTS = 3
BURST_EVENTS = 6
BURST_S = 0.3
"""A burst fills a batch for each partition. The next comes after twice the time that this one takes, or at
most twice so long: on any machine a kill finds something on its way, and the machine is not swamped."""
PENDING_MAX = 60
PATIENCE_S = 120.0
OPTIONS = ProducerOptions(batch_events=BATCH_EVENTS, submit_timeout_ms=500)
"""Small batches, so that a kill meets many of them on their way."""


def main(arguments: Sequence[str]) -> None:
    """Pushes until it is killed, from the first number on that no earlier run has used."""
    folder, name, notes = Path(arguments[0]), arguments[1], Path(arguments[2])
    threading.Thread(target=end_when_alone, daemon=True).start()
    if "--hasty" in arguments:
        ProducerCore._submit = _submit_hastily  # type: ignore[assignment]
    first = max(NotesReader(notes).read().pushed, default=-1) + 1
    notebook, room = Notebook(notes), threading.Semaphore(PENDING_MAX)
    producer = Access(ClusterFolder(folder)).producer(name, OPTIONS)
    producer.open(PATIENCE_S)
    for number in count(first):
        room.acquire()
        notebook.push(number, number % PARTITIONS)
        pushed = producer.push(Record(TOPIC, make_value(name, number), partition=number % PARTITIONS))
        pushed.add_done_callback(partial(_note, notebook, room, number))
        if number % BURST_EVENTS == BURST_EVENTS - 1:
            _rest(pushed)


def _rest(pushed: Pushed) -> None:
    began_s = time.monotonic()
    with suppress(TimeoutError):
        pushed.exception(BURST_S)
    time.sleep(time.monotonic() - began_s)


def _note(notebook: Notebook, room: threading.Semaphore, number: int, pushed: Pushed) -> None:
    try:
        done = pushed.result(0)
    except (ModelError, EnvironmentFailure) as error:
        notebook.fail(number, str(error))
    else:
        notebook.acknowledge(number, done.partition, done.index)
    room.release()


def end_when_alone() -> None:
    """Whoever started us is gone when our input ends."""
    while os.read(0, 1024):
        pass
    os._exit(0)


_submit = ProducerCore._submit


def _submit_hastily(core: ProducerCore, flight: Flight, now_ms: int) -> bool:
    submitted = _submit(core, flight, now_ms)
    if submitted and flight.parcel is not None:
        index = flight.batch.header.first_sequence  # true if nobody else pushes: only a loss gives it away
        core._acknowledge(flight.parcel, Settlement(index, None, None))
        flight.parcel = None
    return submitted


if __name__ == "__main__":
    main(sys.argv[1:])
