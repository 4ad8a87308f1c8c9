"""The breadth-first loop with hash compaction: of a visited state, only a hash of a few bits is kept.

A state whose hash is known is taken for visited, so a state may be *omitted*, with all that only it leads
to. Rows, or their keys, are needed only of states that are found but not expanded yet. There is one worker.

A hash is a slot of a table by itself. Its upper bits decide where its lookup begins, so a larger table is
made from the hashes alone, in their order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from veristream.native.loop import loop
from veristream.native.primitives import call_4, load_loose, prefetch, store_loose
from veristream.search.reach.expand import (
    ACTION_HIT,
    ARENA_SIZE,
    COMPLETE,
    FAULT,
    FLUSH,
    HIT,
    NEED_ARENA,
    NEED_BUFFER,
    NEED_TABLE,
    NO_ROOM,
    QUANTUM,
    TABLE_LIMIT,
    TOO_SMALL,
    TRANSITIONS,
    WATCH_ACTIONS,
    Code,
    Own,
    Work,
    hit_any,
    key_at,
    next_level,
    note,
    note_bits,
    note_end,
    observe,
    pack_all,
    take,
)
from veristream.search.reach.packing import unpack
from veristream.search.reach.tree import note_expanded, note_new, tree_length
from veristream.search.reach.visited import Store, fingerprint, write


class Hashes(NamedTuple):
    """The table of hashes, in slots of so many bytes; a slot after the last one is for the hash 0.

    A hash is what is left of a fingerprint after `print_shift`. The upper `home_bits` of its bits decide
    where its lookup begins: those that are left after `home_shift`. `tree` is the address of the search's
    tree, which may have so many bits.
    """

    table: int
    slot_count: int
    slot_size: int
    mask: int
    print_shift: int
    home_shift: int
    home_bits: int
    tree: int
    tree_limit: int


@loop
def _right(word, shift):  # type: ignore[no-untyped-def]
    """The word shifted to the right, as an unsigned number."""
    return np.int64(np.uint64(word) >> np.uint64(shift))


@loop
def _home(hashes, hash_):  # type: ignore[no-untyped-def]
    """The slot at which the lookup of a hash begins."""
    return (_right(hash_, hashes.home_shift) * hashes.slot_count) >> hashes.home_bits


@loop
def add_hash(hashes: Hashes, hash_: int) -> bool:
    """Adds a hash; returns whether it is new."""
    position = _home(hashes, hash_)
    if hash_ == 0:
        place = hashes.table + hashes.slot_size * hashes.slot_count
        word = load_loose(place)
        store_loose(place, word | 1)
        return word & 1 == 0
    while True:
        place = hashes.table + hashes.slot_size * position
        word = load_loose(place)
        found = word & hashes.mask
        if found == hash_:
            return False
        if found == 0:
            store_loose(place, word | hash_)
            return True
        position += 1
        if position == hashes.slot_count:
            position = 0


@loop
def move_hashes(old: Hashes, new: Hashes, first: int, last: int) -> None:
    """Puts the hashes in slots first..last-1 of a table into a larger one."""
    for position in range(first, last):
        found = load_loose(old.table + old.slot_size * position) & old.mask
        if found != 0:
            add_hash(new, found if position < old.slot_count else 0)


@loop
def _hash_all(store, hashes, own, first, last):  # type: ignore[no-untyped-def]
    """Computes the hashes of rows first..last-1 of the buffer, and prefetches their slots. It hashes rows:
    keys change when a field of theirs becomes wider."""
    width = store.word_count
    for k in range(first, last):
        print_ = fingerprint(own.out_rows.ctypes.data + 8 * width * k, width)
        own.prints[k] = _right(print_, hashes.print_shift)
        prefetch(hashes.table + hashes.slot_size * _home(hashes, own.prints[k]))


@loop
def _keep(store, hashes, own, k, fresh):  # type: ignore[no-untyped-def]
    """Keeps row k of the buffer as the state `fresh` if its hash is new; returns whether it is."""
    if not add_hash(hashes, own.prints[k]):
        return False
    write(store, fresh, key_at(store, own, k))
    return True


@loop
def enter_hashed(store: Store, hashes: Hashes, own: Own) -> None:
    """Makes the first row in the buffer the first state."""
    pack_all(store, own, 0, 1, 0)
    _hash_all(store, hashes, own, 0, 1)
    _keep(store, hashes, own, 0, 0)


@loop
def _fill(code, store, hashes, work, own):  # type: ignore[no-untyped-def]
    """Expands states of the piece in hand into the buffer; returns how many successors it holds, or why it
    holds none, as `expand.fill` does."""
    rows, actions = own.out_rows.ctypes.data, own.out_actions.ctypes.data
    used = 0
    index, end = own.pending[0], own.pending[1]
    while index < end and used < FLUSH:
        row = unpack(store, index, own.scratch.ctypes.data)
        first = rows + 8 * store.word_count * used
        count = call_4(code.successors, row, first, actions + 8 * used, own.out_actions.size - used)
        if count < 0 or not pack_all(store, own, used, used + count, row):
            if used == 0:
                return TOO_SMALL if count < 0 else NO_ROOM
            break
        if count == 0:
            note_end(code, work, own, row, index)
        _hash_all(store, hashes, own, used, used + count)
        for k in range(used, used + count):
            own.sources[k] = index
        used += count
        index += 1
    own.pending[0] = index
    return used


@loop
def _look_up(code, store, hashes, work, own, expanding, used):  # type: ignore[no-untyped-def]
    """Adds the successors in the buffer that are new, and notes them in the tree; their sources are the
    states from `expanding` on."""
    rows = own.out_rows.ctypes.data
    fresh, known = work.counts[0], 0
    for k in range(used):
        entry, source = own.out_actions[k], own.sources[k]
        while expanding < source:
            note_expanded(hashes.tree)
            expanding += 1
            known = 0
        if entry < 0:
            note(own, FAULT, source, entry & 0xFFFFFFFF)
            known += 1
            continue
        hit = (entry >> 32) & work.control[WATCH_ACTIONS]
        if hit != 0:
            note_bits(own, hit, ACTION_HIT, source, source)
        own.tally[TRANSITIONS] += 1
        if not _keep(store, hashes, own, k, fresh):
            known += 1
            continue
        note_new(hashes.tree, known)
        known = 0
        if code.propositions != 0:
            observe(code, work, own, rows + 8 * store.word_count * k, source, fresh)
        fresh += 1
    while expanding < own.pending[0]:
        note_expanded(hashes.tree)
        expanding += 1
    work.counts[0] = fresh


@loop
def expand_hashed(code: Code, store: Store, hashes: Hashes, work: Work, own: Own, quantum: int) -> int:
    """Expands about `quantum` states; returns why it stopped."""
    done = 0
    while done < quantum:
        if own.pending[0] >= own.pending[1] and not take(work, own, 0):
            if next_level(work) == 0:
                return COMPLETE
            continue
        before = own.pending[0]
        used = _fill(code, store, hashes, work, own)
        if used < 0:
            return NEED_BUFFER if used == TOO_SMALL else NEED_TABLE
        _look_up(code, store, hashes, work, own, before, used)
        done += own.pending[0] - before
        if hit_any(own):
            return HIT
        if work.counts[0] > work.control[TABLE_LIMIT]:
            return NEED_TABLE
        if work.counts[0] + own.out_actions.size > work.control[ARENA_SIZE]:
            return NEED_ARENA
        if tree_length(hashes.tree) > hashes.tree_limit:
            return NEED_ARENA
    return QUANTUM
