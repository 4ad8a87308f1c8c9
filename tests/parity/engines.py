"""State spaces as the interpreter, the kernel and the search compute them, in a comparable form."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.state import State
from veristream.kernel.layout import decode, encode
from veristream.kernel.load import Kernel, load_kernel
from veristream.kernel.watch import Watch
from veristream.search.reach import expand as native
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import Plan, begin, begin_deep
from veristream_testing.states import explore

Steps = list[tuple[int, State]]


@dataclass(frozen=True)
class Space:
    """A fully explored state space."""

    states: frozenset[State]
    transitions: int
    depth: int
    deadlocks: frozenset[State]
    terminated: frozenset[State]


def interpreted(network: Network, state_count_max: int) -> Space | None:
    """The space as the interpreter finds it; None if an action fails or the space is too large."""
    found = explore(network, state_count_max)
    if found.failures or len(found.states) >= state_count_max:
        return None
    return Space(
        frozenset(found.states),
        found.transitions,
        found.depth,
        frozenset(found.deadlocks),
        frozenset(found.terminated),
    )


def searched(network: Network, workers: int, deep: bool = False) -> Space | None:
    """The space as kernel and search find it; None if an action fails. Depth-first, it is deeper."""
    kernel = load_kernel(network, Watch())
    code = Code(kernel.successors, 0, kernel.measure, kernel.terminated)
    initial = encode(kernel.layout, network, Interpreter(network).initial())
    if deep:
        exploration = begin_deep(code, initial, Plan(), memory_max_mib=64)
    else:
        exploration = begin(code, initial, Plan(compact=True), workers, memory_max_mib=64)
    while not exploration.complete:
        exploration.advance()
        if any(hit.kind == native.FAULT for hit in exploration.hits):
            return None
    exploration.close()
    states, deadlocks, terminated = set(), set(), set()
    for arena in range(workers):
        first = arena * exploration.arena_size
        for index in range(first, first + int(exploration.work.counts[arena * native.STRIDE])):
            state = decode(kernel.layout, network, exploration.row(index))
            states.add(state)
            if not kernel_steps(kernel, network, state)[0]:
                (terminated if is_terminated(kernel, network, state) else deadlocks).add(state)
    assert len(states) == exploration.state_count, "a state is stored twice"
    return Space(
        frozenset(states),
        exploration.counts.transitions,
        exploration.counts.depth,
        frozenset(deadlocks),
        frozenset(terminated),
    )


def kernel_steps(kernel: Kernel, network: Network, state: State) -> tuple[Steps, set[int]]:
    """The sorted steps of one state from the kernel itself, and the actions that fail."""
    row = encode(kernel.layout, network, state)
    capacity = 4096
    rows = np.zeros((capacity, len(row)), np.uint64)
    entries = np.zeros(capacity, np.int64)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64)
    count = kind(kernel.successors)(row.ctypes.data, rows.ctypes.data, entries.ctypes.data, capacity)
    assert count >= 0
    steps = [
        (int(entries[i]) & 0xFFFFFFFF, decode(kernel.layout, network, rows[i]))
        for i in range(count)
        if entries[i] >= 0
    ]
    failing = {int(entry) & 0xFFFFFFFF for entry in entries[:count] if entry < 0}
    return sorted(steps, key=repr), failing


def is_terminated(kernel: Kernel, network: Network, state: State) -> bool:
    """Whether the kernel calls a state without a step terminated."""
    row = encode(kernel.layout, network, state)
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
    return bool(kind(kernel.terminated)(row.ctypes.data))
