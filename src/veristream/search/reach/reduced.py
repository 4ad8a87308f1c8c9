"""The breadth-first loop with partial-order reduction: of a state's steps, those of a stubborn set.

The *proviso*: where a set is chosen that might put other actions off, one of its steps must lead to a state
of the next level, which is expanded later; otherwise all steps of the state are taken. So nothing is put
off forever: each state of a chain of such states belongs to a later level than the one before, and the
chain ends. Whether a state belongs to the next level does not depend on how workers divide the level.
"""

from __future__ import annotations

from veristream.native.loop import loop
from veristream.native.primitives import call_4, set_word, word_at
from veristream.search.reach.expand import (
    ARENA_SIZE,
    COMPLETE,
    FAULT,
    FLUSH,
    HIT,
    LEVEL,
    NEED_ARENA,
    NEED_BUFFER,
    NEED_TABLE,
    NO_ROOM,
    QUANTUM,
    SEEN,
    STOPPED,
    STRIDE,
    TOO_SMALL,
    TRANSITIONS,
    WIDE,
    Code,
    Own,
    Work,
    hit_any,
    is_table_full,
    key_at,
    next_level,
    note,
    note_end,
    observe,
    pack_all,
    print_all,
    stop,
    take,
)
from veristream.search.reach.packing import unpack
from veristream.search.reach.visited import Store, find_or_add
from veristream.search.reduction.stubborn import FULL, UNDER_PROVISO, choose, chosen_set, has
from veristream.search.reduction.tables import (
    GOALS,
    LEFT_OUT,
    POSSIBLE,
    REDUCED,
    SCRATCH,
    SCRATCH_SIZE,
    SEGMENT_WORDS,
    SEGMENTS,
    TRIED,
)

TRIAL = 4096
"""From so many states on, a reduction that leaves out fewer than one step in `WORTH` is given up: to choose
costs several times as much as to take a step, and more the more actions there are."""
WORTH = 2

# A segment of the buffer: the steps of one state, those that are taken first.
_INDEX, _FIRST, _KEPT, _END, _WAY = range(5)


@loop
def _swap(address, one, other, width):  # type: ignore[no-untyped-def]
    """Exchanges two items of `width` words."""
    for k in range(width):
        word = word_at(address, one * width + k)
        set_word(address, one * width + k, word_at(address, other * width + k))
        set_word(address, other * width + k, word)


@loop
def sort_out(bits, rows, actions, count, width):  # type: ignore[no-untyped-def]
    """Moves the steps whose actions are in the set to the front; returns how many they are."""
    kept = 0
    for k in range(count):
        if has(bits, word_at(actions, k) & 0xFFFFFFFF):
            if k != kept:
                _swap(rows, k, kept, width)
                _swap(actions, k, kept, 1)
            kept += 1
    return kept


@loop
def _open_goals(header, work, own):  # type: ignore[no-untyped-def]
    """The propositions that are still looked for: what is known to be reachable needs no more care."""
    every = (1 << word_at(header, GOALS)) - 1
    return every & ~own.tally[SEEN]


@loop
def _reduce(header, scratch, row, rows, actions, count, goals, width):  # type: ignore[no-untyped-def]
    """Chooses among the steps of a state; returns how many are taken first, and what follows."""
    tried = word_at(scratch, TRIED)
    if count < 2 or (tried > TRIAL and word_at(scratch, LEFT_OUT) * WORTH < word_at(scratch, POSSIBLE)):
        return count, FULL
    way = choose(header, scratch, row, actions, count, goals)
    set_word(scratch, TRIED, tried + 1)
    set_word(scratch, POSSIBLE, word_at(scratch, POSSIBLE) + count)
    if way == FULL:
        return count, FULL
    set_word(scratch, REDUCED, word_at(scratch, REDUCED) + 1)
    return sort_out(chosen_set(header, scratch), rows, actions, count, width), way


