"""Scenarios: short recordings of NSQ whose outcome is known, each with the settings that decide it.

| settings | what an audit finds |
| --- | --- |
| `Kill()` | messages in memory are lost |
| `Kill(how="stop")` | none is lost: nsqd writes them to disk when it is asked to stop |
| `Kill(mem_queue_size=0)` | lost: they were written, and not synchronised with the disk's metadata |
| `Kill(mem_queue_size=0, wait_s=3)` | none is lost |
| `Kill(mem_queue_size=0, sync_every=1)` | none is lost |
| `Kill(mem_queue_size=0, sync_every=1, unread=5)` | those under way to a consumer are lost |
| `Kill(mem_queue_size=0, sync_every=1, held=5)` | those that it received never come again |
| `Kill(mem_queue_size=0, synced=True, finished=5)` | the finished ones come again |
| `Kill(mem_queue_size=0, synced=True, more=100)` | as many come twice as were sent after the first ones |
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from veristream.brokers.nsq.interface import TopicDepth, read_depths
from veristream.brokers.nsq.nodes import NsqNodes
from veristream.brokers.nsq.protocol import Message
from veristream.errors import EnvironmentFailure
from veristream.recording.nsq.clients import Consumer, Node, NsqRecorder
from veristream.recording.nsq.draining import tell_left
from veristream.recording.nsq.record import create_channels, name_nodes
from veristream.recording.nsq.workload import Plan, read_channel
from veristream.recording.recording import Recording

TOPIC: Final = "orders"
CHANNEL: Final = "billing"
PATIENCE_S: Final = 20.0
SCAN_S: Final = 10.0
"""nsqd looks for timeouts in a new channel after 5 s, and each tenth of a second from then on."""

POLL_S: Final = 0.02
_META: Final = ".diskqueue.meta.dat"
DEFAULT_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Kill:
    """A node is stopped while it has messages; None is the default of nsqd.

    `messages` are published; if `synced`, nsqd has them on disk and writes down that it has (which it does
    every 2 s); then `more` are published. A consumer receives and finishes `finished` of them, receives
    `held`, and nsqd sends it `unread`. After `wait_s` the node is killed (-9), or asked to stop (SIGTERM),
    and started again, and what is left is read to the end.
    """

    how: Literal["kill", "stop"] = "kill"
    messages: int = 100
    mem_queue_size: int | None = None
    sync_every: int | None = None
    synced: bool = False
    more: int = 0
    wait_s: float = 0.0
    finished: int = 0
    held: int = 0
    unread: int = 0

    def options(self) -> dict[str, str]:
        """Returns the options of nsqd."""
        given = {"mem-queue-size": self.mem_queue_size, "sync-every": self.sync_every}
        return {name: str(value) for name, value in given.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Stage:
    """One nsqd with an empty channel, and the recording."""

    running: NsqNodes
    node: Node
    recorder: NsqRecorder
    recording: Recording

    def publish(self, count: int) -> None:
        """Publishes messages one after the other, each of which nsqd acknowledges, into the channel.

        A kill may lose one that nsqd moves from the topic to the channel at that moment, whatever its
        options are: it is waited for.
        """
        publisher = self.recorder.publisher(self.node, TOPIC)
        for _ in range(count):
            if not publisher.publish(b""):
                raise EnvironmentFailure("nsqd did not take a message", f"see {self.running.folder}")
        publisher.close()
        wait_for(self.node, "move all messages to the channel", lambda found: not found.depth)

    def wait_for_sync(self, count: int) -> None:
        """Waits until nsqd wrote down that the channel has so many messages on disk, and the topic none.

        From then on it takes 2 s until it writes down again how far it has read and written its files.
        """
        folder = self.running.folder / self.node.name / "data"
        paths = [folder / f"{name}{_META}" for name in (TOPIC, f"{TOPIC}:{CHANNEL}")]
        deadline_s = time.monotonic() + PATIENCE_S
        while [_read_depth(path) for path in paths] != [0, count]:
            if time.monotonic() > deadline_s:
                raise EnvironmentFailure("nsqd did not synchronise its files", f"see {folder}")
            time.sleep(POLL_S)

    def consume(self, name: str = "consumer") -> Consumer:
        """Subscribes a consumer."""
        return self.recorder.consumer(self.node, TOPIC, CHANNEL, name)

    def read(self) -> None:
        """Reads the channel to its end, after which the recording is complete."""
        if not read_channel(self.recorder, self.node, TOPIC, CHANNEL, PATIENCE_S):
            raise EnvironmentFailure("the channel cannot be read to its end", "run it again")
        self.recording.finish()


@contextmanager
def staged(folder: Path, options: dict[str, str], timeout_ms: int = DEFAULT_TIMEOUT_MS) -> Iterator[Stage]:
    """Starts one nsqd, and records into a folder."""
    with (
        tempfile.TemporaryDirectory(prefix="veristream-nsq-") as place,
        NsqNodes(Path(place), options) as running,
    ):
        running.create(1)
        running.start()
        nodes = name_nodes(running)
        create_channels(nodes, Plan(TOPIC, (CHANNEL,)), running)
        with Recording(folder, "nsq", "scenario", options) as recording:
            yield Stage(running, nodes[0], NsqRecorder(recording, timeout_ms), recording)


def record_kill(folder: Path, kill: Kill) -> None:
    """Records what a killed or stopped node loses and delivers again; see `Kill`."""
    with staged(folder, kill.options()) as stage:
        stage.publish(kill.messages)
        if kill.synced:
            stage.wait_for_sync(kill.messages)
        stage.publish(kill.more)
        under_way = kill.finished + kill.held + kill.unread
        consumer = stage.consume() if under_way else None
        if consumer is not None:
            finish_some(consumer, kill.finished)
            if kill.held:
                consumer.ready(kill.held)
                take(consumer, kill.held)
            consumer.ready(kill.held + kill.unread)
            _wait_until_in_flight(stage.node, kill.held + kill.unread)
        time.sleep(kill.wait_s)
        with stage.recording.incident(kill.how, stage.node.name):
            if kill.how == "kill":
                stage.running.kill(stage.node.name)
            else:
                stage.running.stop([stage.node.name])
            if consumer is not None:
                consumer.close()
            stage.running.start([stage.node.name])
        stage.read()


def record_timeouts(folder: Path, messages: int = 10, timeout_ms: int = 1000) -> None:
    """Records a consumer that keeps messages for longer than nsqd waits, so that another one gets them.

    Whatever the first one then finishes, nsqd refuses.
    """
    with staged(folder, {"msg-timeout": f"{timeout_ms}ms"}, timeout_ms) as stage:
        stage.publish(messages)
        slow, quick = stage.consume("slow"), stage.consume("quick")
        slow.ready(messages)
        kept = take(slow, messages)
        slow.ready(0)
        slow.settle()
        quick.ready(messages)
        again = take(quick, messages, SCAN_S + timeout_ms / 1000)
        for each in again:
            quick.finish(each)
        quick.settle()
        for each in kept:
            slow.finish(each)
        slow.settle()
        slow.close()
        quick.close()
        stage.read()


def record_ready(folder: Path, limits: Sequence[int] = (1, 5, 2, 10), messages: int = 25) -> None:
    """Records a consumer that changes RDY, and lets nsqd send as many messages as it permits."""
    with staged(folder, {}) as stage:
        stage.publish(messages * len(limits) + sum(limits))  # some are sent before nsqd takes RDY 0
        consumer = stage.consume()
        for limit in limits:
            consumer.ready(limit)
            taken = 0
            while taken < messages:
                _wait_until_in_flight(stage.node, min(limit, messages - taken))
                kept = take(consumer, min(limit, messages - taken))
                for each in kept:
                    consumer.finish(each)
                consumer.settle()
                taken += len(kept)
            consumer.ready(0)
            consumer.settle()
            while (message := consumer.receive(POLL_S)) is not None:
                consumer.finish(message)
        consumer.close()
        stage.read()


def take(consumer: Consumer, count: int, patience_s: float = PATIENCE_S) -> list[Message]:
    """Receives so many messages."""
    taken: list[Message] = []
    deadline_s = time.monotonic() + patience_s
    while len(taken) < count:
        message = consumer.receive(max(0.0, deadline_s - time.monotonic()))
        if message is None:
            raise EnvironmentFailure(
                f"nsqd delivered {len(taken)} of {count} messages in {patience_s:g} s", "run it again"
            )
        taken.append(message)
    return taken


def finish_some(consumer: Consumer, count: int) -> None:
    """Receives and finishes so many messages, and lets nsqd send no more than those."""
    for _ in range(count):
        consumer.ready(1)
        (message,) = take(consumer, 1)
        consumer.ready(0)
        consumer.finish(message)
    consumer.settle()


def wait_for(node: Node, what: str, is_so: Callable[[TopicDepth], bool]) -> None:
    """Waits until the depths at a node are so; raises EnvironmentFailure if they never are."""
    deadline_s = time.monotonic() + PATIENCE_S
    while (found := read_depths(node.http, TOPIC)) is None or not is_so(found):
        if time.monotonic() > deadline_s:
            raise EnvironmentFailure(f"nsqd did not {what}: {tell_left(found, CHANNEL)}", "run it again")
        time.sleep(POLL_S)


def _read_depth(path: Path) -> int | None:
    """Returns the depth that a queue on disk had when nsqd last wrote it down."""
    try:
        return int(path.read_text(encoding="ascii").partition("\n")[0])
    except (OSError, ValueError):  # there is none yet
        return None


def _wait_until_in_flight(node: Node, count: int) -> None:
    wait_for(node, f"send {count} messages", lambda found: found.channels[CHANNEL].in_flight >= count)
