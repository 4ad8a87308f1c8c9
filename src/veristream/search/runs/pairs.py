"""The product as pairs of stored states and states of the automaton, in native code.

When the first node of a state is expanded, the steps of the state are stored, for all of its nodes and for
other properties of the same network. Nodes and their edges are numbers.

With partial-order reduction, some of the steps are chosen at that moment: a choice for each node by itself
would be unsound (Siegel, "What's wrong with on-the-fly partial order reduction", CAV 2019).

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

# What is counted of the product: nodes found and expanded, edges kept and all of them; the propositions
# seen, as a mask; the greatest distance and the end of its level.
NODES, EXPANDED, EDGES, TRANSITIONS, SEEN, DEPTH, LEVEL_END, TALLY_COUNT = range(8)

# What is counted of the network: steps stored and possible; states examined after the last node.
STEPS, POSSIBLE, EXAMINED, STEP_TALLY_COUNT = range(4)

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
    kept: NDArray[np.int64]  # for each of its states, whether the edges of nodes with it are kept


class Steps(NamedTuple):
    """The stored steps of the network; a state that has them has a span: the first of them plus one, and
    the end."""

    spans: int  # address, for each state two words
    targets: int  # address, for each step 32 bits
    entries: int  # address, for each step
    limit: int  # how many there is room for
    tally: NDArray[np.int64]


class Pairs(NamedTuple):
    """The product so far. A node's place is the number of its state times the automaton's states, plus its
    state of the automaton."""

    numbers: int  # address, for each place its node plus one, 32 bits
    places: int  # address, for each node
    parents: int  # address, for each node, 32 bits
    first: int  # address, for each node its first edge
    targets: int  # address, for each edge, 32 bits
    entries: int  # address, for each edge
    node_limit: int  # how many nodes there is room for
    edge_limit: int
    tally: NDArray[np.int64]


@loop
def _take(returning, store, work, own, steps, source, begin, end):  # type: ignore[no-untyped-def]
    """Stores steps of a state; returns whether all that may be on a cycle lead to states without a span."""
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
        if returning != 0 and (target == source or word_at(steps.spans, 2 * target) != 0):
            onward &= not has(returning, entry & 0xFFFFFFFF)
        step = steps.tally[STEPS]
        set_half(steps.targets, step, target)
        set_word(steps.entries, step, entry)
        steps.tally[STEPS] = step + 1
    return onward


@loop
def _take_chosen(header, store, work, own, steps, index, count):  # type: ignore[no-untyped-def]
    """Chooses steps of a state with several, and stores them."""
    width = store.word_count
    row = store.rows + 8 * width * index
    rows, actions = own.out_rows.ctypes.data, own.out_actions.ctypes.data
    scratch, returning = word_at(header, SCRATCH), word_at(header, RETURNING)
    taken, end = 0, count
    set_word(scratch, TRIED, word_at(scratch, TRIED) + 1)
    is_onward = False
    is_chosen = choose_unseen(header, scratch, row, actions, count) != FULL
    if is_chosen:
        taken = sort_out(chosen_set(header, scratch), rows, actions, count, width)
        is_onward = _take(returning, store, work, own, steps, index, 0, taken)
    if is_onward:
        end = taken
    elif choose_seen(header, scratch, row, is_chosen) != FULL:
        chosen, others = chosen_set(header, scratch), rows + 8 * width * taken
        end = taken + sort_out(chosen, others, actions + 8 * taken, count - taken, width)
    if end < count:
        set_word(scratch, REDUCED, word_at(scratch, REDUCED) + 1)
    _take(returning, store, work, own, steps, index, taken, end)


@loop
def _expand(code, store, work, own, steps, index):  # type: ignore[no-untyped-def]
    """Stores the steps of a state; returns whether the buffer had room for them."""
    row = store.rows + 8 * store.word_count * index
    rows, actions = own.out_rows.ctypes.data, own.out_actions.ctypes.data
    count = call_4(code.successors, row, rows, actions, own.out_actions.size)
    if count < 0:
        return False
    first = steps.tally[STEPS]
    steps.tally[POSSIBLE] += count
    if code.reduction != 0 and count >= 2:
        _take_chosen(code.reduction, store, work, own, steps, index, count)
    else:
        _take(0, store, work, own, steps, index, 0, count)
    set_word(steps.spans, 2 * index, first + 1)
    set_word(steps.spans, 2 * index + 1, steps.tally[STEPS])
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
        pairs.tally[TRANSITIONS] += 1
        if rules.kept[state] != 0:
            edge = pairs.tally[EDGES]
            set_half(pairs.targets, edge, number - 1)
            set_word(pairs.entries, edge, action | (rules.acceptance[way] << 32))
            pairs.tally[EDGES] = edge + 1


@loop
def _connect(code, store, own, rules, steps, pairs, node):  # type: ignore[no-untyped-def]
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
    begin, end = word_at(steps.spans, 2 * index) - 1, word_at(steps.spans, 2 * index + 1)
    if begin == end:
        _move(rules, pairs, node, state, bits, STUTTER, index)
    for step in range(begin, end):
        entry = word_at(steps.entries, step)
        letter = bits | (entry & _ACTION_BITS)
        target = half_at(steps.targets, step)
        _move(rules, pairs, node, state, letter, entry & 0xFFFFFFFF, target)


@loop
def _lack(work, own, rules, steps, pairs, index):  # type: ignore[no-untyped-def]
    """What there is not enough room for to expand the state and a node of it; QUANTUM if nothing."""
    if work.counts[0] > work.control[TABLE_LIMIT]:
        return NEED_TABLE
    most = own.out_actions.size
    if work.counts[0] + most > work.control[ARENA_SIZE]:
        return NEED_ARENA
    if steps.tally[STEPS] + most > steps.limit:
        return NEED_EDGES
    span = 2 * index
    out = word_at(steps.spans, span + 1) - word_at(steps.spans, span) + 2
    added = out * rules.target.size
    if pairs.tally[EDGES] + added > pairs.edge_limit or pairs.tally[NODES] + added > pairs.node_limit:
        return NEED_EDGES
    return QUANTUM


@loop
def _next_state(work, rules, steps, pairs, examines):  # type: ignore[no-untyped-def]
    """The state to expand next: that of the next node, then, if all are to be examined, any; -1 if none."""
    node = pairs.tally[EXPANDED]
    if node < pairs.tally[NODES]:
        return word_at(pairs.places, node) // (rules.first.size - 1)
    if not examines:
        return -1
    index = steps.tally[EXAMINED]
    while index < work.counts[0] and word_at(steps.spans, 2 * index) != 0:
        index += 1
    steps.tally[EXAMINED] = index
    return index if index < work.counts[0] else -1


@loop
def _is_not_worth_it(code, steps):  # type: ignore[no-untyped-def]
    """Whether the reduction leaves out too little."""
    if code.reduction == 0:
        return False
    tried = word_at(word_at(code.reduction, SCRATCH), TRIED)
    is_trial = tried == TRIALS[0] or tried == TRIALS[1]
    return is_trial and 2 * steps.tally[STEPS] > steps.tally[POSSIBLE]


@loop
def advance(
    code: Code,
    store: Store,
    work: Work,
    own: Own,
    rules: Rules,
    steps: Steps,
    pairs: Pairs,
    examines: bool,
    quantum: int,
) -> int:
    """Expands up to `quantum` nodes; returns why it stopped. If it examines, it expands all states in the
    end, also those without a node, so that none that fails is missed."""
    for _ in range(quantum):
        index = _next_state(work, rules, steps, pairs, examines)
        if index < 0:
            return COMPLETE
        lack = _lack(work, own, rules, steps, pairs, index)
        if lack != QUANTUM:
            return lack
        if word_at(steps.spans, 2 * index) == 0:
            if not _expand(code, store, work, own, steps, index):
                return NEED_BUFFER
            if hit_any(own):
                return HIT
            if _is_not_worth_it(code, steps):
                return NOT_WORTH_IT
            continue  # with the same node, once it is known that there is room for its edges
        node = pairs.tally[EXPANDED]
        if node == pairs.tally[LEVEL_END]:
            pairs.tally[DEPTH] += 1
            pairs.tally[LEVEL_END] = pairs.tally[NODES]
        _connect(code, store, own, rules, steps, pairs, node)
        pairs.tally[EXPANDED] = node + 1
        if hit_any(own):
            return HIT
    return QUANTUM
