"""A network as native loops see it: its states, expanded one by one on demand, with their events.

An *event* is the visible part of a step: its label with the arguments' values; all invisible steps are the
event `TAU`. Events are numbered in one table for all networks that are compared. States are numbered as
they are found, and expanded in any order, so a search expands only the states that it needs.
"""

from __future__ import annotations

from typing import NamedTuple

from veristream.native.loop import loop
from veristream.native.primitives import call_4, claim, fetch_add, half_at, set_half, set_word, word_at
from veristream.search.reach.visited import Store, expect, find_or_add, fingerprint
from veristream.search.refine.alphabet import TAU
from veristream.search.refine.tables import (
    MISSING,
    Sequences,
    has_room,
    intern,
    look_up,
    make_set,
)

_PIECE = 64  # states that a thread takes at a time

# Why a native function returns; GROW: a table or buffer is too small, call `make_room`.
DONE, QUANTUM, GROW, FAULT = range(4)

# Counters of a system. WORK: expansions left before the driver checks the limits.
STATES, EDGES, STATE_LIMIT, BUFFER_FULL, ROOM_FULL, FAULT_STATE, FAULT_ACTION, WORK, COUNTS = range(9)

# Whether invisible steps can continue forever from a state.
UNKNOWN, ON_PATH, CONVERGES, DIVERGES = range(4)


class System(NamedTuple):
    """A network as native loops see it: addresses of arrays, one entry per state unless noted otherwise."""

    successors: int
    store: Store
    argument_count: int
    state_room: int
    edge_room: int
    first: int  # the first edge plus 1; 0 if the state is not expanded
    last: int  # one past the last edge
    targets: int  # half words, per edge
    events: int  # half words, per edge
    divergence: int  # half words
    offers: int  # half words: what a stable state offers, plus 2; 1: not stable; 0: not known
    path: int  # scratch, as is `turn`
    turn: int
    counts: int
    wording: int  # per action: -1 if it is invisible, else how many arguments the step has
    fixed: int  # per action, `fixed_width` words: how many arguments its name has, its number, those
    fixed_width: int
    out_rows: int  # scratch, as is all below
    out_entries: int
    capacity: int
    prints: int
    key: int


@loop
def expand_state(system, alphabet, state):  # type: ignore[no-untyped-def]
    """Finds the edges of a state, unless they are known; returns DONE or why it could not."""
    if word_at(system.first, state) != 0:
        return DONE
    counts = system.counts
    if word_at(counts, WORK) <= 0:
        return QUANTUM
    count = _steps(system, state)
    if count < 0 or not has_room(alphabet.counts, count):
        return GROW
    failing = _expect_targets(system, count)
    if failing >= 0:
        set_word(counts, FAULT_STATE, state)
        set_word(counts, FAULT_ACTION, failing)
        return FAULT
    for k in range(count):
        event = _event(system, alphabet, k, True)
        if event == MISSING:
            return GROW
        set_half(system.events, word_at(counts, EDGES) + k, event)
    _find_targets(system, state, count)
    set_word(counts, WORK, word_at(counts, WORK) - 1)
    return DONE


class Shift(NamedTuple):
    """What several threads do next: addresses of the pairs in turn and of each pair's state, both half
    words, how many pairs there are, and the address of the first one that no thread has taken."""

    pairs: int
    states: int
    size: int
    cursor: int


@loop
def expand_ahead(system: System, alphabet: Sequences, shift: Shift) -> int:
    """Expands the states of pairs, as one of several threads. Leaves a state alone that needs more room,
    has a new event, or fails: then `expand_state` says so. Returns how many were left alone."""
    left = 0
    while True:
        first = fetch_add(shift.cursor, _PIECE)
        if first >= shift.size:
            return left
        for k in range(first, min(first + _PIECE, shift.size)):
            state = half_at(shift.states, half_at(shift.pairs, k))
            # Another thread may have the same state in hand.
            if word_at(system.first, state) != 0 or claim(system.first + 8 * state, -1) != 0:
                continue
            if not _expand_ahead(system, alphabet, state):
                set_word(system.first, state, 0)
                left += 1


@loop
def _expand_ahead(system, alphabet, state):  # type: ignore[no-untyped-def]
    count = _steps(system, state)
    if count < 0 or _expect_targets(system, count) >= 0:
        return False
    for k in range(count):
        event = _event(system, alphabet, k, False)
        if event == MISSING:
            return False
        set_half(system.events, word_at(system.counts, EDGES) + k, event)
    _find_targets(system, state, count)
    return True


