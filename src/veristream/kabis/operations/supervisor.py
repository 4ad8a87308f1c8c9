"""Starts a cluster's parties and restarts those that die.

Run as `python -m veristream.kabis.operations.supervisor --data DIR`; `kabis up` does it. Parties that were
stopped on purpose stay down. SIGTERM stops the supervisor and leaves the parties running; `kabis down`
stops both.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as changed
from pathlib import Path

from veristream.errors import EnvironmentFailure, ModelError
from veristream.kabis.cluster import processes
from veristream.kabis.cluster.cluster import SUPERVISOR, Cluster, StartOptions
from veristream.kabis.cluster.folder import ClusterFolder
from veristream.kabis.cluster.restarts import End, History, Policy, is_held, note_history
from veristream.kabis.log.disk.files import replace
from veristream.kabis.process.logs import log_to_file
from veristream.kabis.wire.process import tell_failures

_LOGGER = logging.getLogger(__name__)

WATCH_S = 0.25
LINES_SHOWN = 5


@dataclass(slots=True)
class _Watched:
    """What a supervisor knows of one party; times are those of its clock."""

    history: History = field(default_factory=History)
    since_s: float = 0.0
    restart_at_s: float | None = None


@dataclass(slots=True)
class Supervisor:
    """Watches all parties of a cluster; `tell` gets a line for people whenever something happens."""

    cluster: Cluster
    how: StartOptions
    tell: Callable[[str], None]
    policy: Policy = field(default_factory=Policy)
    clock: Callable[[], float] = time.monotonic
    _watched: dict[str, _Watched] = field(default_factory=dict)

    def run(self, stop: threading.Event) -> None:
        """Watches until `stop` is set."""
        while not stop.wait(WATCH_S):
            self.step()

    def step(self) -> None:
        """Looks at every party once, and restarts those whose time has come."""
        for name in self.cluster.names():
            watched = self._watched.setdefault(name, _Watched(since_s=self.clock()))
            if self._runs(name):
                self._see_running(watched)
            elif is_held(self.cluster.folder_of(name)) or watched.history.is_left:
                watched.restart_at_s = None
            elif processes.read_pid(self.cluster.folder_of(name)) is None:
                self._start_newcomer(name, watched)
            elif watched.restart_at_s is None:
                self._see_end(name, watched)
            elif self.clock() >= watched.restart_at_s:
                self._restart(name, watched)

    def _runs(self, name: str) -> bool:
        """Whether the party runs, no matter who started it."""
        ours = self.cluster.running.get(name)
        return (ours is not None and ours.is_alive()) or processes.find(
            self.cluster.folder_of(name)
        ) is not None

    def _see_running(self, watched: _Watched) -> None:
        if watched.history.is_left:  # somebody has started it
            watched.history, watched.since_s = History(), self.clock()
        watched.restart_at_s = None

    def _see_end(self, name: str, watched: _Watched) -> None:
        folder = self.cluster.folder_of(name)
        ours = self.cluster.running.get(name)
        noted = processes.read_pid(folder)
        code = ours.exit_code if ours is not None and ours.pid == noted else None
        end = End(code, self.clock() - watched.since_s, processes.last_words(folder)[0])
        watched.history = history = self.policy.judge(watched.history, end)
        note_history(folder, history)
        if not history.is_left:
            watched.restart_at_s = self.clock() + history.wait_s
            self.tell(f"{name} {history.reason}; restarting it in {history.wait_s:g} s")
        elif code == 0:
            self.tell(f"{name} {history.reason}")
        else:
            lines = "".join(f"\n  {line}" for line in processes.last_lines(folder, LINES_SHOWN))
            self.tell(f"{name} {history.reason}; it stays down until you start it{lines}")

    def _start_newcomer(self, name: str, watched: _Watched) -> None:
        """Starts a party that never ran: it has become a member, or will."""
        if watched.restart_at_s is not None and self.clock() < watched.restart_at_s:
            return
        watched.since_s = self.clock()
        if self._launch(name, watched):
            self.tell(f"{name} joins the chain; started it")

    def _restart(self, name: str, watched: _Watched) -> None:
        history = changed(watched.history, restarts=watched.history.restarts + 1, wait_s=0.0)
        watched.history, watched.restart_at_s, watched.since_s = history, None, self.clock()
        if self._launch(name, watched):
            note_history(self.cluster.folder_of(name), history)
            self.tell(f"{name} restarted")

    def _launch(self, name: str, watched: _Watched) -> bool:
        """Starts a party; if the machine fails, tries again later."""
        try:
            self.cluster.launch(changed(self.how, repair=False), [name])
        except EnvironmentFailure as failure:  # such as no memory for a process
            watched.restart_at_s = self.clock() + self.policy.last_s
            self.tell(f"{failure.message}; trying again in {self.policy.last_s:g} s")
            return False
        return True


def read_policy(cluster: Cluster) -> Policy:
    """Returns the policy in the cluster's settings."""
    given = cluster.settings.supervisor
    return Policy(given.first_s, given.last_s, given.stable_s, given.failures_max)


