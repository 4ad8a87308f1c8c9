"""What an exploration keeps of its states, in one of three forms.

*Plain*: rows and parents as they are, for searches that read them from outside of the loops or send them to
others. *Compact*: keys instead of rows, and of the breadth-first tree only where each level begins; a
state's ancestors are found again when a path is asked for. *Hashed*: a hash of each state in the table,
and keys only of states that are not expanded yet; see `compaction`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.layout import Row
from veristream.search.memory import Reserve, Spill, reserve, spill
from veristream.search.reach.edges import Edges
from veristream.search.reach.fields import Fields
from veristream.search.reach.packing import MASK, OFFSET, read_row, repack
from veristream.search.reach.table import SLOT_BYTES, WORD_BYTES, Table
from veristream.search.reach.visited import Store, enter_again, size_arenas, store_of
from veristream.search.threads import lone_words

REFERENCE_BYTES = 4
"""Of a parent, or of a level's first state."""


@dataclass(frozen=True, slots=True)
class Form:
    """How states are stored: the words of a row, whether as keys, how many bits of a row of one word are
    used, and of how many bits hashes are, if only these are kept."""

    word_count: int
    compact: bool = False
    row_bits: int = 64
    hash_bits: int | None = None

    @property
    def state_bytes(self) -> int:
        """Bytes of a state in the plain form, or as few as another form is given room for."""
        if self.hash_bits is not None:
            return self.slot_size
        if not self.compact:
            return WORD_BYTES * self.word_count + REFERENCE_BYTES
        return SLOT_BYTES + max(self.key_size, self.word_count)

    @property
    def slot_size(self) -> int:
        """Bytes of a slot of the table."""
        return SLOT_BYTES if self.hash_bits is None else -(-self.hash_bits // 8)

    @property
    def key_size(self) -> int:
        """Bytes of the key of a row of one word."""
        return max(1, -(-self.row_bits // 8))


def scratch_of(word_count: int) -> NDArray[np.int64]:
    """Room for a row and a key."""
    return lone_words(2 * word_count)


@dataclass(slots=True)
class Memory:
    """The arrays: `parents` in the plain form, `levels` in the compact one, `fields` of packed rows."""

    form: Form
    workers: int
    arena_size: int
    rows: Reserve | Spill
    table: Table
    parents: Reserve | Spill | None = None
    levels: Reserve | None = None
    fields: Fields | None = None
    edges: Edges | None = None

    @property
    def arenas(self) -> tuple[int, int]:
        """The number of arenas, and the bits of a state's number in one."""
        return self.workers, size_arenas(self.arena_size, self.workers)[1]

    def store(self) -> Store:
        """What loops know of it."""
        table, form = self.table, self.form
        parents = 0 if self.parents is None else self.parents.address
        made = store_of(
            table.address, table.slot_count, self.rows.address, parents, form.word_count, self.arenas
        )
        if not form.compact:
            return made
        words, size, packing = 1, form.key_size, 0
        if self.fields is not None:
            words, size, packing = self.fields.key_words, self.fields.key_size, self.fields.address
        last = size - WORD_BYTES * (words - 1)
        mask = -1 if last == WORD_BYTES else (1 << 8 * last) - 1
        return made._replace(key_words=words, key_size=size, key_mask=mask, packing=packing)

    @property
    def parent_indices(self) -> NDArray[np.uint32]:
        """The parent of each state; in the plain form only."""
        assert self.parents is not None, "the compact form keeps no parents"
        return self.parents.words.view(np.uint32)

    def byte_count(self, states: int, levels: int) -> int:
        """Memory in use for so many states and levels."""
        if not self.form.compact:
            return states * self.form.state_bytes + self.table.byte_count
        size = self.form.key_size if self.fields is None else self.fields.key_size
        used = states * size + self.table.byte_count + REFERENCE_BYTES * self.workers * levels
        return used if self.fields is None else used + self.fields.byte_count

    def widen(self, ranges: list[tuple[int, int]]) -> bool:
        """Makes room in the fields that are full, and wider keys of all states if that takes more bits; in
        that case returns True, and the states have to be put into an empty table."""
        assert self.fields is not None
        old, was = self.store(), self.fields.header.copy()
        self.fields.grow()
        now = self.fields.header
        if (was[:, OFFSET : MASK + 1] == now[:, OFFSET : MASK + 1]).all():
            return False
        for first, last in reversed(ranges):
            repack(old, self.store(), was.reshape(-1), scratch_of(self.form.word_count), first, last)
        return True

    def row(self, index: int) -> Row:
        """The row of a state."""
        row = np.empty(self.form.word_count, np.int64)
        read_row(self.store(), index, scratch_of(len(row)), row)
        return row.view(np.uint64)


def make_memory(form: Form, workers: int, arena_size: int, spill_folder: str | None = None) -> Memory:
    """Room for `arena_size` states of each worker, in files if a folder for them is given."""
    size, _ = size_arenas(arena_size, workers)
    rows = _lend(WORD_BYTES * form.word_count * size * workers, spill_folder)
    memory = Memory(form, workers, size, rows, Table(slot_size=form.slot_size))
    if form.compact:
        memory.fields = Fields(form.word_count) if form.word_count > 1 else None
        if form.hash_bits is None:
            memory.levels = reserve(REFERENCE_BYTES * workers * (size + 2))
    else:
        memory.parents = _lend(REFERENCE_BYTES * size * workers, spill_folder)
    return memory


def _lend(byte_count: int, folder: str | None) -> Reserve | Spill:
    return reserve(byte_count) if folder is None else spill(byte_count, folder)


def enter_all(store: Store, ranges: list[tuple[int, int]], pool: ThreadPoolExecutor | None) -> None:
    """Puts all states of these ranges into an empty table."""
    if pool is None:
        for first, last in ranges:
            enter_again(store, first, last, False)
    else:
        list(pool.map(lambda bounds: enter_again(store, bounds[0], bounds[1], True), ranges))
