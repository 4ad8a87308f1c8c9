"""The breadth-first loop, in native code: expand states, look their successors up, keep the new ones.

It knows neither the model's language nor how the work of a level is divided: it takes pieces of the current
level from all arenas, its own first, until the level or its quantum is used up. It notes the first *hit* of
each kind, for the driver to handle. Successors are looked up a buffer at a time, so that the table's cache
lines are prefetched before they are needed.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop
from veristream.native.primitives import call_1, call_2, call_4, fetch_add, set_half
from veristream.search.reach.edges import begin_edges, keep_edge
from veristream.search.reach.packing import pack, unpack
from veristream.search.reach.visited import Store, expect, find_or_add, fingerprint

# Why `expand` returns.
QUANTUM, LEVEL, COMPLETE, HIT, NEED_BUFFER, NEED_TABLE, NEED_ARENA = range(7)

# Hits: state propositions 0..62, action propositions 64..94, then these.
ACTION_HIT, DEADLOCK, TERMINAL, FAULT, WATCH_FAULT, HIT_COUNT = 64, 96, 97, 98, 99, 100

# The control words that all workers read.
WATCH_STATES, WATCH_ACTIONS, WATCH_ENDS, TABLE_LIMIT, ARENA_SIZE, WIDE, DEPTH, FIRST = range(8)
LEVELS = 8  # the address of the number of each level's first state, in each arena
STOPPED, CONTROL_COUNT = 9, 10  # whether a worker has stopped, so that the others do too
DEADLOCK_END, TERMINAL_END = 1, 2

# What each worker counts.
TRANSITIONS, SEEN, EDGES, TALLY_COUNT = range(4)

# Why `fill` has filled nothing.
TOO_SMALL, NO_ROOM = -1, -2

PIECE = 256
FLUSH = 512
STRIDE = 16  # words between the counters of two workers, so that they share no cache line


Table = Annotated[NDArray[np.int64], 2]


class Code(NamedTuple):
    """Addresses of the kernel's entries; `propositions` is 0 if nothing is watched."""

    successors: int
    propositions: int
    measure: int
    terminated: int
    reduction: int = 0  # address of the tables of partial-order reduction, if `reduced` drives the search
    row_bits: int = 64  # the bits of a row's first word that may be set, from the lowest on
    orbit: int = 0  # address of the entry that counts the states a row stands for, if symmetry is used


class Work(NamedTuple):
    """The memory that workers share: for each arena its count, the next state to expand, the end of the
    level."""

    counts: NDArray[np.int64]
    cursors: NDArray[np.int64]
    ends: NDArray[np.int64]
    control: NDArray[np.int64]


class Own(NamedTuple):
    """The memory of one worker."""

    out_rows: NDArray[np.int64]
    out_actions: NDArray[np.int64]
    prints: NDArray[np.int64]
    sources: NDArray[np.int64]
    pending: NDArray[np.int64]  # first and end of the piece in hand
    hits: Table  # per kind: source, target or action; -1 where there is none
    tally: NDArray[np.int64]
    goals: Table  # per measure: its goal's bit, and 1 for greatest or -1 for least
    best: Table  # per measure: value and state, -1 where there is none
    edges: NDArray[np.int64]  # addresses, see `edges`; the first one is 0 if no edges are kept
    keys: NDArray[np.int64]  # of the rows in the buffer, if rows are packed
    scratch: NDArray[np.int64]  # the row and the key of the state that is expanded


@loop
def next_level(work: Work) -> int:
    """Makes the states found the level to expand; returns its size."""
    size = 0
    arenas = work.ends.size // STRIDE
    following = work.control[DEPTH] + 1
    for arena in range(arenas):
        place = arena * STRIDE
        base = arena * work.control[ARENA_SIZE]
        end = base + work.counts[place]
        if work.control[LEVELS] != 0:
            set_half(work.control[LEVELS], following * arenas + arena, work.ends[place] - base)
        work.cursors[place] = work.ends[place]
        if arena == 0:
            work.control[FIRST] = work.cursors[place]
        size += end - work.ends[place]
        work.ends[place] = end
    if size > 0:
        work.control[DEPTH] = following
    return size


