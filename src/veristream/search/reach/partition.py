"""One part of a state space that several workers explore together, in native code.

The fingerprint of a state decides which part it belongs to. A worker expands the states of its part level
by level, with the same kernel and the same kind of visited table as the local search; successors that
belong to other parts go into one outbox each. A parent may be in any part: it is known by its index and its
part.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.native.loop import loop
from veristream.native.primitives import (
    load_half,
    load_short,
    load_word,
    store_half,
    store_short,
    store_word,
)
from veristream.search.reach.expand import (
    ACTION_HIT,
    ARENA_SIZE,
    FAULT,
    TABLE_LIMIT,
    TRANSITIONS,
    WATCH_ACTIONS,
    Code,
    Own,
    Work,
    fill,
    keep,
    note,
    note_bits,
    take,
)
from veristream.search.reach.visited import ROOT, Store, find_or_add, fingerprint, same_row

# Why `scatter` returns.
QUANTUM, LEVEL, FULL_OUTBOX, NEED_BUFFER, NEED_TABLE, NEED_ARENA, NEED_EDGES = range(7)

SENT, SPARED, SHARING_TALLY = range(3)

# If edges are kept: addresses of the edges' words, of the parts that their sources belong to, and of the
# number of edges that leave each state; how many edges there is room for, and how many there are.
EDGE_WORDS, EDGE_OWNERS, EDGE_OUTS, EDGE_LIMIT, EDGE_COUNT, EDGE_CONTROL = range(6)


class Sharing(NamedTuple):
    """How the states are divided, and the records that wait for other parts.

    A record is a row followed by one word, the index of its parent. `lately` remembers rows that were sent
    recently, so that most rows that are found again are not sent again.

    If edges are kept, they are stored with their targets: an edge is one word of target and source, and one
    word of its entry. A record then includes the entry, and every record is sent.
    """

    part: int
    part_count: int
    owners: int  # address: the part of each own state's parent, 16 bits each
    outboxes: NDArray[np.int64]  # the records of each part, one after the other
    used: NDArray[np.int64]  # per part: records in its outbox
    lately: NDArray[np.int64]  # rows, by fingerprint
    tally: NDArray[np.int64]
    edges: NDArray[np.int64]  # EDGE_WORDS is 0 if they are not kept


@loop
def owner_of(print_: int, part_count: int) -> int:
    """The part that a fingerprint belongs to, from bits that decide neither its slot nor all of its tag."""
    return (((print_ >> 40) & 0xFFFF) * part_count) >> 16


@loop
def record_size(word_count: int, edges: NDArray[np.int64]) -> int:
    """Words of a record."""
    return word_count + 1 + (edges[EDGE_WORDS] != 0)


@loop
def _keep_edge(edges, target, source, sender, entry):  # type: ignore[no-untyped-def]
    """Keeps an edge with its target."""
    count = edges[EDGE_COUNT]
    words = edges[EDGE_WORDS] + 16 * count
    store_word(words, (target << 32) | source)
    store_word(words + 8, entry)
    store_short(edges[EDGE_OWNERS] + 2 * count, sender)
    edges[EDGE_COUNT] = count + 1


@loop
def _is_known(sharing, word_count, row, print_):  # type: ignore[no-untyped-def]
    """Whether the row was sent recently; remembers it."""
    size = word_count + 1  # the last word says that a row is there
    places = sharing.lately.size // size
    place = sharing.lately.ctypes.data + 8 * size * ((print_ & 0xFFFFFFFF) * places >> 32)
    if load_word(place + 8 * word_count) != 0 and same_row(place, row, word_count):
        return True
    for k in range(word_count):
        store_word(place + 8 * k, load_word(row + 8 * k))
    store_word(place + 8 * word_count, 1)
    return False


@loop
def _send(sharing, word_count, row, print_, source, owner, entry):  # type: ignore[no-untyped-def]
    """Puts the row into its owner's outbox, unless it was sent there recently."""
    keeps_edges = sharing.edges[EDGE_WORDS] != 0
    if not keeps_edges and _is_known(sharing, word_count, row, print_):
        sharing.tally[SPARED] += 1
        return
    record = record_size(word_count, sharing.edges)
    room = sharing.outboxes.size // sharing.part_count
    at = sharing.outboxes.ctypes.data + 8 * (owner * room + sharing.used[owner] * record)
    for k in range(word_count):
        store_word(at + 8 * k, load_word(row + 8 * k))
    store_word(at + 8 * word_count, source)
    if keeps_edges:
        store_word(at + 8 * word_count + 8, entry)
    sharing.used[owner] += 1
    sharing.tally[SENT] += 1


