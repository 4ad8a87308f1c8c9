"""Breadth-first search of zones, in native code; see `zones.kept` for what is stored."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.zones import INFINITY, Zone, copy, is_unbounded
from veristream.native.loop import loop
from veristream.native.primitives import call_1, call_2, call_4
from veristream.search.reach.partition import owner_of
from veristream.search.reach.visited import Store, fingerprint
from veristream.search.zones.kept import (
    AHEAD,
    COVERED,
    DISCRETE,
    EXPANDED,
    LEVEL,
    NODE_LIMIT,
    NODES,
    TABLE_LIMIT,
    TRANSITIONS,
    Nodes,
    Words,
    add_zone,
    zone_of,
)
from veristream.search.zones.partition import (
    COMING,
    LEVEL_END,
    ZoneSharing,
    record_words,
    send_zone,
)
from veristream.search.zones.steps import (
    ENTERED,
    FAILED,
    Scratch,
    Shape,
    TimedCode,
    enter,
    is_still,
    leaving,
    normalise,
    set_clocks,
    set_limits,
    stuck,
    take_away,
    tested,
)

# Why `expand_zones` and `scatter_zones` return; COMPLETE may refer to a level.
QUANTUM, COMPLETE, HIT, NEED_BUFFER, NEED_TABLE, NEED_NODES, NEED_PIECES, NEED_OUTBOX, FAULT = range(9)

BEYOND = INFINITY - 1
"""The measure of a clock that exceeds what zones distinguish, but may be bounded."""

# What a watched part may require of deadlocks.
NOT_ASKED, ALIVE, DEAD = -1, 0, 1


class Watched(NamedTuple):
    """The convex parts of the conditions that are tested in every node; see `ir.disjuncts`.

    A part belongs to a case. If a part of an open case is found, the case becomes a hit, or its best value
    is noted if it has a measure.
    """

    cases: NDArray[np.int64]  # per part: its case
    bits: NDArray[np.int64]  # per part: the bit of its condition
    timed: NDArray[np.int64]  # per part: 1 if it has clock constraints, numbered as the part
    deadlocks: NDArray[np.int64]  # per part
    measures: NDArray[np.int64]  # per case: its measure or -1
    clocks: NDArray[np.int64]  # per measure: the clock, 0 if it is a value
    signs: NDArray[np.int64]  # per measure: 1 for the greatest, -1 for the least
    open: NDArray[np.int64]  # per case: 1 while it is not decided
    hits: Annotated[Words, 2]  # per case: node, part; -1 if there is none
    best: Annotated[Words, 2]  # per measure: value, node, part; node -1 if there is none
    fault: NDArray[np.int64]  # node, and the action if one failed


@loop
def _row_of(store, nodes, node):  # type: ignore[no-untyped-def]
    return store.rows + 8 * store.word_count * np.int64(nodes.states[node])


@loop
def _note(code, shape, watched, row, node, part, zone, still):  # type: ignore[no-untyped-def]
    """Notes that a part was found with the given clock values; returns False if its measure fails."""
    case = watched.cases[part]
    measure = watched.measures[case]
    if measure < 0:
        if watched.hits[case, 0] < 0:
            watched.hits[case, 0] = node
            watched.hits[case, 1] = part
        return True
    clock = watched.clocks[measure]
    sign = watched.signs[measure]
    if clock > 0:
        # The best bound of a clock is the greatest entry of the matrix on either side.
        value = np.int64(zone[clock * shape.n] if sign > 0 else zone[clock])
        if value >= INFINITY and not (still == 0 and is_unbounded(zone, shape.n)):
            value = np.int64(BEYOND)
        better = value > watched.best[measure, 0]
    else:
        value = call_2(code.measure, row, measure)
        if value == np.int64(-0x8000000000000000):
            return False
        better = (value - watched.best[measure, 0]) * sign > 0
    if watched.best[measure, 1] < 0 or better:
        watched.best[measure, 0] = value
        watched.best[measure, 1] = node
        watched.best[measure, 2] = part
    return True


@loop
def _blame(watched, node, action):  # type: ignore[no-untyped-def]
    if watched.fault[0] < 0:
        watched.fault[0] = node
        watched.fault[1] = action


@loop
def _observe_zone(code, shape, scratch, watched, row, node, zone):  # type: ignore[no-untyped-def]
    """Notes which parts hold in a new node, except those that mention deadlocks."""
    if watched.cases.size == 0:
        return
    bits = call_1(code.propositions, row)
    if bits < 0:
        _blame(watched, node, -1)
        return
    still = -1
    for part in range(watched.cases.size):
        if not watched.open[watched.cases[part]] or watched.deadlocks[part] != NOT_ASKED:
            continue
        if not (bits >> watched.bits[part]) & 1:
            continue
        if still < 0:
            still = is_still(code, scratch, row)
        copy(zone, scratch.other, shape.n)
        if watched.timed[part]:
            found = tested(code, shape, scratch, row, part, scratch.other)
            if found == FAILED:
                _blame(watched, node, -1)
            if found != 1:
                continue
        if not _note(code, shape, watched, row, node, part, scratch.other, still):
            _blame(watched, node, -1)


@loop
def _ask_deadlocks(code, shape, scratch, watched, row, node, zone, count):  # type: ignore[no-untyped-def]
    """Notes the parts that mention deadlocks, once the `count` steps are known; False if there is no
    room."""
    bits = call_1(code.propositions, row)
    still = is_still(code, scratch, row)
    if bits < 0 or still < 0:
        _blame(watched, node, -1)
        return True
    for part in range(watched.cases.size):
        asked = watched.deadlocks[part]
        if asked == NOT_ASKED or not watched.open[watched.cases[part]]:
            continue
        if not (bits >> watched.bits[part]) & 1:
            continue
        copy(zone, scratch.zone, shape.n)
        if watched.timed[part]:
            found = tested(code, shape, scratch, row, part, scratch.zone)
            if found == FAILED:
                _blame(watched, node, -1)
            if found != 1:
                continue
        left = stuck(code, shape, scratch, row, scratch.zone, count, still)
        if left < 0:
            return False
        if asked == ALIVE:
            # Whatever is not stuck is alive.
            left = _alive(shape, scratch, left)
            if left < 0:
                return False
        if left > 0 and not _note(code, shape, watched, row, node, part, scratch.pieces[0], still):
            _blame(watched, node, -1)
    return True


@loop
def _alive(shape, scratch, dead):  # type: ignore[no-untyped-def]
    """The scratch's zone without its `dead` pieces, as pieces; their number, or -1."""
    saved = scratch.ready  # no step is being taken
    for k in range(dead):
        copy(scratch.pieces[k], saved[k], shape.n)
    copy(scratch.zone, scratch.pieces[0], shape.n)
    left = 1
    for k in range(dead):
        copy(saved[k], scratch.other, shape.n)
        left = take_away(shape, scratch, left, 1)
        if left <= 0:
            return left
    return left


