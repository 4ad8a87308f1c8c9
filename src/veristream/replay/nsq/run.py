"""Executes a plan on an nsqd and an nsqlookupd that are started for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from veristream.brokers.nsq.build import VERSION
from veristream.brokers.nsq.interface import create_channel
from veristream.brokers.nsq.lookup_frames import LookupFrames
from veristream.brokers.nsq.nodes import LOOKUP, NsqNodes
from veristream.brokers.proxy.network import ProxyNetwork
from veristream.recording.nsq.clients import Node, NsqRecorder
from veristream.recording.nsq.record import find_timeout_ms, name_nodes
from veristream.recording.recording import Recording
from veristream.replay.course import Tell, execute
from veristream.replay.execution import Given, Seen
from veristream.replay.nsq.clients import Place, channel_of
from veristream.replay.nsq.settings import Settings, read_settings
from veristream.replay.nsq.stage import NSQD, WORDS, Shape, on_stage
from veristream.replay.order import observe_order
from veristream.replay.plan import Plan

NODES: Final = 1
"""The models have one nsqd."""


def execute_on_nsq(plan: Plan, given: Given, folder: Path, tell: Tell, say: Callable[[str], None]) -> Seen:
    """Starts the nodes, executes the plan, reads what came of it; the recording is in `folder/history`."""
    WORDS.check(plan, given.observes)
    settings = read_settings(given.settings)
    say("starting NSQ")
    with (
        _running(folder / "brokers", settings) as (nodes, network),
        Recording(
            folder / "history", "nsq", given.title, {"version": VERSION, **given.settings}
        ) as recording,
    ):
        (node,) = name_nodes(nodes)
        recorder = NsqRecorder(recording, find_timeout_ms(node))
        place = Place(recorder, node, nodes.lookup, f"replay-{uuid4().hex[:8]}", given.seconds)
        if settings.channels_first:
            _create_channels(plan, place)
        shape = Shape(plan.processes, plan.held if given.steered else Counter())
        with on_stage(place, network, recording, shape) as stage:
            course = execute(plan, stage, tell, steered=given.steered)
            say("reading what came of it")
            lookups, seen = stage.observe()
        recording.finish()
        say("stopping NSQ")
    order, evidence = observe_order(folder / "history", _names(plan, node))
    return Seen(course, evidence=(*evidence, *seen), observed=(order, lookups))


@contextmanager
def _running(folder: Path, settings: Settings) -> Iterator[tuple[NsqNodes, ProxyNetwork]]:
    """Starts an nsqd that reaches nsqlookupd through a proxy."""
    with NsqNodes(folder, settings.nsqd) as nodes:
        nodes.create(NODES)
        nodes.configure_lookup(settings.nsqlookupd)
        with ProxyNetwork({LOOKUP: nodes.address(LOOKUP)}, partial(LookupFrames, NSQD)) as network:
            nodes.configure({**settings.nsqd, "lookupd-tcp-address": network.address(LOOKUP)})
            nodes.start()
            yield nodes, network


def _create_channels(plan: Plan, place: Place) -> None:
    subscribing = [one.process for one in plan.steps if getattr(one.counterpart, "verb", "") == "subscribe"]
    for process in dict.fromkeys(subscribing):
        create_channel(place.node.http, place.topic, channel_of(process))


def _names(plan: Plan, node: Node) -> list[str]:
    """Returns what the processes of the run are called in the recording."""
    return [f"{process}@{node.name}" for process in plan.processes]