@loop
def _share_out(code, store, work, own, sharing, used):  # type: ignore[no-untyped-def]
    """Keeps or sends every successor in the buffer."""
    rows = own.out_rows.ctypes.data
    watch_actions = work.control[WATCH_ACTIONS]
    keeps_edges = sharing.edges[EDGE_WORDS] != 0
    count = work.counts[0]
    for k in range(used):
        entry = own.out_actions[k]
        source = own.sources[k]
        if entry < 0:
            note(own, FAULT, source, entry & 0xFFFFFFFF)
            continue
        row = rows + 8 * store.word_count * k
        print_ = own.prints[k]
        owner = owner_of(print_, sharing.part_count)
        if owner == sharing.part:
            index = keep(code, store, work, own, row, row, print_, source, count)
            if index == count:
                store_short(sharing.owners + 2 * count, sharing.part)
                count += 1
            if keeps_edges:
                _keep_edge(sharing.edges, index, source, sharing.part, entry)
        else:
            _send(sharing, store.word_count, row, print_, source, owner, entry)
        if keeps_edges:
            outs = sharing.edges[EDGE_OUTS] + 4 * source
            store_half(outs, load_half(outs) + 1)
        hit = (entry >> 32) & watch_actions
        if hit != 0:
            note_bits(own, hit, ACTION_HIT, source, source)
        own.tally[TRANSITIONS] += 1
    work.counts[0] = count


@loop
def _is_full(store, own, sharing):  # type: ignore[no-untyped-def]
    """Whether an outbox may not hold what the next states send."""
    room = sharing.outboxes.size // sharing.part_count // record_size(store.word_count, sharing.edges)
    for part in range(sharing.part_count):
        if sharing.used[part] + own.out_actions.size > room:
            return True
    return False


@loop
def scatter(code: Code, store: Store, work: Work, own: Own, sharing: Sharing, quantum: int) -> int:
    """Expands about `quantum` states of the level; returns why it stopped."""
    done = 0
    while done < quantum:
        if work.counts[0] > work.control[TABLE_LIMIT]:
            return NEED_TABLE
        if work.counts[0] + own.out_actions.size > work.control[ARENA_SIZE]:
            return NEED_ARENA
        if sharing.edges[EDGE_COUNT] + own.out_actions.size > sharing.edges[EDGE_LIMIT]:
            return NEED_EDGES
        if _is_full(store, own, sharing):
            return FULL_OUTBOX
        if own.pending[0] >= own.pending[1] and not take(work, own, 0):
            return LEVEL
        before = own.pending[0]
        used = fill(code, store, work, own)
        if used < 0:
            return NEED_BUFFER
        done += own.pending[0] - before
        _share_out(code, store, work, own, sharing, used)
    return QUANTUM


@loop
def absorb(
    code: Code, store: Store, work: Work, own: Own, sharing: Sharing, records: int, count: int, sender: int
) -> int:
    """Keeps the new ones of the records at the address while there is room; returns how many it read."""
    size = 8 * record_size(store.word_count, sharing.edges)
    keeps_edges = sharing.edges[EDGE_WORDS] != 0
    for k in range(count):
        fresh = work.counts[0]
        if fresh > work.control[TABLE_LIMIT] or fresh + 1 > work.control[ARENA_SIZE]:
            return k
        if sharing.edges[EDGE_COUNT] + 1 > sharing.edges[EDGE_LIMIT]:
            return k
        row = records + size * k
        print_ = fingerprint(row, store.word_count)
        source = load_word(row + 8 * store.word_count)
        index = keep(code, store, work, own, row, row, print_, source, fresh)
        if index == fresh:
            store_short(sharing.owners + 2 * fresh, sender)
            work.counts[0] = fresh + 1
        if keeps_edges and source != ROOT:
            _keep_edge(sharing.edges, index, source, sender, load_word(row + 8 * store.word_count + 8))
    return count


@loop
def restore(
    store: Store, work: Work, sharing: Sharing, rows: int, parents: int, owners: int, count: int
) -> int:
    """Restores states in the order in which they were found, while there is room; returns how many."""
    for k in range(count):
        fresh = work.counts[0]
        if fresh > work.control[TABLE_LIMIT] or fresh + 1 > work.control[ARENA_SIZE]:
            return k
        row = rows + 8 * store.word_count * k
        find_or_add(store, row, fingerprint(row, store.word_count), fresh, load_half(parents + 4 * k))
        store_short(sharing.owners + 2 * fresh, load_short(owners + 2 * k))
        work.counts[0] = fresh + 1
    return count


@loop
def share(
    store: Store,
    count: int,
    part_count: int,
    owners: NDArray[np.uint16],
    places: NDArray[np.uint32],
    used: NDArray[np.int64],
) -> None:
    """Computes for each of the first `count` states its part and its index there; `used` counts the
    states of each part, and is zero at first."""
    for index in range(count):
        print_ = fingerprint(store.rows + 8 * store.word_count * index, store.word_count)
        owner = owner_of(print_, part_count)
        owners[index] = owner
        places[index] = used[owner]
        used[owner] += 1
