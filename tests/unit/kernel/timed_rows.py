"""Reads the rows that a timed kernel writes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from veristream.ir.clocks import count_clocks
from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.state import State
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.kernel.clocks import clock_word_count, invariant_count_max
from veristream.kernel.layout import decode, encode
from veristream.kernel.load import Kernel, load_kernel
from veristream.kernel.watch import Watch
from veristream.source import Source

Bound = tuple[int, int, str, int]  # left, right, `<` or `<=`, limit


@dataclass(frozen=True, slots=True)
class Entry:
    """A successor as the kernel writes it; a failing action has no state."""

    action: int
    fails: bool
    state: State | None
    sets: tuple[int, ...]
    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Calls a kernel's entries."""

    network: Network
    kernel: Kernel

    def successors(self, state: State, capacity: int = 64) -> list[Entry] | None:
        """Returns all successors; None if there is no room for them."""
        network, words = self.network, self.kernel.layout.word_count
        row = encode(self.kernel.layout, network, state)
        rows = np.full((capacity, words + clock_word_count(network)), 77, np.int64)
        entries = np.zeros(capacity, np.int64)
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, ctypes.c_int64)
        found = kind(self.kernel.successors)(
            row.ctypes.data, rows.ctypes.data, entries.ctypes.data, capacity
        )
        if found < 0:
            return None
        return [self._entry(int(entries[k]), rows[k]) for k in range(found)]

    def _entry(self, entry: int, row: np.ndarray) -> Entry:
        words, clocks = self.kernel.layout.word_count, count_clocks(self.network)
        fails = entry < 0
        state = None if fails else decode(self.kernel.layout, self.network, row[:words].view(np.uint64))
        rest = [int(word) for word in row[words:]]
        bounds = tuple(bound(word) for word in rest[clocks + 1 : clocks + 1 + rest[clocks]])
        return Entry(entry & 0xFFFFFFFF, fails, state, tuple(rest[:clocks]), bounds)

    def timing(self, state: State) -> tuple[int, tuple[Bound, ...]]:
        """Returns the flags of a state, and the bounds of its invariants."""
        row = encode(self.kernel.layout, self.network, state)
        out = np.zeros(1 + invariant_count_max(self.network), np.int64)
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
        flags = int(kind(self.kernel.timing)(row.ctypes.data, out.ctypes.data))
        return flags, tuple(bound(int(word)) for word in out[1 : 1 + out[0]])

    def tests(self, state: State, number: int) -> tuple[int, tuple[Bound, ...]]:
        """Returns the number of bounds of a test, or -1 if it fails, and the bounds."""
        row = encode(self.kernel.layout, self.network, state)
        out = np.zeros(16, np.int64)
        kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        count = int(kind(self.kernel.tests)(row.ctypes.data, number, out.ctypes.data))
        return count, tuple(bound(int(word)) for word in out[1 : 1 + max(count, 0)])


def rows_of(text: str, watch: Watch | None = None) -> tuple[Rows, State]:
    """Returns the kernel of a timed network and its initial state."""
    network = read_network(Source("m.net", f"network m timed {text}"))
    verify(network)
    return Rows(network, load_kernel(network, watch or Watch())), Interpreter(network).initial()


def bound(word: int) -> Bound:
    """Decodes a bound."""
    limit = word & 0xFFFFFFFF
    limit -= (limit >> 31) << 32
    return word >> 48, word >> 32 & 0xFFFF, "<=" if limit & 1 else "<", limit >> 1