@loop
def _steps(system, state):  # type: ignore[no-untyped-def]
    """Writes the steps of a state into the buffer; returns how many, or -1 if there is no room for them."""
    counts, store = system.counts, system.store
    row = store.rows + 8 * store.word_count * state
    count = call_4(system.successors, row, system.out_rows, system.out_entries, system.capacity)
    if count < 0:
        set_word(counts, BUFFER_FULL, 1)
        return -1
    known = word_at(counts, STATES)
    if known + count > system.state_room or word_at(counts, EDGES) + count > system.edge_room:
        set_word(counts, ROOM_FULL, 1)
        return -1
    return count if known + count <= word_at(counts, STATE_LIMIT) else -1


@loop
def _expect_targets(system, count):  # type: ignore[no-untyped-def]
    """Computes the fingerprints of the steps in the buffer; returns an action that fails, or -1."""
    store = system.store
    stride = 8 * (store.word_count + system.argument_count)
    for k in range(count):
        entry = word_at(system.out_entries, k)
        if entry < 0:
            return entry & 0xFFFFFFFF
        print_ = fingerprint(system.out_rows + stride * k, store.word_count)
        set_word(system.prints, k, print_)
        expect(store.table, store.slot_count, print_)
    return -1


@loop
def _event(system, alphabet, step, adds):  # type: ignore[no-untyped-def]
    """The number of the event of a step in the buffer; MISSING if it is new and is not to be added."""
    action = word_at(system.out_entries, step) & 0xFFFFFFFF
    taken = word_at(system.wording, action)
    if taken < 0:
        return TAU
    fixed = system.fixed + 8 * system.fixed_width * action
    size = word_at(fixed, 0) + 1
    for k in range(size):
        set_word(system.key, k, word_at(fixed, k + 1))
    words = system.store.word_count
    start = step * (words + system.argument_count) + words
    for k in range(taken):
        set_word(system.key, size + k, word_at(system.out_rows, start + k))
    if adds:
        return intern(alphabet, system.key, size + taken)
    return look_up(alphabet, system.key, size + taken)


@loop
def _find_targets(system, state, count):  # type: ignore[no-untyped-def]
    """Writes the targets of the steps in the buffer, which may be new states: the state is expanded."""
    counts, store = system.counts, system.store
    stride = 8 * (store.word_count + system.argument_count)
    base, known = word_at(counts, EDGES), word_at(counts, STATES)
    for k in range(count):
        target = find_or_add(store, system.out_rows + stride * k, word_at(system.prints, k), known, state)
        if target == known:
            known += 1
        set_half(system.targets, base + k, target)
    set_word(counts, STATES, known)
    set_word(counts, EDGES, base + count)
    set_word(system.last, state, base + count)
    set_word(system.first, state, base + 1)


@loop
def diverge(system, alphabet, state):  # type: ignore[no-untyped-def]
    """Decides whether invisible steps can continue forever from the state: whether a depth-first walk
    along them returns to its own path, or reaches a state that diverges. Returns DONE or why it could
    not."""
    path, turn, divergence = system.path, system.turn, system.divergence
    if half_at(divergence, state) != UNKNOWN:
        return DONE
    depth, fresh, code, endless = 0, state, DONE, False
    while True:
        if fresh >= 0:
            code = expand_state(system, alphabet, fresh)
            if code != DONE:
                break
            set_half(divergence, fresh, ON_PATH)
            set_word(path, depth, fresh)
            set_word(turn, depth, word_at(system.first, fresh) - 1)
            depth += 1
            fresh = -1
        here, edge = word_at(path, depth - 1), word_at(turn, depth - 1)
        if edge == word_at(system.last, here):
            set_half(divergence, here, CONVERGES)
            depth -= 1
            if depth == 0:
                return DONE
            continue
        set_word(turn, depth - 1, edge + 1)
        if half_at(system.events, edge) != TAU:
            continue
        target = half_at(system.targets, edge)
        if half_at(divergence, target) == UNKNOWN:
            fresh = target
        elif half_at(divergence, target) != CONVERGES:
            endless = True
            break
    for k in range(depth):
        set_half(divergence, word_at(path, k), DIVERGES if endless else UNKNOWN)
    return code


@loop
def offer_of(system, offers, state, adds):  # type: ignore[no-untyped-def]
    """The number in `offers` of what the expanded state offers; -1 if it is not stable; -2 if `offers` must
    grow first, or if it is new and is not to be added."""
    known = half_at(system.offers, state)
    if known != 0:
        return known - 2
    if adds and not has_room(offers.counts, 1):
        return -2
    first, last = word_at(system.first, state) - 1, word_at(system.last, state)
    events = system.out_entries  # the buffer of a state's steps has room for its events too
    for edge in range(first, last):
        event = half_at(system.events, edge)
        if event == TAU:
            set_half(system.offers, state, 1)
            return -1
        set_word(events, edge - first, event)
    size = make_set(events, last - first)
    number = intern(offers, events, size) if adds else look_up(offers, events, size)
    if number == MISSING:
        return -2
    set_half(system.offers, state, number + 2)
    return number
