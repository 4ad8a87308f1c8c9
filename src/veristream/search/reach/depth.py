"""The depth-first loop, in native code: from the last state found, take a step to a new one; if there is
none, go back.

The stack has one word for each state of the current run: the state, and how many of its steps are taken.
The steps themselves are not kept but computed again after going back, so that memory does not depend on how
many steps a state has; this happens at most once for each state found.
"""

from __future__ import annotations

from veristream.native.loop import loop
from veristream.native.primitives import call_4, set_word, word_at
from veristream.search.reach.expand import (
    ACTION_HIT,
    ARENA_SIZE,
    COMPLETE,
    DEPTH,
    FAULT,
    HIT,
    NEED_ARENA,
    NEED_BUFFER,
    NEED_TABLE,
    QUANTUM,
    TABLE_LIMIT,
    TRANSITIONS,
    WATCH_ACTIONS,
    Code,
    Own,
    Work,
    hit_any,
    keep,
    note,
    note_bits,
    note_end,
)
from veristream.search.reach.visited import Store, expect, fingerprint

# A stack: its height, then its words, the oldest first.
_HEIGHT = 0

_INDEX = 0xFFFFFFFF
_TAKEN = 32  # how many steps are taken: the bits from here on
_ALL = 0x7FFFFFFF  # no step is left


@loop
def height(stack: int) -> int:
    """How many states are on the stack."""
    return word_at(stack, _HEIGHT)


@loop
def push(stack: int, index: int) -> None:
    """Puts a state on the stack."""
    top = word_at(stack, _HEIGHT) + 1
    set_word(stack, top, index)
    set_word(stack, _HEIGHT, top)


@loop
def _unfold(code, store, work, own, index, taken):  # type: ignore[no-untyped-def]
    """Computes the steps of a state; returns how many there are, or -1 if the buffer is too small."""
    width = store.word_count
    row = store.rows + 8 * width * index
    rows, actions = own.out_rows.ctypes.data, own.out_actions.ctypes.data
    count = call_4(code.successors, row, rows, actions, own.out_actions.size)
    if count == 0:
        note_end(code, work, own, row, index)
    for k in range(taken, count):
        own.prints[k] = fingerprint(rows + 8 * width * k, width)
        expect(store.table, store.slot_count, own.prints[k])
    return count


@loop
def _advance(code, store, work, own, index, taken, count):  # type: ignore[no-untyped-def]
    """Takes steps of a state until one leads to a new state; returns how many are taken then."""
    rows = own.out_rows.ctypes.data
    fresh = work.counts[0]
    for k in range(taken, count):
        entry = own.out_actions[k]
        if entry < 0:
            note(own, FAULT, index, entry & 0xFFFFFFFF)
            continue
        row = rows + 8 * store.word_count * k
        found = keep(code, store, work, own, row, row, own.prints[k], index, fresh)
        own.tally[TRANSITIONS] += 1
        hit = (entry >> 32) & work.control[WATCH_ACTIONS]
        if hit != 0:
            note_bits(own, hit, ACTION_HIT, index, found)
        if found == fresh:
            work.counts[0] = fresh + 1
            return k + 1
    return count


@loop
def descend(code: Code, store: Store, work: Work, own: Own, stack: int, quantum: int) -> int:
    """Goes forward or back about `quantum` times; returns why it stopped."""
    for _ in range(quantum):
        top = word_at(stack, _HEIGHT)
        if top == 0:
            return COMPLETE
        index, taken = word_at(stack, top) & _INDEX, word_at(stack, top) >> _TAKEN
        if taken == _ALL:
            set_word(stack, _HEIGHT, top - 1)
            continue
        fresh = work.counts[0]
        if fresh >= work.control[ARENA_SIZE]:
            return NEED_ARENA
        count = _unfold(code, store, work, own, index, taken)
        if count < 0:
            return NEED_BUFFER
        taken = _advance(code, store, work, own, index, taken, count)
        set_word(stack, top, index | (_ALL if taken == count else taken) << _TAKEN)
        if work.counts[0] > fresh:
            push(stack, fresh)
            work.control[DEPTH] = max(work.control[DEPTH], top)
        if hit_any(own):
            return HIT
        if work.counts[0] > work.control[TABLE_LIMIT]:
            return NEED_TABLE
    return QUANTUM
