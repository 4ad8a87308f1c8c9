"""The zones that a search keeps, in native code.

A *node* is a zone together with a discrete state. Discrete states are stored once, in the visited set. A
new zone is dropped if a node of its state covers it; the nodes that it covers are not expanded any more.
The nodes themselves stay in memory, so that the path to each can be reconstructed.

A state can have many thousands of nodes, so an index has *marks* of each: bounds of its zone in eight bits,
seven to a word. A zone that covers another has no smaller marks, and one subtraction compares a word of
them. Nodes whose marks of lower and upper bounds are equal form a *group*. If those marks allow that one
zone of a group covers the new one, or the reverse, the marks of differences are compared, node by node; few
zones are left to look at. The only node of a state has no marks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.extrapolate import covers
from veristream.kernel.zones import Zone, copy, includes
from veristream.native.loop import loop
from veristream.native.primitives import load_half, store_half
from veristream.search.reach.visited import ROOT, find_or_add
from veristream.search.zones.steps import Scratch, Shape

# Counters of a search; LEVEL is the depth of the node expanded last, -1 before the first. DROPPED counts
# the covered nodes, AHEAD those of them that would still be expanded, INDEXED the index's words in use.
NODES, EXPANDED, TRANSITIONS, DISCRETE, DEPTH, SKEWED, TABLE_LIMIT, NODE_LIMIT, LEVEL = range(9)
DROPPED, AHEAD, INDEXED, TALLY_COUNT = range(9, 13)

COVERED = 1
NONE = 0xFFFFFFFF

FIELDS = 7
FIELD_BITS = 9
MARK_MAX = 255
GUARDS = sum(1 << (FIELD_BITS * k + FIELD_BITS - 1) for k in range(FIELDS))
"""The bits between the marks of a word."""

BLOCK_MAX = 64
"""The entries of the largest blocks."""

GROUP, ENTRY = 2, 4
"""How many words of marks a group has, and a node."""

INDEX_WORDS_MAX = 16
"""The most words that the index needs for each node."""

ALONE = 0x80000000
"""Added to the number of a node that is the only one of its state, in place of a chain."""

UNIT = 4
"""A block begins at a multiple of this many words, which is its number."""

NODES_MAX = UNIT * (ALONE - 1) // INDEX_WORDS_MAX
"""There are fewer blocks than numbers for them."""

Words = NDArray[np.int64]


class Nodes(NamedTuple):
    """All nodes, by number; an entry is the step that led to the node: its action, and above 32 bits its
    place among the successors of the parent.

    The index has chains of blocks, each block twice as large as the next one, up to a limit: a word with
    the number of entries above 48 bits, the number that there is room for above 32, and the next block;
    then the first marks of all entries, the second marks, and so on; then a number for each, two in a word.
    In the chain of a state the entries are groups, and the number is the first block of the group's chain;
    in that chain it is the node. `block_halves` is the same memory as `blocks`.
    """

    zones: NDArray[np.int32]
    states: NDArray[np.uint32]
    following: NDArray[np.uint32]  # in the chain of the discrete state, in a search for runs
    parents: NDArray[np.uint32]
    entries: NDArray[np.int64]
    depths: NDArray[np.int32]
    flags: NDArray[np.uint8]
    blocks: NDArray[np.int64]
    block_halves: NDArray[np.uint32]


@loop
def zone_of(nodes, node, n):  # type: ignore[no-untyped-def]
    """The zone of a node."""
    return nodes.zones[node * n * n : (node + 1) * n * n]


# --- marks ---


@loop
def _shift_within(most, limit):  # type: ignore[no-untyped-def]
    """By how many bits to shift values up to `most` so that they do not exceed the limit."""
    shift = 0
    while most >> shift > limit:
        shift += 1
    return shift


@loop
def _mark(marks, first, place, value):  # type: ignore[no-untyped-def]
    """Adds a value to the field of its place in two words; the sum stays within the field."""
    field = place % (2 * FIELDS)
    word, shift = first + field // FIELDS, FIELD_BITS * (field % FIELDS)
    sum_ = min(((marks[word] >> shift) & MARK_MAX) + value, np.int64(MARK_MAX))
    marks[word] = (marks[word] & ~(np.int64(MARK_MAX) << shift)) | (sum_ << shift)


@loop
def _mark_clocks(shape, scratch, zone):  # type: ignore[no-untyped-def]
    """Marks the least and the greatest value of each clock, up to the constant that matters: `covers` does
    not distinguish bounds beyond it."""
    n = shape.n
    place = 0
    for clock in range(1, n):
        for side in range(2):
            constant = np.int64(scratch.upper[clock] if side == 0 else scratch.lower[clock])
            if constant < 0:
                continue
            if side == 0:
                value = max(np.int64(zone[clock]) + 2 * constant, np.int64(0))
            else:
                value = min(np.int64(zone[clock * n]), 2 * constant + 2)
            _mark(scratch.marks, 0, place, value >> _shift_within(2 * constant + 2, MARK_MAX))
            place += 1


@loop
def _mark_differences(shape, scratch, zone):  # type: ignore[no-untyped-def]
    """Marks the differences of clocks twice: as they are, for a zone that may cover others, and as small as
    those of a zone that covers this one can be, after the rules of `covers`."""
    n, lower, upper = shape.n, scratch.lower, scratch.upper
    active = 0
    for clock in range(1, n):
        if lower[clock] >= 0 or upper[clock] >= 0:
            active += 1
    share = MARK_MAX // (active * active // (2 * FIELDS) + 1)  # of a field, for each of its values
    place = 0
    for i in range(1, n):
        if upper[i] < 0:
            continue
        most = 2 * np.int64(upper[i])
        least = np.int64(zone[i])
        for j in range(1, n):
            if i == j or lower[j] < 0:
                continue
            range_ = most + 2 * np.int64(lower[j]) + 2
            shift = _shift_within(range_, share)
            own = np.int64(zone[j * n + i])
            _mark(scratch.marks, GROUP, place, min(max(own + most, np.int64(0)), range_) >> shift)
            if least >= 1 - most:  # the clock need not exceed U
                needed = max(min(own, least + 2 * np.int64(lower[j])) + most, np.int64(0))
                _mark(scratch.marks, GROUP + 2, place, min(needed, range_) >> shift)
            place += 1


@loop
def set_marks(shape: Shape, scratch: Scratch, zone: Zone) -> None:
    """Writes the marks of a zone to the scratch, under the constants L and U that the scratch has.

    These are two words of its group, two of its differences, and two of the differences that a covering
    zone needs. If there are more bounds than fields, several share one, as a sum.
    """
    scratch.marks[:] = 0
    _mark_clocks(shape, scratch, zone)
    _mark_differences(shape, scratch, zone)


@loop
def at_least(big: int, small: int) -> bool:
    """Whether no mark of one word is smaller than that of the other."""
    return bool(((big | GUARDS) - small) & GUARDS == GUARDS)


# --- chains of blocks ---


@loop
def _room(nodes, block):  # type: ignore[no-untyped-def]
    return (nodes.blocks[UNIT * block] >> 32) & 0xFFFF


@loop
def _count(nodes, block):  # type: ignore[no-untyped-def]
    return nodes.blocks[UNIT * block] >> 48


@loop
def _numbers(nodes, block, width):  # type: ignore[no-untyped-def]
    """Where the numbers of a block begin among the halves."""
    return 2 * (UNIT * block + 1 + width * _room(nodes, block))


@loop
def _new_block(nodes, tally, before, width):  # type: ignore[no-untyped-def]
    """An empty block before another one, or NONE."""
    room = np.int64(1)
    if before != NONE:
        room = min(2 * _room(nodes, before), np.int64(BLOCK_MAX))
    tally[INDEXED] += UNIT if tally[INDEXED] == 0 else 0  # 0 is no block
    block = tally[INDEXED] // UNIT
    words = 1 + width * room + ((room + 1) >> 1)
    tally[INDEXED] += (words + UNIT - 1) // UNIT * UNIT
    nodes.blocks[UNIT * block] = room << 32 | before
    return block


@loop
def _append(nodes, block, width, marks, first, number):  # type: ignore[no-untyped-def]
    """Adds an entry with the marks from `first` on to a block that has room."""
    room, count = _room(nodes, block), _count(nodes, block)
    for k in range(width):
        nodes.blocks[UNIT * block + 1 + k * room + count] = marks[first + k]
    nodes.block_halves[_numbers(nodes, block, width) + count] = number
    nodes.blocks[UNIT * block] += np.int64(1) << 48


@loop
def _drop(nodes, tally, node, depth):  # type: ignore[no-untyped-def]
    """Notes that a new node of the given depth covers a node."""
    nodes.flags[node] |= COVERED
    tally[DROPPED] += 1
    if node >= tally[EXPANDED]:
        tally[AHEAD] += 1
        if nodes.depths[node] < depth:
            tally[SKEWED] = 1


@loop
def _remove(nodes, tally, block, entry, depth):  # type: ignore[no-untyped-def]
    """Removes a node that a new one of the given depth covers; the last entry of the block takes its
    place."""
    index, halves = nodes.blocks, nodes.block_halves
    room, last = _room(nodes, block), _count(nodes, block) - 1
    first = _numbers(nodes, block, ENTRY)
    _drop(nodes, tally, np.int64(halves[first + entry]), depth)
    for k in range(ENTRY):
        at = UNIT * block + 1 + k * room
        index[at + entry] = index[at + last]
    halves[first + entry] = halves[first + last]
    index[UNIT * block] -= np.int64(1) << 48


# --- comparing ---


@loop
def _includes(shape, scratch, big, small):  # type: ignore[no-untyped-def]
    """Whether the big zone makes the small one superfluous in a state with the scratch's L and U."""
    if shape.differences.shape[0] > 0:
        return includes(big, small, shape.n)  # the constants say nothing of differences
    return covers(big, small, shape.n, scratch.lower, scratch.upper)