@loop
def take(work, own, worker):  # type: ignore[no-untyped-def]
    """Takes the next piece of the level; returns False if none is left."""
    arenas = work.ends.size // STRIDE
    for offset in range(arenas):
        place = ((worker + offset) % arenas) * STRIDE
        if work.cursors[place] < work.ends[place]:
            first = fetch_add(work.cursors.ctypes.data + 8 * place, PIECE)
            if first < work.ends[place]:
                own.pending[0] = first
                own.pending[1] = min(first + PIECE, work.ends[place])
                return True
    return False


@loop
def note(own, kind, source, other):  # type: ignore[no-untyped-def]
    if own.hits[kind, 0] < 0:
        own.hits[kind, 0] = source
        own.hits[kind, 1] = other


@loop
def note_bits(own, bits, first_kind, source, other):  # type: ignore[no-untyped-def]
    kind = first_kind
    while bits != 0:
        if bits & 1:
            note(own, kind, source, other)
        bits >>= 1
        kind += 1


@loop
def observe(code: Code, work: Work, own: Own, row: int, source: int, index: int) -> None:
    """Notes which propositions hold in a new state."""
    bits = call_1(code.propositions, row)
    if bits < 0:
        note(own, WATCH_FAULT, source, index)
        bits &= 0x7FFFFFFFFFFFFFFF
    own.tally[SEEN] |= bits
    hit = bits & work.control[WATCH_STATES]
    if hit != 0:
        note_bits(own, hit, 0, source, index)
    for m in range(own.goals.shape[0]):
        if bits & own.goals[m, 0]:
            value = call_2(code.measure, row, m)
            if value == np.int64(-0x8000000000000000):
                note(own, WATCH_FAULT, source, index)
            elif own.best[m, 1] < 0 or (value - own.best[m, 0]) * own.goals[m, 1] > 0:
                own.best[m, 0] = value
                own.best[m, 1] = index


@loop
def note_end(code, work, own, row, index):  # type: ignore[no-untyped-def]
    """Notes a state without a step."""
    watched = work.control[WATCH_ENDS]
    if watched & TERMINAL_END:
        note(own, TERMINAL, index, index)
    if watched & DEADLOCK_END and call_1(code.terminated, row) == 0:
        note(own, DEADLOCK, index, index)


@loop
def key_at(store, own, k):  # type: ignore[no-untyped-def]
    """The address of what the visited set compares: a row of the buffer, or its key."""
    if store.packing != 0:
        return own.keys.ctypes.data + 8 * store.key_words * k
    return own.out_rows.ctypes.data + 8 * store.word_count * k


@loop
def pack_all(store, own, first, last, source):  # type: ignore[no-untyped-def]
    """Makes the keys of rows first..last-1 of the buffer; returns whether all fields had room. `source` is
    the state whose successors they are, as `unpack` leaves it, or 0."""
    if store.packing == 0:
        return True
    width = store.word_count
    for k in range(first, last):
        row = own.out_rows.ctypes.data + 8 * width * k
        fails = own.out_actions[k] < 0  # then there is no row
        if not fails and not pack(
            store.packing, width, store.key_words, source, row, key_at(store, own, k)
        ):
            return False
    return True


@loop
def print_all(store, own, first, last):  # type: ignore[no-untyped-def]
    """Computes the fingerprints of rows first..last-1 of the buffer, and prefetches their slots."""
    size = store.word_count if store.packing == 0 else store.key_words
    for k in range(first, last):
        print_ = fingerprint(key_at(store, own, k), size)
        own.prints[k] = print_
        expect(store.table, store.slot_count, print_)


@loop
def pack_initial(store: Store, own: Own) -> int:
    """Makes the key and the fingerprint of the first row in the buffer; returns the address of the key."""
    pack_all(store, own, 0, 1, 0)
    print_all(store, own, 0, 1)
    return key_at(store, own, 0)


