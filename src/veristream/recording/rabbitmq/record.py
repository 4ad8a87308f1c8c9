"""`veristream record rabbitmq`: nodes, a queue, its clients, faults, and the history that comes of them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from veristream.errors import ModelError
from veristream.history.store.document import MANIFEST_NAME
from veristream.recording.faults import ON_PROXY, Faults, Kind, schedule
from veristream.recording.rabbitmq.running import RunningRabbit, local_rabbit, parameters, without_password
from veristream.recording.rabbitmq.settings import Settings
from veristream.recording.rabbitmq.workloads import make_workload
from veristream.recording.recording import Recording
from veristream.recording.workload import Load, run

Tell = Callable[[str], None]
"""Is told what is done now."""

WORKLOAD = "queue"


@dataclass(frozen=True, slots=True)
class Request:
    """What to record. `urls` are nodes that run; without them, `nodes` are started here."""

    faults: Sequence[Kind] = ()
    seconds: float = 30.0
    rate: float = 200.0
    nodes: int = 3
    seed: int = 0
    settings: Settings = field(default_factory=Settings)
    urls: Sequence[str] = ()


def record_rabbitmq(folder: Path, request: Request, tell: Tell = lambda what: None) -> int:
    """Records producers and consumers of a queue into a new folder; returns the number of events.

    The history is whole however this ends, and complete if the workload came to its end. Raises ModelError
    for what cannot be asked, EnvironmentFailure if RabbitMQ fails.
    """
    _check(folder, request)
    tell("connecting" if request.urls else "starting nodes")
    with _open(request) as rabbit:
        settings = {
            **rabbit.describe(),
            "rate": str(request.rate),
            "seconds": str(request.seconds),
            "seed": str(request.seed),
            "faults": ",".join(request.faults) or "none",
        }
        plan = schedule(request.faults, rabbit.names(), request.seconds, request.seed)
        with Recording(folder, "rabbitmq", WORKLOAD, settings) as recording:
            for name in rabbit.names():
                recording.node(name)
            queue = rabbit.create_queue(recording, "orders")
            faults = Faults(recording, plan, rabbit.nodes, rabbit.network)

            def watch(seconds: float) -> None:
                left = max(0.0, request.seconds - seconds)
                tell(f"{recording.events:,} events, {left:.0f} s to go" if left else "ending")

            load = Load(request.seconds, request.rate)
            run(recording, make_workload(rabbit, recording, queue, watch), load, faults)
        return recording.events


def _check(folder: Path, request: Request) -> None:
    """Finds out what is wrong before any node is started."""
    if (folder / MANIFEST_NAME).exists() or (folder / "events").exists():
        raise ModelError(
            f"`{folder}` already contains a history", hint="name another folder with --to, or remove it"
        )
    if request.settings.policy and request.settings.kind != "mirrored":
        raise ModelError("only mirrored queues have a policy", hint="choose --queue mirrored")
    if not request.urls:
        return
    for url in request.urls:
        parameters(url)
    if request.faults:
        raise ModelError(
            f"the fault `{request.faults[0]}` needs nodes that were started here",
            hint="leave out --url, or choose --faults none",
        )
    if request.settings.broker:
        raise ModelError(
            "settings of nodes apply only to those that are started here",
            hint="leave out --url, or set queue.KEY and client.KEY only",
        )
    if request.settings.kind == "mirrored":
        raise ModelError(
            "the policy that mirrors a queue is set only on nodes that are started here",
            hint="leave out --url; or choose --queue classic if RabbitMQ has a policy for `orders-`",
        )


@contextmanager
def _open(request: Request) -> Iterator[RunningRabbit]:
    if request.urls:
        rabbit = RunningRabbit({_name(url): url for url in request.urls}, request.settings)
        rabbit.check()
        yield rabbit
        return
    proxied = any(each in ON_PROXY for each in request.faults)
    with (
        tempfile.TemporaryDirectory(prefix="veristream-rabbitmq-") as folder,
        local_rabbit(Path(folder), request.settings, request.nodes, proxied=proxied) as rabbit,
    ):
        yield rabbit


def _name(url: str) -> str:
    """Returns what a node that somebody else runs is called: its host and port."""
    return without_password(url).partition("://")[2].rpartition("@")[2].partition("/")[0]