@loop
def _sift_group(shape, scratch, nodes, tally, head, zone, depth, above, under):  # type: ignore[no-untyped-def]
    """Whether a node of a group covers the zone, if they can (`above`); removes those that the zone covers,
    if it can (`under`)."""
    n, index, marks = shape.n, nodes.blocks, scratch.marks
    block = head
    while block != NONE:
        room, count = _room(nodes, block), _count(nodes, block)
        numbers = _numbers(nodes, block, ENTRY)
        entry = 0
        while entry < count:
            at = UNIT * block + 1 + entry
            over = above and at_least(index[at], marks[GROUP + 2])
            below_ = under and at_least(marks[GROUP], index[at + 2 * room])
            if over or below_:
                mine = zone_of(nodes, np.int64(nodes.block_halves[numbers + entry]), n)
                over = over and at_least(index[at + room], marks[GROUP + 3])
                below_ = below_ and at_least(marks[GROUP + 1], index[at + 3 * room])
                if over and _includes(shape, scratch, mine, zone):
                    return True
                if below_ and _includes(shape, scratch, zone, mine):
                    _remove(nodes, tally, block, entry, depth)
                    count -= 1
                    continue  # with the entry that took its place
            entry += 1
        block = index[UNIT * block] & NONE
    return False


@loop
def _sift(shape, scratch, nodes, tally, head, zone, depth):  # type: ignore[no-untyped-def]
    """Removes what the zone covers from the state's chain; where its own group is among the halves of the
    index, 0 if it has none yet, or -1 if a node covers it."""
    index, halves = nodes.blocks, nodes.block_halves
    one, two = scratch.marks[0], scratch.marks[1]
    own = np.int64(0)
    block = head
    while block != NONE:
        room, count = _room(nodes, block), _count(nodes, block)
        numbers = _numbers(nodes, block, GROUP)
        for entry in range(count):
            at = UNIT * block + 1 + entry
            first, second = index[at], index[at + room]
            above = at_least(first, one) and at_least(second, two)
            under = at_least(one, first) and at_least(two, second)
            if not above and not under:
                continue
            if above and under:
                own = numbers + entry
            chain = np.int64(halves[numbers + entry])
            if _sift_group(shape, scratch, nodes, tally, chain, zone, depth, above, under):
                return np.int64(-1)
        block = index[UNIT * block] & NONE
    return own


