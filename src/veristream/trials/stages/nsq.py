"""The scenarios of NSQ; each starts an nsqd of its own, which takes no time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from veristream.recording.nsq.scenarios import Kill, record_kill, record_ready, record_timeouts
from veristream.trials.run import Stage
from veristream.trials.trial import Trial


def _kill(kill: Kill) -> Callable[[Path], None]:
    return partial(record_kill, kill=kill)


SCENARIOS: Final[Mapping[str, Callable[[Path], None]]] = {
    "memory": _kill(Kill()),
    "stopped": _kill(Kill(how="stop", held=5)),
    "overflow": _kill(Kill(how="stop", mem_queue_size=10, finished=60)),
    "disk": _kill(Kill(mem_queue_size=0)),
    "finished": _kill(Kill(mem_queue_size=0, synced=True, finished=5)),
    "synced": _kill(Kill(mem_queue_size=0, sync_every=1)),
    "in-flight": _kill(Kill(mem_queue_size=0, sync_every=1, unread=5)),
    "timeout": record_timeouts,
    "ready": record_ready,
}
"""What records each trial, by its name."""


class _Nsq:
    def record(self, trial: Trial, history: Path) -> None:
        SCENARIOS[trial.name](history)


@contextmanager
def open_nsq() -> Iterator[Stage]:
    """Opens the stage of NSQ."""
    yield _Nsq()
