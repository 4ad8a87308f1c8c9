"""`record_nsq`: starts nsqd, or uses those that run, and records a workload with faults."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from veristream.brokers.nsq import interface
from veristream.brokers.nsq.build import VERSION
from veristream.brokers.nsq.connection import NO_HEARTBEAT, Connection, Refused
from veristream.brokers.nsq.nodes import NsqNodes
from veristream.errors import EnvironmentFailure, ModelError
from veristream.recording.faults import Faults, Kind, schedule
from veristream.recording.nsq.clients import Node, NsqRecorder
from veristream.recording.nsq.workload import NsqWorkload, Plan
from veristream.recording.recording import Recording
from veristream.recording.workload import Load, Workload, run

_NAME: Final = re.compile(r"[.a-zA-Z0-9_-]{1,64}")
_OURS: Final = ("mem-queue-size", "sync-every", "msg-timeout")


@dataclass(frozen=True, slots=True)
class Settings:
    """What is recorded: nsqd and their options, the clients, how long, and the faults.

    With `lookupd`, the nsqd are those that nsqlookupd knows at that HTTP address; then there are no options
    and no faults. `rate` is messages in a second of all publishers, 0 as fast as possible.
    """

    nodes: int = 2
    mem_queue_size: int | None = None
    sync_every: int | None = None
    msg_timeout_ms: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    lookupd: str = ""
    plan: Plan = field(default_factory=Plan)
    seconds: float = 10.0
    rate: float = 400.0
    faults: tuple[Kind, ...] = ()
    seed: int = 0
    attempts_max: int | None = None

    def nsqd_options(self) -> dict[str, str]:
        """Returns the options of nsqd by name; raises ModelError if one is given twice."""
        given = {
            "mem-queue-size": self.mem_queue_size,
            "sync-every": self.sync_every,
            "msg-timeout": None if self.msg_timeout_ms is None else f"{self.msg_timeout_ms}ms",
        }
        found = {name: str(value) for name, value in given.items() if value is not None}
        for name in self.options:
            if name in _OURS:
                raise ModelError(f"--set {name} has an option of its own", hint=f"write --{name} VALUE")
        return {**found, **self.options}

    def as_text(self) -> dict[str, str]:
        """Returns what the manifest says of the settings."""
        plan = self.plan
        return {
            "version": VERSION if not self.lookupd else "",
            **({"lookupd": self.lookupd} if self.lookupd else self.nsqd_options()),
            "channels": ",".join(plan.channels),
            "rdy": str(plan.ready),
            "rate": f"{self.rate:g}",
            "seconds": f"{self.seconds:g}",
            "faults": ",".join(self.faults) or "none",
            "seed": str(self.seed),
        }


def record_nsq(
    folder: Path, settings: Settings | None = None, watch: Callable[[float], None] | None = None
) -> int:
    """Records into an empty or new folder and returns the number of events.

    Raises ModelError or EnvironmentFailure. An interrupt leaves a history that is not complete.
    `watch` is told the seconds since the start now and then.
    """
    chosen = settings or Settings()
    _check(chosen)
    with tempfile.TemporaryDirectory(prefix="veristream-nsq-") as place:
        if chosen.lookupd:
            return _record(folder, chosen, find_nodes(chosen.lookupd), None, watch)
        with NsqNodes(Path(place), chosen.nsqd_options()) as running:
            running.create(chosen.nodes)
            running.start()
            return _record(folder, chosen, name_nodes(running), running, watch)


def name_nodes(running: NsqNodes) -> list[Node]:
    """Returns the nsqd that run here."""
    return [Node(name, running.address(name), running.http(name)) for name in running.nodes()]


def find_nodes(lookupd: str) -> list[Node]:
    """Returns the nsqd that nsqlookupd knows at an HTTP address, named by their own addresses."""
    try:
        found = interface.find_nsqd(lookupd)
    except (OSError, ValueError) as error:
        raise EnvironmentFailure(
            f"nsqlookupd does not answer at {lookupd}: {error}",
            "name its HTTP address, such as 127.0.0.1:4161",
        ) from error
    if not found:
        raise EnvironmentFailure(
            f"nsqlookupd at {lookupd} knows no nsqd", "start nsqd with --lookupd-tcp-address"
        )
    return [Node(each.address, each.address, each.http) for each in found]


def find_timeout_ms(node: Node) -> int:
    """Returns how long a node waits for a FIN; raises EnvironmentFailure."""
    with _connected(node):
        connection = Connection(node.address, NO_HEARTBEAT)
        connection.close()
    found = connection.features.get("msg_timeout")
    return found if isinstance(found, int) else 0


def create_channels(nodes: Sequence[Node], plan: Plan, running: NsqNodes | None) -> None:
    """Creates the channels before anything is published, so that each of them gets every message."""
    for node in nodes:
        for channel in plan.channels:
            if running is not None:
                running.create_channel(node.name, plan.topic, channel)
                continue
            with _connected(node):
                interface.create_channel(node.http, plan.topic, channel)


def _record(
    folder: Path,
    settings: Settings,
    nodes: Sequence[Node],
    running: NsqNodes | None,
    watch: Callable[[float], None] | None,
) -> int:
    timeout_ms = min(find_timeout_ms(node) for node in nodes)
    names = [node.name for node in nodes]
    plan = schedule(settings.faults, names, settings.seconds, settings.seed)
    with Recording(folder, "nsq", "queue", settings.as_text()) as recording:
        for name in names:
            recording.node(name)
        for channel in settings.plan.channels:
            recording.group(channel)
        faults = Faults(recording, plan, running)
        create_channels(nodes, settings.plan, running)
        recorder = NsqRecorder(recording, timeout_ms, settings.attempts_max)
        work = NsqWorkload(recorder, nodes, settings.plan, timeout_ms)
        # What others publish to the topic, or left there, has producer -1 or an unknown number.
        recording.producers_complete = running is not None
        load = Load(settings.seconds, settings.rate)
        run(recording, Workload(work.clients(), work.read, watch or _ignore), load, faults)
    return recording.events


def _check(settings: Settings) -> None:
    """Raises ModelError for what nsqd would refuse, and for what nobody could do."""
    for name in (settings.plan.topic, *settings.plan.channels):
        if not _NAME.fullmatch(name.removesuffix("#ephemeral")):
            raise ModelError(
                f"NSQ has no topic or channel `{name}`",
                hint="use up to 64 letters, digits, `.`, `_` and `-`",
            )
    if not settings.plan.channels or len(set(settings.plan.channels)) < len(settings.plan.channels):
        raise ModelError(
            "the channels must be different, and there must be one", hint="write --channels a,b"
        )
    if settings.lookupd and (settings.nsqd_options() or settings.faults):
        raise ModelError(
            "--lookupd uses nsqd that run already: they keep their options, and get no faults",
            hint="leave out --lookupd, or the options of nsqd and --faults",
        )
    unable = [kind for kind in settings.faults if kind not in ("kill", "pause")]
    if unable:
        raise ModelError(f"nsqd cannot get the fault `{unable[0]}`", hint="choose kill, pause or none")


def _ignore(seconds: float) -> None:
    """Watches nothing."""


@contextmanager
def _connected(node: Node) -> Iterator[None]:
    """Turns a failure of the network into an EnvironmentFailure."""
    try:
        yield
    except (OSError, Refused) as error:
        raise EnvironmentFailure(
            f"{node.name} does not answer: {error}", "start it, or wait until nsqlookupd has noticed"
        ) from error