@loop
def _fill(code, store, work, own, scratch):  # type: ignore[no-untyped-def]
    """Expands states of the piece in hand into segments of the buffer; returns how many, or why there is
    none, as `expand.fill` does."""
    header, width = code.reduction, store.word_count
    rows, actions = own.out_rows.ctypes.data, own.out_actions.ctypes.data
    segments = scratch + 8 * (word_at(header, SCRATCH_SIZE) - SEGMENTS * SEGMENT_WORDS)
    used, filled = 0, 0
    index, end = own.pending[0], own.pending[1]
    goals = _open_goals(header, work, own)
    while index < end and used < FLUSH and filled < SEGMENTS:
        row = unpack(store, index, own.scratch.ctypes.data)
        out_rows, out_actions = rows + 8 * width * used, actions + 8 * used
        count = call_4(code.successors, row, out_rows, out_actions, own.out_actions.size - used)
        if count < 0:
            if used == 0:
                return TOO_SMALL
            break
        if count == 0:
            note_end(code, work, own, row, index)
        kept, way = _reduce(header, scratch, row, out_rows, out_actions, count, goals, width)
        if not pack_all(store, own, used, used + count, row):
            if used == 0:
                return NO_ROOM
            break
        print_all(store, own, used, used + kept)
        segment = segments + 8 * SEGMENT_WORDS * filled
        set_word(segment, _INDEX, index)
        set_word(segment, _FIRST, used)
        set_word(segment, _KEPT, used + kept)
        set_word(segment, _END, used + count)
        set_word(segment, _WAY, way)
        filled += 1
        used += count
        index += 1
    own.pending[0] = index
    return filled


@loop
def _enter(code, store, work, own, worker, k, source):  # type: ignore[no-untyped-def]
    """Finds or adds a successor; returns whether it belongs to the next level."""
    entry = own.out_actions[k]
    if entry < 0:
        note(own, FAULT, source, entry & 0xFFFFFFFF)
        return False
    size = work.control[ARENA_SIZE]
    place = worker * STRIDE
    fresh = worker * size + work.counts[place]
    row = own.out_rows.ctypes.data + 8 * store.word_count * k
    index = find_or_add(store, key_at(store, own, k), own.prints[k], fresh, source)
    own.tally[TRANSITIONS] += 1
    if index == fresh:
        work.counts[place] += 1
        if code.propositions != 0:
            observe(code, work, own, row, source, index)
    return index >= work.ends[(index // size) * STRIDE]


@loop
def _look_up(code, store, work, own, worker, scratch, filled):  # type: ignore[no-untyped-def]
    """Finds or adds the successors in the segments; all of a state where the proviso demands it."""
    header = code.reduction
    segments = scratch + 8 * (word_at(header, SCRATCH_SIZE) - SEGMENTS * SEGMENT_WORDS)
    for number in range(filled):
        segment = segments + 8 * SEGMENT_WORDS * number
        index = word_at(segment, _INDEX)
        later = False
        for k in range(word_at(segment, _FIRST), word_at(segment, _KEPT)):
            later |= _enter(code, store, work, own, worker, k, index)
        if later or word_at(segment, _WAY) != UNDER_PROVISO:
            left_out = word_at(segment, _END) - word_at(segment, _KEPT)
            set_word(scratch, LEFT_OUT, word_at(scratch, LEFT_OUT) + left_out)
        else:
            print_all(store, own, word_at(segment, _KEPT), word_at(segment, _END))
            for k in range(word_at(segment, _KEPT), word_at(segment, _END)):
                _enter(code, store, work, own, worker, k, index)


@loop
def expand_reduced(
    code: Code, store: Store, work: Work, own: Own, worker: int, alone: bool, quantum: int
) -> int:
    """Like `expand.expand`, with the reduction whose tables `code.reduction` points at."""
    header = code.reduction
    scratch = word_at(header, SCRATCH) + 8 * word_at(header, SCRATCH_SIZE) * worker
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
        filled = _fill(code, store, work, own, scratch)
        if filled < 0:
            return stop(work, NEED_BUFFER if filled == TOO_SMALL else NEED_TABLE)
        done += filled
        _look_up(code, store, work, own, worker, scratch, filled)
        if hit_any(own):
            return stop(work, HIT)
        if is_table_full(work):
            return stop(work, NEED_TABLE)
        if work.counts[worker * STRIDE] + own.out_actions.size > work.control[ARENA_SIZE]:
            return stop(work, NEED_ARENA)
    return stop(work, QUANTUM)
