"""Faults by a schedule that a seed determines, each of which becomes an incident of the recording.

| fault | what happens to a node |
| --- | --- |
| kill | its process is killed (-9), and later started again |
| pause | its process is suspended (SIGSTOP), and later continued |
| cut | clients' connections to it are closed, and new ones too, until it is over |
| delay | what it and its clients say to each other arrives later |
| drop | its answers do not arrive, while connections stay open |

`cut`, `delay` and `drop` need a proxy between clients and brokers.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol, get_args

from veristream.errors import ModelError, suggest
from veristream.recording.recording import Recording

Kind = Literal["kill", "pause", "cut", "delay", "drop"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
NONE: Final = "none"

ON_PROXY: Final[frozenset[Kind]] = frozenset(("cut", "delay", "drop"))
"""The faults that a proxy makes."""

DELAY_S: Final = 0.5
QUIET: Final = 0.15
"""The part of the time at the start and between two faults in which all is well."""


class Nodes(Protocol):
    """The brokers, as `brokers.group.BrokerGroup` has them."""

    def kill(self, name: str) -> None: ...
    def pause(self, name: str) -> None: ...
    def resume(self, name: str) -> None: ...
    def start(self, names: Iterable[str] | None = None) -> Any: ...


class Network(Protocol):
    """The proxies in front of the brokers, by the broker's name."""

    def cut(self, name: str) -> None: ...
    def delay(self, name: str, seconds: float) -> None: ...
    def drop(self, name: str) -> None: ...
    def heal(self, name: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to a node, and when, in seconds from the start of the load."""

    kind: Kind
    node: str
    begin_s: float
    end_s: float


def read_kinds(words: str) -> tuple[Kind, ...]:
    """Reads names with commas between them; `none` is no fault. Raises ModelError for other names."""
    found: list[Kind] = []
    for word in filter(None, (each.strip() for each in words.split(","))):
        known = next((kind for kind in KINDS if kind == word), None)
        if known is not None:
            found.append(known)
        elif word != NONE:
            hint = suggest(word, (*KINDS, NONE), f"choose from {', '.join(KINDS)} and {NONE}")
            raise ModelError(f"unknown fault `{word}`", hint=hint)
    return tuple(found)


def schedule(kinds: Sequence[Kind], nodes: Sequence[str], seconds: float, seed: int) -> tuple[Fault, ...]:
    """Returns one fault after the other, of each kind in turn, on nodes that the seed chooses.

    Each lasts 1 to 3 s, but less in a short load; all are over before it ends.
    """
    if not kinds:
        return ()
    chance = random.Random(seed)
    quiet_s = QUIET * min(seconds, 10.0)
    found: list[Fault] = []
    at_s = quiet_s
    while True:
        kind = kinds[len(found) % len(kinds)]
        lasts_s = min(chance.uniform(1.0, 3.0), seconds / 3)
        if at_s + lasts_s + quiet_s > seconds:
            return tuple(found)
        found.append(Fault(kind, chance.choice(nodes), round(at_s, 3), round(at_s + lasts_s, 3)))
        at_s += lasts_s + quiet_s * chance.uniform(1.0, 2.0)


class Faults:
    """Makes the faults of a schedule happen in a thread of its own, until `end`."""

    def __init__(
        self,
        recording: Recording,
        plan: Sequence[Fault] = (),
        nodes: Nodes | None = None,
        network: Network | None = None,
    ) -> None:
        for each in plan:
            if (network if each.kind in ON_PROXY else nodes) is None:
                needed = "a proxy" if each.kind in ON_PROXY else "brokers that were started here"
                raise ModelError(
                    f"the fault `{each.kind}` needs {needed}",
                    hint="leave out --bootstrap, or choose --faults none",
                )
        self._recording = recording
        self._plan = plan
        self._nodes = nodes
        self._network = network
        self._over = threading.Event()
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins the schedule now."""
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ends the fault that is under way and forgets the rest; raises what went wrong."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        begin_s = time.monotonic()
        with suppress(_Over):
            try:
                for each in self._plan:
                    self._wait_until(begin_s + each.begin_s)
                    with self._recording.incident(each.kind, each.node):
                        try:
                            self._begin(each)
                            self._wait_until(begin_s + each.end_s)
                        finally:
                            self._heal(each)
            except _Over:
                raise
            except Exception as failure:  # noqa: BLE001  # raised again by `end`
                self._failure = failure

    def _wait_until(self, when_s: float) -> None:
        if self._over.wait(max(0.0, when_s - time.monotonic())):
            raise _Over

    def _begin(self, fault: Fault) -> None:
        nodes, network, name = self._nodes, self._network, fault.node
        if fault.kind in ON_PROXY:
            assert network is not None
            if fault.kind == "cut":
                network.cut(name)
            elif fault.kind == "delay":
                network.delay(name, DELAY_S)
            else:
                network.drop(name)
        else:
            assert nodes is not None
            if fault.kind == "kill":
                nodes.kill(name)
            else:
                nodes.pause(name)

    def _heal(self, fault: Fault) -> None:
        nodes, network, name = self._nodes, self._network, fault.node
        if fault.kind in ON_PROXY:
            assert network is not None
            network.heal(name)
        else:
            assert nodes is not None
            if fault.kind == "kill":
                nodes.start([name])
            else:
                nodes.resume(name)


class _Over(Exception):  # noqa: N818  # no error: the load is over
    """The schedule was ended."""
