"""The product with partial-order reduction, in native code.

A node of the product is a state of the network with a state of the automaton. When the first node of a
state is expanded, steps of the state are chosen, once and for all of its nodes: a choice for each node by
itself would be unsound (Siegel, "What's wrong with on-the-fly partial order reduction", CAV 2019). States
of the network are stored once, with the steps chosen; nodes and their edges are numbers.

The *proviso*: steps that the property does not see suffice if those that may be on a cycle of states lead
to states that are not expanded yet. Otherwise the state also takes a stubborn set of all actions that the
property sees. On every cycle, the last state to be expanded leads to one that was expanded before, so it
puts none of these actions off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.watch import STUTTER
from veristream.native.loop import loop
from veristream.native.primitives import (
    call_1,
    call_4,
    half_at,
    set_half,
    set_word,
    word_at,
)
from veristream.search.reach.expand import (
    ARENA_SIZE,
    FAULT,
    TABLE_LIMIT,
    WATCH_FAULT,
    Code,
    Own,
    Work,
    hit_any,
    note,
)
from veristream.search.reach.reduced import sort_out
from veristream.search.reach.visited import Store, find_or_add, fingerprint
from veristream.search.reduction.stubborn import FULL, choose_seen, choose_unseen, chosen_set, has
from veristream.search.reduction.tables import REDUCED, RETURNING, SCRATCH, TRIED

# Why `advance` returns.
QUANTUM, COMPLETE, HIT, NEED_BUFFER, NEED_TABLE, NEED_ARENA, NEED_EDGES, NOT_WORTH_IT = range(8)

# What is counted: nodes found and expanded, edges, steps chosen and possible; the propositions seen, as a
# mask; the greatest distance and the end of its level; how many states were examined after the last node.
NODES, EXPANDED, EDGES, STEPS, POSSIBLE, SEEN, DEPTH, LEVEL_END, EXAMINED, TALLY_COUNT = range(10)

TRIALS = (1 << 12, 1 << 15)
"""After so many states with a choice, the reduction must have left out half of all steps. To choose costs
several times as much as to take a step, so with fewer the full search is faster."""

_STATE_BITS = 0xFFFFFFFF
_ACTION_BITS = 0x7FFFFFFF00000000


class Rules(NamedTuple):
    """The automaton (see `kernel.watch.Monitor`)."""

    first: NDArray[np.int64]
    positive: NDArray[np.int64]
    negative: NDArray[np.int64]
    target: NDArray[np.int64]
    acceptance: NDArray[np.int64]


class Pairs(NamedTuple):
    """The product so far; all but the last two are addresses.

    A node's place is the number of its state times the automaton's states, plus its state of the automaton.
    A state that is expanded has a span: the first of its steps plus one, and the end.
    """

    numbers: int  # for each place its node plus one, 32 bits
    places: int  # for each node
    parents: int  # for each node, 32 bits
    first: int  # for each node its first edge
    targets: int  # for each edge, 32 bits
    entries: int  # for each edge
    spans: int  # for each state of the network, two words
    step_targets: int  # for each step, 32 bits
    step_entries: int
    limits: NDArray[np.int64]  # how many edges and steps there is room for
    tally: NDArray[np.int64]


@loop
def _take(returning, store, work, own, pairs, source, begin, end):  # type: ignore[no-untyped-def]
    """Keeps steps of a state; returns whether all that may be on a cycle lead to states not expanded."""
    width = store.word_count
    onward = True
    for k in range(begin, end):
        entry = own.out_actions[k]
        if entry < 0:
            note(own, FAULT, source, entry & 0xFFFFFFFF)
            continue
        row = own.out_rows.ctypes.data + 8 * width * k
        target = find_or_add(store, row, fingerprint(row, width), work.counts[0], source)
        if target == work.counts[0]:
            work.counts[0] += 1
        if target == source or word_at(pairs.spans, 2 * target) != 0:
            onward &= not has(returning, entry & 0xFFFFFFFF)
        step = pairs.tally[STEPS]
        set_half(pairs.step_targets, step, target)
        set_word(pairs.step_entries, step, entry)
        pairs.tally[STEPS] = step + 1
    return onward


@loop
def _expand(code, store, work, own, pairs, index):  # type: ignore[no-untyped-def]
    """Chooses and keeps the steps of a state; returns whether the buffer had room for them."""
    width = store.word_count
    row = store.rows + 8 * width * index
    rows, actions = own.out_rows.ctypes.data, own.out_actions.ctypes.data
    count = call_4(code.successors, row, rows, actions, own.out_actions.size)
    if count < 0:
        return False
    header = code.reduction
    scratch, returning = word_at(header, SCRATCH), word_at(header, RETURNING)
    first = pairs.tally[STEPS]
    taken, end = 0, count
    pairs.tally[POSSIBLE] += count
    if count >= 2:
        set_word(scratch, TRIED, word_at(scratch, TRIED) + 1)
        is_onward = False
        is_chosen = choose_unseen(header, scratch, row, actions, count) != FULL
        if is_chosen:
            taken = sort_out(chosen_set(header, scratch), rows, actions, count, width)
            is_onward = _take(returning, store, work, own, pairs, index, 0, taken)
        if is_onward:
            end = taken
        elif choose_seen(header, scratch, row, is_chosen) != FULL:
            chosen, others = chosen_set(header, scratch), rows + 8 * width * taken
            end = taken + sort_out(chosen, others, actions + 8 * taken, count - taken, width)
        if end < count:
            set_word(scratch, REDUCED, word_at(scratch, REDUCED) + 1)
    _take(returning, store, work, own, pairs, index, taken, end)
    set_word(pairs.spans, 2 * index, first + 1)
    set_word(pairs.spans, 2 * index + 1, pairs.tally[STEPS])
    return True


@loop
def _move(rules, pairs, node, state, letter, action, target):  # type: ignore[no-untyped-def]
    """Adds the edges by which the automaton reads the letter while the network moves to the target."""
    size = rules.first.size - 1
    for way in range(rules.first[state], rules.first[state + 1]):
        positive = rules.positive[way]
        if letter & positive != positive or letter & rules.negative[way] != 0:
            continue
        place = target * size + rules.target[way]
        number = half_at(pairs.numbers, place)
        if number == 0:
            pairs.tally[NODES] += 1
            number = pairs.tally[NODES]
            set_half(pairs.numbers, place, number)
            set_word(pairs.places, number - 1, place)
            set_half(pairs.parents, number - 1, node)
        edge = pairs.tally[EDGES]
        set_half(pairs.targets, edge, number - 1)
        set_word(pairs.entries, edge, action | (rules.acceptance[way] << 32))
        pairs.tally[EDGES] = edge + 1


@loop
def _connect(code, store, own, rules, pairs, node):  # type: ignore[no-untyped-def]
    """Adds the edges of a node whose state is expanded."""
    size = rules.first.size - 1
    place = word_at(pairs.places, node)
    index, state = place // size, place % size
    bits = call_1(code.propositions, store.rows + 8 * store.word_count * index)
    if bits < 0:
        note(own, WATCH_FAULT, index, index)
        bits &= 0x7FFFFFFFFFFFFFFF
    pairs.tally[SEEN] |= bits
    bits &= _STATE_BITS
    set_word(pairs.first, node, pairs.tally[EDGES])
    begin, end = word_at(pairs.spans, 2 * index) - 1, word_at(pairs.spans, 2 * index + 1)
    if begin == end:
        _move(rules, pairs, node, state, bits, STUTTER, index)
    for step in range(begin, end):
        entry = word_at(pairs.step_entries, step)
        letter = bits | (entry & _ACTION_BITS)
        target = half_at(pairs.step_targets, step)
        _move(rules, pairs, node, state, letter, entry & 0xFFFFFFFF, target)


@loop
def _lack(work, own, rules, pairs, index):  # type: ignore[no-untyped-def]
    """What there is not enough room for to expand the state and a node of it; QUANTUM if nothing."""
    if work.counts[0] > work.control[TABLE_LIMIT]:
        return NEED_TABLE
    most = own.out_actions.size
    if work.counts[0] + most > work.control[ARENA_SIZE]:
        return NEED_ARENA
    if pairs.tally[STEPS] + most > pairs.limits[1]:
        return NEED_EDGES
    span = 2 * index
    out = word_at(pairs.spans, span + 1) - word_at(pairs.spans, span) + 2
    if pairs.tally[EDGES] + out * rules.target.size > pairs.limits[0]:
        return NEED_EDGES
    return QUANTUM


@loop
def _next_state(work, rules, pairs, examines):  # type: ignore[no-untyped-def]
    """The state to expand next: that of the next node, then, if all are to be examined, any; -1 if none."""
    node = pairs.tally[EXPANDED]
    if node < pairs.tally[NODES]:
        return word_at(pairs.places, node) // (rules.first.size - 1)
    if not examines:
        return -1
    index = pairs.tally[EXAMINED]
    while index < work.counts[0] and word_at(pairs.spans, 2 * index) != 0:
        index += 1
    pairs.tally[EXAMINED] = index
    return index if index < work.counts[0] else -1


@loop
def _is_not_worth_it(code, pairs):  # type: ignore[no-untyped-def]
    tried = word_at(word_at(code.reduction, SCRATCH), TRIED)
    is_trial = tried == TRIALS[0] or tried == TRIALS[1]
    return is_trial and 2 * pairs.tally[STEPS] > pairs.tally[POSSIBLE]


@loop
def advance(
    code: Code,
    store: Store,
    work: Work,
    own: Own,
    rules: Rules,
    pairs: Pairs,
    examines: bool,
    quantum: int,
) -> int:
    """Expands up to `quantum` nodes; returns why it stopped. If it examines, it expands all states in the
    end, also those without a node, so that none that fails is missed."""
    for _ in range(quantum):
        index = _next_state(work, rules, pairs, examines)
        if index < 0:
            return COMPLETE
        lack = _lack(work, own, rules, pairs, index)
        if lack != QUANTUM:
            return lack
        if word_at(pairs.spans, 2 * index) == 0:
            if not _expand(code, store, work, own, pairs, index):
                return NEED_BUFFER
            if hit_any(own):
                return HIT
            if _is_not_worth_it(code, pairs):
                return NOT_WORTH_IT
            continue  # with the same node, once it is known that there is room for its edges
        node = pairs.tally[EXPANDED]
        if node == pairs.tally[LEVEL_END]:
            pairs.tally[DEPTH] += 1
            pairs.tally[LEVEL_END] = pairs.tally[NODES]
        _connect(code, store, own, rules, pairs, node)
        pairs.tally[EXPANDED] = node + 1
        if hit_any(own):
            return HIT
    return QUANTUM
