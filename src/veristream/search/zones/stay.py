"""Depth-first search for a run that stays where a condition holds, in native code.

The condition is given as convex parts, and a node is a zone within one part: everything that waiting
reaches without leaving the part. A run continues by a step, or by waiting from one part into another. A run
is found if waiting never has to end, if no step is possible and the condition never ends, or if a node
includes an earlier node of its path, with a step between them: then the cycle can be repeated forever
(Tripakis, Yovine, Bouajjani, "Checking timed Buechi automata emptiness efficiently", 2005).

A node is *done* if all its continuations were searched without success; zones that it includes are skipped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.zones import (
    Zone,
    copy,
    includes,
    intersect,
    is_unbounded,
    relax_lower,
    relax_upper,
    set_universe,
    up,
)
from veristream.native.loop import loop
from veristream.native.primitives import call_1, call_2, call_4, load_half, load_word, store_half
from veristream.search.reach.visited import ROOT, Store, find_or_add, fingerprint
from veristream.search.zones.kept import NONE, Nodes, Words
from veristream.search.zones.steps import (
    EMPTY,
    ENTERED,
    FAILED,
    Scratch,
    Shape,
    TimedCode,
    constrain_all,
    enter,
    is_still,
    leaving,
    normalise,
    set_clocks,
    stuck,
    take_away,
    tested,
)

# Why `search_runs` returns.
QUANTUM, COMPLETE, FOUND, NEED_BUFFER, NEED_TABLE, NEED_NODES, NEED_PIECES, FAULT = range(8)

# Counters of a search.
NODES, PENDING, TRANSITIONS, DISCRETE, DEPTH, TABLE_LIMIT, NODE_LIMIT = range(7)
ENDING, LAST, FIRST, FAULT_NODE, FAULT_ACTION, TALLY_COUNT = range(7, 13)

# How the run that was found ends.
NO_END, WAITS, STUCK, CYCLES, BROKEN = range(5)

NEW, ON_THE_WAY, DONE, DROPPED = range(4)

WAITING = -1
"""The entry of a node that was reached by waiting."""


class Parts(NamedTuple):
    """The convex parts of the condition to stay in, then those of its negation; see `zones.Watched`."""

    bits: NDArray[np.int64]
    timed: NDArray[np.int64]
    stay_count: int


class Trees(NamedTuple):
    """The nodes, those still to be expanded (the last first), and room for a row with its part."""

    nodes: Nodes  # `depths` counts the steps on the path, `flags` holds the status of a node
    pending: NDArray[np.int64]
    row: NDArray[np.int64]


@loop
def _zone_of(nodes, node, n):  # type: ignore[no-untyped-def]
    return nodes.zones[node * n * n : (node + 1) * n * n]


@loop
def _row_of(store, nodes, node):  # type: ignore[no-untyped-def]
    """The discrete state of a node, with its part as the last word."""
    return store.rows + 8 * store.word_count * np.int64(nodes.states[node])


@loop
def within(code, shape, scratch, parts, row, part, zone):  # type: ignore[no-untyped-def]
    """Restricts the zone to the part; the condition on variables must hold."""
    if not parts.timed[part]:
        return ENTERED
    return tested(code, shape, scratch, row, part, zone)


@loop
def settle(
    code: TimedCode,
    shape: Shape,
    scratch: Scratch,
    parts: Parts,
    row: int,
    part: int,
    zone: Zone,
    waited: bool,
) -> int:
    """The zone on entering the part and then waiting there: EMPTY, ENTERED or FAILED.

    With `waited` the zone need not be in the part yet, but enters it at once by waiting.
    """
    still = is_still(code, scratch, row)
    if still < 0:
        return FAILED
    if waited:
        up(zone, shape.n)
    if not constrain_all(zone, shape.n, scratch.words.ctypes.data):
        return EMPTY
    found = within(code, shape, scratch, parts, row, part, zone)
    if found != ENTERED or still:
        return found
    up(zone, shape.n)
    is_still(code, scratch, row)  # the words hold the invariants again
    constrain_all(zone, shape.n, scratch.words.ctypes.data)
    return within(code, shape, scratch, parts, row, part, zone)


@loop
def _add(code, shape, store, trees, tally, scratch, row, part, parent, entry):  # type: ignore[no-untyped-def]
    """Adds the settled zone in the scratch as new nodes, to be expanded next; False if there is no room."""
    count = normalise(code, shape, scratch, row, scratch.zone)
    if count < 0:
        return False
    for k in range(shape.word_count):
        trees.row[k] = load_word(row + 8 * k)
    trees.row[shape.word_count] = part
    key = trees.row.ctypes.data
    fresh = tally[DISCRETE]
    state = find_or_add(store, key, fingerprint(key, store.word_count), fresh, ROOT)
    if state == fresh:
        tally[DISCRETE] += 1
    nodes = trees.nodes
    for piece in range(count):
        node = tally[NODES]
        copy(scratch.cuts[piece], _zone_of(nodes, node, shape.n), shape.n)
        nodes.states[node] = state
        nodes.parents[node] = parent
        nodes.entries[node] = entry
        steps = 0 if parent == NONE else np.int64(nodes.depths[parent])
        nodes.depths[node] = steps + (0 if entry == WAITING or parent == NONE else 1)
        nodes.flags[node] = NEW
        trees.pending[tally[PENDING]] = node
        tally[NODES] += 1
        tally[PENDING] += 1
        tally[DEPTH] = max(tally[DEPTH], np.int64(nodes.depths[node]))
    return True


@loop
def add_root(
    code: TimedCode,
    shape: Shape,
    store: Store,
    trees: Trees,
    tally: Words,
    scratch: Scratch,
    parts: Parts,
    row: int,
    zone: Zone,
    origin: int,
) -> bool:
    """Adds the zone in every part that holds, as the beginning of runs; False if there is no room."""
    bits = call_1(code.propositions, row)
    if bits < 0:
        tally[FAULT_NODE] = NONE
        tally[FAULT_ACTION] = -1
        return True
    for part in range(parts.stay_count):
        if not (bits >> parts.bits[part]) & 1:
            continue
        copy(zone, scratch.zone, shape.n)
        found = settle(code, shape, scratch, parts, row, part, scratch.zone, False)
        if found == FAILED:
            tally[FAULT_NODE] = NONE
            tally[FAULT_ACTION] = -1
        if found == ENTERED and not _add(
            code, shape, store, trees, tally, scratch, row, part, NONE, origin
        ):
            return False
    return True


@loop
def _compare(shape, store, nodes, tally, node):  # type: ignore[no-untyped-def]
    """Compares a new node with those of the same state and part: DROPPED, ON_THE_WAY if it must be
    searched, or DONE if it closes a cycle."""
    n = shape.n
    zone = _zone_of(nodes, node, n)
    steps = nodes.depths[node]
    other = load_half(store.parents + 4 * np.int64(nodes.states[node]))
    while other != NONE:
        mine = _zone_of(nodes, other, n)
        if nodes.flags[other] == DONE:
            if includes(mine, zone, n):
                return DROPPED
        elif nodes.depths[other] == steps:
            if includes(mine, zone, n):
                return DROPPED  # only time has passed since
        elif includes(zone, mine, n):
            tally[ENDING] = CYCLES
            tally[LAST] = node
            tally[FIRST] = other
            return DONE
        other = np.int64(nodes.following[other])
    return ON_THE_WAY


@loop
def _link(store, nodes, node):  # type: ignore[no-untyped-def]
    head = store.parents + 4 * np.int64(nodes.states[node])
    nodes.following[node] = load_half(head)
    store_half(head, node)
    nodes.flags[node] = ON_THE_WAY


@loop
def ends(
    code: TimedCode,
    shape: Shape,
    scratch: Scratch,
    parts: Parts,
    row: int,
    bits: int,
    still: int,
    zone: Zone,
    count: int,
) -> int:
    """How a run that has reached the zone may end there; -1 if there is not enough room, BROKEN if the
    condition cannot be evaluated."""
    n = shape.n
    if still == 0 and is_unbounded(zone, n):
        return WAITS
    left = stuck(code, shape, scratch, row, zone, count, still)
    if left < 0:
        return -1
    for part in range(parts.stay_count, parts.bits.size):
        if left == 0 or still:
            break
        if not (bits >> parts.bits[part]) & 1:
            continue
        set_universe(scratch.other, n)
        is_still(code, scratch, row)
        if not constrain_all(scratch.other, n, scratch.words.ctypes.data):
            continue
        found = within(code, shape, scratch, parts, row, part, scratch.other)
        if found == FAILED:
            return BROKEN
        if found == ENTERED:
            left = take_away(shape, scratch, left, 0)
            if left < 0:
                return -1
    return STUCK if left > 0 else NO_END


@loop
def cross(
    code: TimedCode, shape: Shape, scratch: Scratch, parts: Parts, row: int, part: int, side: int
) -> int:
    """Enters another part by waiting from the scratch's zone, which has left its own part.

    On side 0 the moment at which the first part ends is in the second; on side 1 the last moment of the
    first is the moment at which the second begins.
    """
    n = shape.n
    if side == 0:
        relax_upper(scratch.zone, n)
        found = within(code, shape, scratch, parts, row, part, scratch.zone)
    else:
        set_universe(scratch.other, n)
        found = within(code, shape, scratch, parts, row, part, scratch.other)
        if found == ENTERED:
            relax_lower(scratch.other, n)
            found = ENTERED if intersect(scratch.zone, scratch.other, n) else EMPTY
    if found != ENTERED:
        return found
    return settle(code, shape, scratch, parts, row, part, scratch.zone, True)


@loop
def _cross_all(code, shape, store, trees, tally, scratch, parts, row, bits, node):  # type: ignore[no-untyped-def]
    """Adds the nodes that waiting reaches in other parts; returns what is missing, or QUANTUM."""
    n = shape.n
    own = load_word(row + 8 * shape.word_count)
    zone = _zone_of(trees.nodes, node, n)
    for part in range(parts.stay_count):
        if part == own or not (bits >> parts.bits[part]) & 1:
            continue
        for side in range(2):
            copy(zone, scratch.zone, n)
            found = cross(code, shape, scratch, parts, row, part, side)
            if found == FAILED:
                return _blame(tally, node, -1)
            if found == ENTERED and not _add(
                code, shape, store, trees, tally, scratch, row, part, node, WAITING
            ):
                return NEED_PIECES
    return QUANTUM


@loop
def _blame(tally, node, action):  # type: ignore[no-untyped-def]
    """Notes that the action fails in the node, or the state itself if the action is -1."""
    tally[FAULT_NODE] = node
    tally[FAULT_ACTION] = action
    return FAULT


@loop
def _fails(code, shape, scratch, tally, zone, node, count):  # type: ignore[no-untyped-def]
    """Notes one of the `count` actions that fails in the zone; returns what is missing, or QUANTUM."""
    for k in range(count):
        if scratch.out_actions[k] < 0:
            left = leaving(code, shape, scratch, zone, count, k)
            if left < 0:
                return NEED_PIECES
            if left > 0:
                return _blame(tally, node, scratch.out_actions[k] & 0xFFFFFFFF)
    return QUANTUM


@loop
def _exists(code, shape, scratch, left, target):  # type: ignore[no-untyped-def]
    """Whether the invariants at the target let a step from one of the `left` ready pieces happen."""
    for piece in range(left):
        copy(scratch.ready[piece], scratch.zone, shape.n)
        set_clocks(scratch.zone, shape, target)
        if enter(code, shape, scratch, target, scratch.zone) != EMPTY:
            return True
    return False


@loop
def _step_all(code, shape, store, trees, tally, scratch, parts, node, count):  # type: ignore[no-untyped-def]
    """Adds the nodes that the `count` steps lead to; returns what is missing, or QUANTUM."""
    zone = _zone_of(trees.nodes, node, shape.n)
    for k in range(count):
        left = leaving(code, shape, scratch, zone, count, k)
        if left < 0:
            return NEED_PIECES
        if left == 0:
            continue
        action = scratch.out_actions[k] & 0xFFFFFFFF
        target = scratch.out_rows.ctypes.data + 8 * shape.stride * k
        if scratch.out_actions[k] < 0:
            return _blame(tally, node, action)
        if call_2(code.timing, target, scratch.words.ctypes.data) < 0:
            return _blame(tally, node, action)
        bits = call_1(code.propositions, target)
        if bits < 0:
            if _exists(code, shape, scratch, left, target):
                return _blame(tally, node, action)
            continue
        tally[TRANSITIONS] += 1
        for piece in range(left):
            for part in range(parts.stay_count):
                if not (bits >> parts.bits[part]) & 1:
                    continue
                copy(scratch.ready[piece], scratch.zone, shape.n)
                set_clocks(scratch.zone, shape, target)
                found = settle(code, shape, scratch, parts, target, part, scratch.zone, False)
                entry = (np.int64(k) << 32) | action
                if found == FAILED:
                    return _blame(tally, node, action)
                if found == ENTERED and not _add(
                    code, shape, store, trees, tally, scratch, target, part, node, entry
                ):
                    return NEED_PIECES
    return QUANTUM


@loop
def _search_node(code, shape, store, trees, tally, scratch, parts, node):  # type: ignore[no-untyped-def]
    """Expands a node; returns why the search must stop, or QUANTUM."""
    row = _row_of(store, trees.nodes, node)
    actions = scratch.out_actions
    count = call_4(code.successors, row, scratch.out_rows.ctypes.data, actions.ctypes.data, actions.size)
    if count < 0:
        return NEED_BUFFER
    bits = call_1(code.propositions, row)
    still = is_still(code, scratch, row)
    zone = _zone_of(trees.nodes, node, shape.n)
    ending = ends(code, shape, scratch, parts, row, bits, still, zone, count)
    if ending < 0:
        return NEED_PIECES
    if ending == BROKEN:
        return _blame(tally, node, -1)
    if ending == STUCK:  # if it is stuck only because every possible step fails, that failure is reported
        broken = _fails(code, shape, scratch, tally, zone, node, count)
        if broken != QUANTUM:
            return broken
    if ending != NO_END:
        tally[ENDING] = ending
        tally[LAST] = node
        return FOUND
    before_nodes, before_pending = tally[NODES], tally[PENDING]
    missing = QUANTUM
    if still == 0:
        missing = _cross_all(code, shape, store, trees, tally, scratch, parts, row, bits, node)
    if missing == QUANTUM:
        missing = _step_all(code, shape, store, trees, tally, scratch, parts, node, count)
    if missing != QUANTUM:
        tally[NODES], tally[PENDING] = before_nodes, before_pending
    return missing


@loop
def search_runs(
    code: TimedCode,
    shape: Shape,
    store: Store,
    trees: Trees,
    tally: NDArray[np.int64],
    scratch: Scratch,
    parts: Parts,
    quantum: int,
) -> int:
    """Expands at most `quantum` pending nodes; returns why it stopped."""
    nodes = trees.nodes
    for _ in range(quantum):
        if tally[PENDING] == 0:
            return COMPLETE
        room = scratch.out_actions.size * len(scratch.cuts) * (2 * parts.stay_count + 1)
        if tally[DISCRETE] + room > tally[TABLE_LIMIT]:
            return NEED_TABLE
        if tally[NODES] + room > tally[NODE_LIMIT]:
            return NEED_NODES
        node = trees.pending[tally[PENDING] - 1]
        if nodes.flags[node] != NEW:
            nodes.flags[node] = DONE
            tally[PENDING] -= 1
            continue
        fate = _compare(shape, store, nodes, tally, node)
        if fate == DONE:
            return FOUND
        if fate == DROPPED:
            nodes.flags[node] = DROPPED
            tally[PENDING] -= 1
            continue
        missing = _search_node(code, shape, store, trees, tally, scratch, parts, node)
        if missing != QUANTUM:
            return int(missing)
        _link(store, nodes, node)
    return QUANTUM