@loop
def keep_zone(
    code: TimedCode,
    shape: Shape,
    store: Store,
    nodes: Nodes,
    tally: Words,
    scratch: Scratch,
    watched: Watched,
    row: int,
    print_: int,
    zone: Zone,
    parent: int,
    entry: int,
    depth: int,
) -> int:
    """The node of the zone in the state at `row`, with all watched parts tested; -1 if another node
    includes it."""
    node = add_zone(shape, scratch, store, nodes, tally, row, print_, zone, parent, entry, depth)
    if node >= 0:
        _observe_zone(code, shape, scratch, watched, row, node, zone)
    return node


@loop
def _take_step(code, shape, store, nodes, tally, scratch, watched, sharing, node, k):  # type: ignore[no-untyped-def]
    """Keeps the result of step k from the scratch's zone, which satisfies its bounds, or sends it to its
    owner; returns what is missing, FAULT if the step fails, else QUANTUM."""
    row = scratch.out_rows.ctypes.data + 8 * shape.stride * k
    set_clocks(scratch.zone, shape, row)
    found = enter(code, shape, scratch, row, scratch.zone)
    action = scratch.out_actions[k] & 0xFFFFFFFF
    if found == FAILED:
        _blame(watched, node, action)
        return FAULT
    if found != ENTERED:
        return QUANTUM
    tally[TRANSITIONS] += 1
    count = normalise(code, shape, scratch, row, scratch.zone)
    if count < 0:
        return NEED_PIECES
    print_ = fingerprint(row, store.word_count)
    entry = (np.int64(k) << 32) | action
    depth = np.int64(nodes.depths[node]) + 1
    for piece in range(count):
        zone = scratch.cuts[piece]
        if sharing is not None:
            owner = owner_of(print_, sharing.part_count)
            if owner != sharing.part:
                if not send_zone(sharing, store.word_count, shape.n, row, print_, zone, node, entry, owner):
                    return NEED_OUTBOX
                continue
        added = keep_zone(
            code, shape, store, nodes, tally, scratch, watched, row, print_, zone, node, entry, int(depth)
        )
        if sharing is not None and added >= 0:
            sharing.owners[added] = sharing.part
    return QUANTUM


@loop
def _asks_deadlocks(watched):  # type: ignore[no-untyped-def]
    for part in range(watched.deadlocks.size):
        if watched.deadlocks[part] != NOT_ASKED:
            return True
    return False


@loop
def _has_hit(watched):  # type: ignore[no-untyped-def]
    for case in range(watched.hits.shape[0]):
        if watched.hits[case, 0] >= 0:
            return True
    return False


