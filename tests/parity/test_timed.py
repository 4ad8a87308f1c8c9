"""Zones and regions give the same verdicts, kernel and interpreter the same steps, and traces are runs."""

from __future__ import annotations

import ctypes
from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.parity.timed_walk import check_verdict, ends_well, fewest_actions
from tests.strategies_timed import timed_networks, timed_properties
from tests.timed_oracle import REGIONS_MAX
from veristream.ir.clocks import Bound, ClockEffect, count_clocks
from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.oracle.timed import TimedInterpreter
from veristream.ir.property import Always, DeadlockFree, Property, Reachable
from veristream.ir.state import State
from veristream.ir.verify import verify
from veristream.kernel.clocks import NO_DELAY, clock_word_count, invariant_count_max
from veristream.kernel.layout import decode, encode
from veristream.kernel.load import Kernel, load_kernel
from veristream.kernel.watch import Watch
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.verdict import Trace, word
from veristream_testing.timed import TimedExploration, explore_timed

HEALTHY = list(HealthCheck)


@settings(max_examples=40, deadline=None, suppress_health_check=HEALTHY, derandomize=True)
@given(st.data())
def test_zones_decide_as_regions_do(data: st.DataObject) -> None:
    network = data.draw(timed_networks())
    drawn = data.draw(st.lists(timed_properties(network), min_size=2, max_size=2))
    wanted = [Property(f"p{i}", one.claim) for i, one in enumerate(drawn)]
    verify(replace(network, properties=tuple(wanted)))
    for property_, result in zip(wanted, check(network, wanted, Limits()), strict=True):
        space = explore_timed(replace(network, properties=(property_,)), REGIONS_MAX)
        assert space.complete
        expected = "holds" if space.decide(property_.claim) else "violated"
        assert word(result.verdict) == expected, property_
        check_verdict(network, property_, result.verdict)
        if result.verdict.trace is not None and result.verdict.trace.shortest:
            check_shortest(space, property_, result.verdict.trace)


def check_shortest(space: TimedExploration, property_: Property, trace: Trace) -> None:
    claim = property_.claim
    assert isinstance(claim, Always | Reachable | DeadlockFree)
    fewest = fewest_actions(space, ends_well(space.interpreter, claim))
    assert sum(step.action is not None for step in trace.steps) == fewest


@settings(max_examples=40, deadline=None, suppress_health_check=HEALTHY, derandomize=True)
@given(timed_networks())
def test_kernel_and_interpreter_take_the_same_steps(network: Network) -> None:
    interpreter = TimedInterpreter(network).untimed
    kernel = load_kernel(network, Watch())
    for state in sorted({now.state for now in explore_timed(network, 200).states}, key=repr):
        expected = [(taken.action, taken.state, taken.clocks) for taken in interpreter.steps(state)]
        assert steps_of(kernel, network, state) == sorted(expected, key=repr)
        check_staying(kernel, interpreter, network, state)


def steps_of(kernel: Kernel, network: Network, state: State) -> list[tuple[int, State, ClockEffect]]:
    """The kernel's steps from a state, with their effects on clocks, sorted."""
    row = encode(kernel.layout, network, state)
    capacity, words = 256, kernel.layout.word_count
    rows = np.zeros((capacity, words + clock_word_count(network)), np.int64)
    entries = np.zeros(capacity, np.int64)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    count = kind(kernel.successors)(row.ctypes.data, rows.ctypes.data, entries.ctypes.data, capacity)
    assert count >= 0 and (entries[:count] >= 0).all()
    found = [
        (
            int(entries[k]) & 0xFFFFFFFF,
            decode(kernel.layout, network, rows[k, :words].view(np.uint64)),
            effect_of([int(word) for word in rows[k, words:]], count_clocks(network)),
        )
        for k in range(count)
    ]
    return sorted(found, key=repr)


def effect_of(words: list[int], clocks: int) -> ClockEffect:
    resets = tuple((number, value) for number, value in enumerate(words[:clocks], 1) if value != -1)
    return ClockEffect(tuple(map(bound_of, words[clocks + 1 :][: words[clocks]])), resets)


def bound_of(word: int) -> Bound:
    """Encodes a bound as the kernel does: 16 bits for each clock, then twice the limit, odd if not
    strict."""
    limit = int(np.uint32(word & 0xFFFFFFFF).view(np.int32))
    return Bound(word >> 48, word >> 32 & 0xFFFF, limit // 2, limit % 2 == 0)


def check_staying(kernel: Kernel, interpreter: Interpreter, network: Network, state: State) -> None:
    """Compares what the kernel computes for a state: invariants, whether time may pass, locations."""
    row = encode(kernel.layout, network, state)
    out = np.zeros(1 + invariant_count_max(network), np.int64)
    two = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    flags = two(kernel.timing)(row.ctypes.data, out.ctypes.data)
    bounds = tuple(bound_of(int(word)) for word in out[1 : 1 + out[0]])
    assert bounds == interpreter.invariant_bounds(state)
    urgent_rows = np.zeros((256, kernel.layout.word_count + clock_word_count(network)), np.int64)
    entries = np.zeros(256, np.int64)
    four = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    urgent = four(kernel.urgent)(row.ctypes.data, urgent_rows.ctypes.data, entries.ctypes.data, 256)
    assert (flags & NO_DELAY == 0 and urgent == 0) == interpreter.may_delay(state)
    places = np.zeros(len(network.components), np.int64)
    two(kernel.places)(row.ctypes.data, places.ctypes.data)
    first = 0
    for place, at, component in zip(places, state.locations, network.components, strict=True):
        assert place == first + at
        first += len(component.locations)