# The supervisor of a cluster that runs in the background


def start_supervised(cluster: Cluster, how: StartOptions, names: Sequence[str]) -> None:
    """Starts a supervisor in the background, which starts these parties; returns when they answer."""
    read_policy(cluster)  # a mistake in the settings is told here, with its line
    folder = cluster.folder.party(SUPERVISOR)
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "ready").unlink(missing_ok=True)
    running = processes.start(SUPERVISOR, _command(cluster.folder, how, names), folder, attended=False)
    try:
        while processes.read_ready(folder) != running.pid:
            if not running.is_alive():
                _tell_failure(running, folder)
            time.sleep(processes.POLL_S)
    except BaseException:
        processes.stop([running], cluster.STOP_PATIENCE_S)
        cluster.stop(names)
        raise


def _command(folder: ClusterFolder, how: StartOptions, names: Sequence[str]) -> list[str]:
    return [
        *(sys.executable, "-m", "veristream.kabis.operations.supervisor"),
        *("--data", str(folder.path.resolve()), "--flush", how.flush),
        *(["--repair"] if how.repair else []),
        *(part for name, fault in (how.faults or {}).items() for part in ("--fault", f"{name}={fault}")),
        *("--start", ",".join(names)),
    ]


def _tell_failure(running: processes.Running, folder: Path) -> None:
    message, hint = processes.last_words(folder)
    if running.exit_code == 2:
        raise ModelError(message, hint=hint)
    raise EnvironmentFailure(message or "the supervisor ended", hint or f"look at {folder / 'log.txt'}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the supervisor of a background cluster; returns the exit status."""
    parser = argparse.ArgumentParser(prog="veristream.kabis.operations.supervisor", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the cluster")
    parser.add_argument("--start", default="", help="parties to start first, separated by commas")
    parser.add_argument("--fault", action="append", default=[], help="PARTY=FAULT")
    parser.add_argument("--flush", default="always")
    parser.add_argument("--repair", action="store_true")
    given = parser.parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    faults = dict(text.split("=", 1) for text in given.fault)
    how = StartOptions(attended=False, faults=faults, flush=given.flush, repair=given.repair)
    cluster = Cluster(ClusterFolder(given.data))
    return tell_failures(lambda: _supervise(cluster, how, given.start, stop))


def _supervise(cluster: Cluster, how: StartOptions, start: str, stop: threading.Event) -> None:
    folder = cluster.folder.party(SUPERVISOR)
    log_to_file(folder, SUPERVISOR, cluster.settings.log)
    if start:
        cluster.start(how, start.split(","))
    replace(folder / "ready", json.dumps({"pid": os.getpid()}).encode() + b"\n")
    Supervisor(cluster, how, _LOGGER.warning, read_policy(cluster)).run(stop)


if __name__ == "__main__":
    sys.exit(main())