@loop
def _expand_node(code, shape, store, nodes, tally, scratch, watched, sharing, node):  # type: ignore[no-untyped-def]
    """Finds all successors of a node; returns what is missing, or QUANTUM."""
    row = _row_of(store, nodes, node)
    actions = scratch.out_actions
    count = call_4(code.successors, row, scratch.out_rows.ctypes.data, actions.ctypes.data, actions.size)
    if count < 0:
        return NEED_BUFFER
    zone = zone_of(nodes, node, shape.n)
    asks = _asks_deadlocks(watched)
    for k in range(count):
        left = leaving(code, shape, scratch, zone, count, k)
        if left < 0:
            return NEED_PIECES
        if left > 0 and actions[k] < 0:
            _blame(watched, node, actions[k] & 0xFFFFFFFF)
            asks = False  # if a step fails, it is not known whether one is possible
            continue
        for piece in range(left):
            copy(scratch.ready[piece], scratch.zone, shape.n)
            missing = _take_step(code, shape, store, nodes, tally, scratch, watched, sharing, node, k)
            if missing == FAULT:
                asks = False
            elif missing != QUANTUM:
                return missing
    if asks and not _ask_deadlocks(code, shape, scratch, watched, row, node, zone, count):
        return NEED_PIECES
    return QUANTUM


@loop
def _expand(code, shape, store, nodes, tally, scratch, watched, sharing, quantum):  # type: ignore[no-untyped-def]
    """Expands at most `quantum` nodes, of one level if zones are shared; returns why it stopped.

    A failure of the model takes effect at the end of its level, so that other hits of the level count
    independently of the order in which nodes are expanded.
    """
    for _ in range(quantum):
        last = tally[NODES]
        if sharing is not None:
            last = sharing.tally[LEVEL_END]
        elif _has_hit(watched):
            return HIT
        node = tally[EXPANDED]
        if node == last:
            return COMPLETE
        if watched.fault[0] >= 0 and nodes.depths[node] > tally[LEVEL]:
            return FAULT
        if tally[DISCRETE] + scratch.out_actions.size > tally[TABLE_LIMIT]:
            return NEED_TABLE
        if tally[NODES] + scratch.out_actions.size * len(scratch.cuts) > tally[NODE_LIMIT]:
            return NEED_NODES
        tally[LEVEL] = nodes.depths[node]
        if not nodes.flags[node] & COVERED:
            before = tally[TRANSITIONS]
            missing = _expand_node(code, shape, store, nodes, tally, scratch, watched, sharing, node)
            if missing != QUANTUM:
                tally[TRANSITIONS] = before
                return missing
        if nodes.flags[node] & COVERED:
            tally[AHEAD] -= 1
        tally[EXPANDED] = node + 1
    return QUANTUM


@loop
def expand_zones(
    code: TimedCode,
    shape: Shape,
    store: Store,
    nodes: Nodes,
    tally: NDArray[np.int64],
    scratch: Scratch,
    watched: Watched,
    quantum: int,
) -> int:
    """Expands at most `quantum` nodes; returns why it stopped."""
    return int(_expand(code, shape, store, nodes, tally, scratch, watched, None, quantum))


@loop
def scatter_zones(
    code: TimedCode,
    shape: Shape,
    store: Store,
    nodes: Nodes,
    tally: NDArray[np.int64],
    scratch: Scratch,
    watched: Watched,
    sharing: ZoneSharing,
    quantum: int,
) -> int:
    """Expands at most `quantum` nodes of a part's level; returns why it stopped."""
    return int(_expand(code, shape, store, nodes, tally, scratch, watched, sharing, quantum))


@loop
def absorb_zones(
    code: TimedCode,
    shape: Shape,
    store: Store,
    nodes: Nodes,
    tally: NDArray[np.int64],
    scratch: Scratch,
    watched: Watched,
    sharing: ZoneSharing,
    words: NDArray[np.int64],
    bounds: NDArray[np.int32],
    taken: int,
    sender: int,
) -> int:
    """Keeps the new ones of the zones that another part sent, while there is room; returns how many records
    are processed. `words` and `bounds` are the same memory, and `taken` records were processed before."""
    n, word_count = shape.n, store.word_count
    size = record_words(word_count, n)
    depth = sharing.tally[COMING]
    for k in range(taken, words.size // size):
        if tally[DISCRETE] + 1 > tally[TABLE_LIMIT] or tally[NODES] + 1 > tally[NODE_LIMIT]:
            return k
        row = words.ctypes.data + 8 * size * k
        first = 2 * (size * k + word_count)
        zone = bounds[first : first + n * n]
        parent, entry = words[size * (k + 1) - 2], words[size * (k + 1) - 1]
        print_ = fingerprint(row, word_count)
        set_limits(code, shape, scratch, row)
        added = keep_zone(
            code, shape, store, nodes, tally, scratch, watched, row, print_, zone, parent, entry, depth
        )
        if added >= 0:
            sharing.owners[added] = sender
    return words.size // size
