"""Hash compaction: a breadth-first exploration that keeps a hash of each visited state, and may omit some.

The rows of states that are expanded are freed. A path is a list of steps from the initial state, which the
search's tree has in a few bits for each state.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from veristream.kernel.layout import Row
from veristream.search.memory import Reserve, reserve
from veristream.search.omission import bound_omission
from veristream.search.reach import expand as native
from veristream.search.reach.explore import Exploration, Plan, enter_initial, prepare
from veristream.search.reach.hashed import Hashes, enter_hashed, expand_hashed, move_hashes
from veristream.search.reach.packing import count_orbits
from veristream.search.reach.tree import follow, tree_length, walk_tree
from veristream.search.reach.visited import Store

MOVED_AT_ONCE = 1 << 20
"""So many slots of a table are freed at a time when a larger one takes over."""

TREE_SPARE = 1 << 26
"""Bytes of the tree for what is noted after its limit is exceeded, until the loop stops."""

HOME_BITS_MAX = 32


@dataclass(slots=True)
class HashedExploration(Exploration):
    """An exploration whose table consists of hashes; it has one worker."""

    initial: Row = field(kw_only=True)
    tree: Reserve = field(kw_only=True)
    freed: int = field(default=0, kw_only=True)  # states whose rows are freed
    freed_bytes: int = field(default=0, kw_only=True)
    orbits: int = field(default=0, kw_only=True)  # states that those stand for, if symmetry is used

    @property
    def hash_bits(self) -> int:
        """Bits of a hash."""
        assert self.plan.hash_bits is not None
        return self.plan.hash_bits

    @property
    def omission(self) -> float:
        """At most how probable it is that a state was omitted so far."""
        return bound_omission(self.state_count, self.hash_bits)

    @property
    def byte_count(self) -> int:
        """Memory in use for hashes, for states that are not expanded yet, and for the tree."""
        used = self.memory.byte_count(self.state_count - self.freed, 0)
        return used + int(tree_length(self.tree.address)) // 8

    def hashes(self) -> Hashes:
        """What loops know of the hashes."""
        table, bits = self.memory.table, self.hash_bits
        home_bits = min(bits, HOME_BITS_MAX)
        mask = -1 if bits == 64 else (1 << bits) - 1
        tree = self.tree.address, 8 * self.budget
        slots = table.address, table.slot_count, table.slot_size
        return Hashes(*slots, mask, 64 - bits, bits - home_bits, home_bits, *tree)

    def enter_first(self) -> None:
        """Makes the first row in the buffer the first state."""
        enter_hashed(self.store(), self.hashes(), self.own[0])

    def ranges(self) -> list[tuple[int, int]]:
        """The states whose rows are not freed."""
        return [(self.freed, self.state_count)]

    def _turn(self, store: Store, worker: int, alone: bool, quantum: int) -> int:
        reason = expand_hashed(self.code, store, self.hashes(), self.work, self.own[0], quantum)
        self._free_rows(store)
        return int(reason)

    def _free_rows(self, store: Store) -> None:
        """Frees the rows of states that are expanded."""
        first, last = self.freed, self.expanded
        if self.code.orbit:
            self.orbits += count_orbits(self.code.orbit, store, self.own[0].scratch, first, last)
        self.memory.rows.forget(self.freed_bytes, store.key_size * last)
        self.freed, self.freed_bytes = last, store.key_size * last

    def _renew_table(self, slots: int) -> None:
        """Moves the hashes into a larger table, in their order, while the old one is freed."""
        table, before = self.memory.table, self.hashes()
        if slots == before.slot_count:
            return  # only keys have changed
        old = table.memory
        table.resize(slots)
        end = before.slot_count + 1  # with the slot for 0
        for first in range(0, end, MOVED_AT_ONCE):
            last = min(first + MOVED_AT_ONCE, end)
            move_hashes(before, self.hashes(), first, last)
            old.forget(before.slot_size * first, before.slot_size * last)

    def rows_to(self, index: int) -> Iterable[Row]:
        """The rows of the states from the initial one to this one, along the tree of the search."""
        steps = np.zeros(int(self.work.control[native.DEPTH]) + 1, np.int64)
        counts = self.expanded, self.state_count
        steps = steps[: int(walk_tree(self.tree.address, *counts, index, steps))]
        width = self.word_count
        rows = np.zeros((len(steps) + 1) * width, np.int64)
        rows[:width] = self.initial.view(np.int64)
        follow(self.code, self.own[0], steps, rows, width)
        return list(rows.view(np.uint64).reshape(-1, width))

    def count_orbits(self, orbit: int) -> int:
        """How many states those found represent, if each is the canonical one of its orbit."""
        return self.orbits + Exploration.count_orbits(self, orbit)


def begin_hashed(
    code: native.Code, initial: Row, plan: Plan, bits: int, memory_max_mib: int | None = None
) -> HashedExploration:
    """Like `explore.begin`, for an exploration that keeps hashes of so many bits."""
    plan = replace(plan, compact=True, hash_bits=bits)
    made = prepare(code, len(initial), plan, 1, memory_max_mib)
    exploration = HashedExploration(
        code,
        made.word_count,
        made.workers,
        made.budget,
        plan,
        made.work,
        made.own,
        made.memory,
        None,
        initial=initial.copy(),
        tree=reserve(made.budget + TREE_SPARE),
    )
    enter_initial(exploration, initial)
    return exploration