@loop
def fill(code, store, work, own):  # type: ignore[no-untyped-def]
    """Expands states of the piece in hand into the buffer; returns how many successors it holds, or why it
    holds none: TOO_SMALL if the buffer is too small for one state, NO_ROOM if a field is full."""
    rows, actions = own.out_rows.ctypes.data, own.out_actions.ctypes.data
    capacity = own.out_actions.size
    used, edge = 0, own.tally[EDGES]
    index, end = own.pending[0], own.pending[1]
    while index < end and used < FLUSH:
        row = unpack(store, index, own.scratch.ctypes.data)
        first = rows + 8 * store.word_count * used
        count = call_4(code.successors, row, first, actions + 8 * used, capacity - used)
        if count < 0:
            if used == 0:
                return TOO_SMALL
            break
        if not pack_all(store, own, used, used + count, row):
            if used == 0:
                return NO_ROOM
            break
        if count == 0:
            note_end(code, work, own, row, index)
        if own.edges[0] != 0:
            edge += begin_edges(own.edges, row + 8 * (store.word_count - 1), index, edge, count)
        print_all(store, own, used, used + count)
        for k in range(used, used + count):
            own.sources[k] = index
        used += count
        index += 1
    own.pending[0] = index
    return used


@loop
def keep(code, store, work, own, row, key, print_, source, fresh):  # type: ignore[no-untyped-def]
    """The index of the row with this key; a new row becomes `fresh`, and is observed."""
    index = find_or_add(store, key, print_, fresh, source)
    if index == fresh and code.propositions != 0:
        observe(code, work, own, row, source, index)
    return index


@loop
def _look_up(code, store, work, own, worker, used):  # type: ignore[no-untyped-def]
    """Finds or adds every successor in the buffer."""
    base = worker * work.control[ARENA_SIZE]
    place = worker * STRIDE
    rows = own.out_rows.ctypes.data
    watch_actions = work.control[WATCH_ACTIONS]
    count = work.counts[place]
    for k in range(used):
        entry = own.out_actions[k]
        source = own.sources[k]
        if entry < 0:
            note(own, FAULT, source, entry & 0xFFFFFFFF)
            continue
        row = rows + 8 * store.word_count * k
        fresh = base + count
        index = keep(code, store, work, own, row, key_at(store, own, k), own.prints[k], source, fresh)
        if index == fresh:
            count += 1
        hit = (entry >> 32) & watch_actions
        if hit != 0:
            note_bits(own, hit, ACTION_HIT, source, index)
        if own.edges[0] != 0:
            own.tally[EDGES] = keep_edge(own.edges, source, own.tally[EDGES], index, entry)
        own.tally[TRANSITIONS] += 1
    work.counts[place] = count


@loop
def hit_any(own):  # type: ignore[no-untyped-def]
    for kind in range(HIT_COUNT):
        if own.hits[kind, 0] >= 0:
            return True
    return False


@loop
def is_table_full(work):  # type: ignore[no-untyped-def]
    """Whether the table has to grow."""
    states = 0
    for arena in range(work.ends.size // STRIDE):
        states += work.counts[arena * STRIDE]
    return states > work.control[TABLE_LIMIT]


@loop
def stop(work, reason):  # type: ignore[no-untyped-def]
    """Makes the other workers stop soon, so that none waits long for another; returns the reason."""
    work.control[STOPPED] = 1
    return reason


@loop
def expand(code: Code, store: Store, work: Work, own: Own, worker: int, alone: bool, quantum: int) -> int:
    """Expands about `quantum` states, fewer once another worker has stopped before the end of the level;
    returns why it stopped. A worker that is alone continues with the next level by itself, until one is
    wide enough to share."""
    done = 0
    while done < quantum and work.control[STOPPED] == 0:
        if own.pending[0] >= own.pending[1] and not take(work, own, worker):
            if not alone:
                return LEVEL
            size = next_level(work)
            if size == 0:
                return COMPLETE
            if size >= work.control[WIDE]:
                return QUANTUM
            continue
        before = own.pending[0]
        used = fill(code, store, work, own)
        if used < 0:
            return stop(work, NEED_BUFFER if used == TOO_SMALL else NEED_TABLE)
        done += own.pending[0] - before
        _look_up(code, store, work, own, worker, used)
        if hit_any(own):
            return stop(work, HIT)
        if is_table_full(work):
            return stop(work, NEED_TABLE)
        if work.counts[worker * STRIDE] + own.out_actions.size > work.control[ARENA_SIZE]:
            return stop(work, NEED_ARENA)
    return stop(work, QUANTUM)