@loop
def _enter_index(scratch, nodes, tally, head_address, own, node):  # type: ignore[no-untyped-def]
    """Adds a node to its group, which is at `own`, or to a new group."""
    halves = nodes.block_halves
    if own == 0:
        block = np.int64(load_half(head_address))
        if block == NONE or _count(nodes, block) == _room(nodes, block):
            block = _new_block(nodes, tally, block, GROUP)
            store_half(head_address, block)
        own = _numbers(nodes, block, GROUP) + _count(nodes, block)
        _append(nodes, block, GROUP, scratch.marks, 0, np.int64(NONE))
    block = np.int64(halves[own])
    while block != NONE and _count(nodes, block) == _room(nodes, block):
        block = nodes.blocks[UNIT * block] & NONE
    if block == NONE:
        block = _new_block(nodes, tally, np.int64(halves[own]), ENTRY)
        halves[own] = block
    _append(nodes, block, ENTRY, scratch.marks, GROUP, node)


@loop
def _place_alone(shape, scratch, nodes, tally, head, zone, depth):  # type: ignore[no-untyped-def]
    """Compares the zone with the only node of a state: -1 if that covers it, 1 if the zone takes its place.
    Otherwise the node enters the index: 0."""
    node = np.int64(load_half(head)) - ALONE
    mine = zone_of(nodes, node, shape.n)
    if _includes(shape, scratch, mine, zone):
        return -1
    if _includes(shape, scratch, zone, mine):
        _drop(nodes, tally, node, depth)
        return 1
    store_half(head, NONE)
    set_marks(shape, scratch, mine)
    _enter_index(scratch, nodes, tally, head, np.int64(0), node)
    return 0


