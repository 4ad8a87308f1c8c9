"""A workload for NSQ: publishers and consumers that survive faults, and the reading at the end."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from veristream.brokers.nsq.connection import Refused
from veristream.brokers.nsq.protocol import Message
from veristream.recording.nsq.clients import Consumer, Node, NsqRecorder, Publisher
from veristream.recording.nsq.draining import read_to_end
from veristream.recording.workload import Load, Work

AGAIN_S: Final = 0.1
"""How long a client leaves a node alone after a failure."""

HOLD_S: Final = 0.05
"""How long a consumer works on a message, which is in flight until then. At the default rate and RDY,
publishers are faster than that: nsqd has a backlog, as it has when it matters what a kill does to it."""

READ_READY: Final = 100
"""What the readers at the end allow in flight."""

MARGIN_S: Final = 15.0
"""How much longer than a message can be in flight the reading at the end may take."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the clients do: where, with how many publishers, how many messages a command, and RDY.

    Each channel has a consumer at each node. A `hold_s` above the timeout of messages makes nsqd deliver
    them again.
    """

    topic: str = "orders"
    channels: tuple[str, ...] = ("billing",)
    publishers: int = 2
    batch: int = 1
    ready: int = 5
    hold_s: float = HOLD_S


class NsqWorkload:
    """Makes the clients of a plan, for `recording.workload.run`."""

    def __init__(
        self, recorder: NsqRecorder, nodes: Sequence[Node], plan: Plan, msg_timeout_ms: int
    ) -> None:
        self._recorder = recorder
        self._nodes = tuple(nodes)
        self._plan = plan
        self._patience_s = msg_timeout_ms / 1000 + MARGIN_S

    def clients(self) -> Mapping[str, Work]:
        """Returns the work of each client, by its name."""
        plan = self._plan
        works: dict[str, Work] = {}
        for number in range(1, plan.publishers + 1):
            works[f"publisher-{number}"] = partial(self._publish, number)
        for channel in plan.channels:
            for node in self._nodes:
                works[f"{channel}@{node.name}"] = partial(self._consume, node, channel)
        return works

    def read(self) -> None:
        """Reads each channel at each node to its end; what cannot be read so is recorded as such."""
        for channel in self._plan.channels:
            for node in self._nodes:
                read_channel(self._recorder, node, self._plan.topic, channel, self._patience_s)

    def _publish(self, number: int, load: Load) -> None:
        plan = self._plan
        name = f"publisher-{number}"
        publishers = [self._recorder.publisher(node, plan.topic, name) for node in self._nodes]
        back_s = dict.fromkeys(publishers, 0.0)
        bodies = [b""] * plan.batch
        for beat in load.beats(plan.publishers * plan.batch):
            while not (up := [each for each in publishers if back_s[each] <= time.monotonic()]):
                if not load.wait(AGAIN_S):
                    break
            else:
                chosen: Publisher = up[(beat + number) % len(up)]
                if not chosen.publish(*bodies):
                    back_s[chosen] = time.monotonic() + AGAIN_S
        for each in publishers:
            each.close()

    def _consume(self, node: Node, channel: str, load: Load) -> None:
        plan = self._plan
        while not load.is_over:
            try:
                consumer = self._recorder.consumer(node, plan.topic, channel, channel)
            except (OSError, Refused):
                load.wait(AGAIN_S)
                continue
            try:
                consumer.ready(plan.ready)
                _serve(consumer, plan.hold_s, load)
            except (OSError, Refused):
                load.wait(AGAIN_S)
            finally:
                consumer.close()


def read_channel(recorder: NsqRecorder, node: Node, topic: str, channel: str, patience_s: float) -> bool:
    """Reads a channel at a node to its end with a consumer of its own; says whether that was reached."""
    consumer = recorder.consumer(node, topic, channel, f"{channel}-reader")
    try:
        consumer.ready(READ_READY)
        return read_to_end(consumer, patience_s)
    finally:
        consumer.close()


def _serve(consumer: Consumer, hold_s: float, load: Load) -> None:
    """Holds each message for a while and finishes it; leaves none in flight if it can help it."""
    held: deque[tuple[float, Message]] = deque()
    while not load.is_over:
        wait_s = max(0.0, held[0][0] - time.monotonic()) if held else AGAIN_S
        message = consumer.receive(min(wait_s, AGAIN_S))
        if message is not None:
            held.append((time.monotonic() + hold_s, message))
        while held and held[0][0] <= time.monotonic():
            consumer.finish(held.popleft()[1])
    consumer.ready(0)
    for _, each in held:
        consumer.finish(each)
    consumer.settle()
    while (message := consumer.receive(AGAIN_S)) is not None:  # what was under way before nsqd took RDY 0
        consumer.finish(message)
    consumer.settle()