@loop
def add_zone(shape, scratch, store, nodes, tally, row, print_, zone, parent, entry, depth):  # type: ignore[no-untyped-def]
    """The node of the zone in the state at `row`, whose constants L and U the scratch has; -1 if another
    node covers it."""
    fresh = tally[DISCRETE]
    state = find_or_add(store, row, print_, fresh, ROOT)
    if state == fresh:
        tally[DISCRETE] += 1
    head = store.parents + 4 * state
    node = tally[NODES]
    chain = np.int64(load_half(head))
    alone = 1 if chain == NONE else 0
    if chain != NONE and chain >= ALONE:
        alone = _place_alone(shape, scratch, nodes, tally, head, zone, depth)
        if alone < 0:
            return -1
    if alone == 1:
        store_half(head, ALONE + node)
    else:
        set_marks(shape, scratch, zone)
        own = _sift(shape, scratch, nodes, tally, np.int64(load_half(head)), zone, depth)
        if own < 0:
            return -1
        _enter_index(scratch, nodes, tally, head, own, node)
    copy(zone, zone_of(nodes, node, shape.n), shape.n)
    nodes.states[node] = state
    nodes.parents[node] = parent
    nodes.entries[node] = entry
    nodes.depths[node] = depth
    nodes.flags[node] = 0
    tally[NODES] = node + 1
    tally[DEPTH] = max(tally[DEPTH], depth)
    return node
