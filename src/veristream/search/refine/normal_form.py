"""The normal form of a specification, built on demand.

A *node* is the set of all states that the specification can be in after some trace: no invisible step
leads out of it. Stored with a node is what a search needs: whether one of its states diverges, and the
least sets of events that its stable states offer (Roscoe, "Model-checking CSP", 1994).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from veristream.native.loop import loop
from veristream.native.primitives import half_at, set_half, set_word, word_at
from veristream.search.memory import OutOfMemoryError, reserve
from veristream.search.refine.alphabet import TAU
from veristream.search.refine.labelled import Labelled
from veristream.search.refine.system import (
    DIVERGES,
    DONE,
    GROW,
    System,
    diverge,
    expand_state,
    offer_of,
)
from veristream.search.refine.tables import (
    COUNT,
    MISSING,
    Map,
    MapTable,
    Sequences,
    SequenceTable,
    address_of,
    has_room,
    intern,
    make_set,
    mix,
    place_of,
    put,
)

NOTHING, TRACES, FAILURES, DIVERGENCES = range(-1, 3)
"""How much is observed; each level includes those before it."""
NOWHERE = -1
"""The target of an event that no state of a node can do."""
UNKNOWN_MOVE = -2

TICK, LEAST_USED, NORMAL_COUNTS = range(3)
_UNUSED = 1 << 16  # bytes of tables that stay empty


class Normal(NamedTuple):
    """A normal form as native loops see it; numbers are addresses of arrays."""

    system: System
    alphabet: Sequences
    offers: Sequences
    nodes: Sequences  # the states of a node, in ascending order
    moves: Map  # from node and event to a node or NOWHERE
    diverges: int  # half words, per node
    bits: int  # per node: a bit for each of its states, by hash
    least_first: int  # per node: where its offers begin in `least`; those of the next node follow
    least: int
    stamps: int  # per state: the last tick at which it was collected
    queue: int
    members: int  # the states of the node in hand, in ascending order
    counts: int
    depth: int  # NOTHING, TRACES, FAILURES or DIVERGENCES; no address


@loop
def _collect(normal, tick, size, state):  # type: ignore[no-untyped-def]
    """Puts the state into the queue unless it is there; returns the size of the queue."""
    if word_at(normal.stamps, state) == tick:
        return size
    set_word(normal.stamps, state, tick)
    set_word(normal.queue, size, state)
    return size + 1


@loop
def _next_tick(normal):  # type: ignore[no-untyped-def]
    tick = word_at(normal.counts, TICK) + 1
    set_word(normal.counts, TICK, tick)
    return tick


@loop
def first_node(normal):  # type: ignore[no-untyped-def]
    """Makes the node of the empty trace; returns DONE or why it could not."""
    tick = _next_tick(normal)
    return _close(normal, tick, _collect(normal, tick, 0, 0))[0]


@loop
def known_move(normal, node, event):  # type: ignore[no-untyped-def]
    """The target of the visible event from the node if it is known, else UNKNOWN_MOVE; several threads may
    ask at the same time."""
    place = place_of(normal.moves, (node << 32) | event)
    if word_at(normal.moves.keys, place) == 0:
        return UNKNOWN_MOVE
    return word_at(normal.moves.values, place)


@loop
def find_move(normal, node, event):  # type: ignore[no-untyped-def]
    """The target of the visible event from the node; with DONE, or why it is not known."""
    key = (node << 32) | event
    place = place_of(normal.moves, key)
    if word_at(normal.moves.keys, place) != 0:
        return DONE, word_at(normal.moves.values, place)
    if not has_room(normal.moves.counts, 1):
        return GROW, NOWHERE
    target = NOWHERE
    tick = _next_tick(normal)
    size = _collect_after(normal, tick, node, event)
    if size > 0:
        code, target = _close(normal, tick, size)
        if code != DONE:
            return code, NOWHERE
    put(normal.moves, place, key, target)
    return DONE, target


@loop
def _collect_after(normal, tick, node, event):  # type: ignore[no-untyped-def]
    """Puts the targets of the event from the node's states into the queue; returns the size of the
    queue."""
    system, nodes = normal.system, normal.nodes
    size = 0
    for k in range(word_at(nodes.first, node), word_at(nodes.first, node + 1)):
        state = word_at(nodes.pool, k)
        for edge in range(word_at(system.first, state) - 1, word_at(system.last, state)):
            if half_at(system.events, edge) == event:
                size = _collect(normal, tick, size, half_at(system.targets, edge))
    return size


@loop
def _close(normal, tick, size):  # type: ignore[no-untyped-def]
    """The node of the queue's states and all states that invisible steps lead to from them."""
    system = normal.system
    if not has_room(normal.nodes.counts, 1):
        return GROW, NOWHERE
    head = 0
    while head < size:
        state = word_at(normal.queue, head)
        code = expand_state(system, normal.alphabet, state)
        if code != DONE:
            return code, NOWHERE
        for edge in range(word_at(system.first, state) - 1, word_at(system.last, state)):
            if half_at(system.events, edge) == TAU:
                size = _collect(normal, tick, size, half_at(system.targets, edge))
        head += 1
    members = normal.members
    for k in range(size):
        state = word_at(normal.queue, k)
        set_word(members, k, state)
        if normal.depth >= FAILURES and offer_of(system, normal.offers, state, True) == -2:
            return GROW, NOWHERE
        if normal.depth == DIVERGENCES:
            code = diverge(system, normal.alphabet, state)
            if code != DONE:
                return code, NOWHERE
    make_set(members, size)
    known = word_at(normal.nodes.counts, COUNT)
    node = intern(normal.nodes, members, size)
    if node == MISSING:
        return GROW, NOWHERE
    if node == known:
        _describe(normal, node, size)
    return DONE, node


@loop
def _describe(normal, node, size):  # type: ignore[no-untyped-def]
    """Computes what a search needs to know about a new node of `size` members."""
    bits = np.int64(0)
    for k in range(size):
        state = word_at(normal.members, k)
        bits |= np.int64(1) << (mix(state) & 63)
        if normal.depth == DIVERGENCES and half_at(normal.system.divergence, state) == DIVERGES:
            set_half(normal.diverges, node, 1)
    set_word(normal.bits, node, bits)
    used = word_at(normal.counts, LEAST_USED)
    set_word(normal.least_first, node, used)
    if normal.depth >= FAILURES:
        used = _add_least(normal, size, used)
    set_word(normal.counts, LEAST_USED, used)
    set_word(normal.least_first, node + 1, used)


@loop
def _add_least(normal, member_count, used):  # type: ignore[no-untyped-def]
    """Appends the least of the sets that the stable members offer; returns where they end."""
    found = normal.queue  # its states are members by now
    size = 0
    for k in range(member_count):
        offer = half_at(normal.system.offers, word_at(normal.members, k)) - 2
        if offer >= 0:
            set_word(found, size, offer)
            size += 1
    size = make_set(found, size)
    for k in range(size):
        is_least = True
        for other in range(size):
            if other != k and is_subset(normal.offers, word_at(found, other), word_at(found, k)):
                is_least = False
                break
        if is_least:
            set_word(normal.least, used, word_at(found, k))
            used += 1
    return used


@loop
def is_subset(sequences, left, right):  # type: ignore[no-untyped-def]
    """Whether every item of one ascending sequence is in the other."""
    pool, first = sequences.pool, sequences.first
    start, stop = word_at(first, left), word_at(first, left + 1)
    at, end = word_at(first, right), word_at(first, right + 1)
    if stop - start > end - at:
        return False
    for k in range(start, stop):
        wanted = word_at(pool, k)
        while at < end and word_at(pool, at) < wanted:
            at += 1
        if at == end or word_at(pool, at) != wanted:
            return False
    return True


@loop
def allows_offer(normal, node, offer):  # type: ignore[no-untyped-def]
    """Whether some stable state of the node offers no more than that, and so may refuse as much."""
    for k in range(word_at(normal.least_first, node), word_at(normal.least_first, node + 1)):
        least = word_at(normal.least, k)
        if least == offer or is_subset(normal.offers, least, offer):
            return True
    return False


@loop
def covers(normal, small, large):  # type: ignore[no-untyped-def]
    """Whether the states of one node are all states of the other, so that it allows no more."""
    if small == large:
        return True
    if word_at(normal.bits, small) & ~word_at(normal.bits, large):
        return False
    return is_subset(normal.nodes, small, large)


class NormalForm:
    """Owns the normal form of a specification."""

    def __init__(self, specification: Labelled, offers: SequenceTable, depth: int, byte_max: int) -> None:
        self.specification, self.offers = specification, offers
        self.nodes, self.moves = SequenceTable(byte_max), MapTable()
        states = specification.native.state_room
        room = self.nodes.native.first_size
        sizes = (4 * room, 8 * room, 8 * room, byte_max // 2, 8 * states, 8 * states, 8 * states)
        self._reserves = [reserve(size) for size in sizes]
        self._depth = depth
        self._counts = np.zeros(NORMAL_COUNTS, np.int64)

    @property
    def native(self) -> Normal:
        """The current form for native loops."""
        diverges, bits, least_first, least, stamps, queue, members = (
            part.address for part in self._reserves
        )
        return Normal(
            self.specification.native,
            self.specification.alphabet.table.native,
            self.offers.native,
            self.nodes.native,
            self.moves.native,
            diverges,
            bits,
            least_first,
            least,
            stamps,
            queue,
            members,
            address_of(self._counts),
            self._depth,
        )

    @property
    def byte_count(self) -> int:
        """Memory in use, including that of the specification."""
        own = self.nodes.byte_count + self.moves.byte_count + 20 * len(self.nodes)
        states = 16 * self.specification.state_count
        return own + states + 8 * int(self._counts[LEAST_USED]) + self.specification.byte_count

    def make_room(self) -> None:
        """Enlarges what is too small."""
        if self.nodes.is_full or self.offers.is_full:
            raise OutOfMemoryError
        self.specification.make_room()
        self.nodes.make_room(1024)
        self.moves.make_room(1024)
        self.offers.make_room(1024)

    def least_offers(self, node: int) -> list[int]:
        """The least sets that stable states of the node offer."""
        _, _, least_first, least, _, _, _ = (part.words for part in self._reserves)
        return [int(offer) for offer in least[least_first[node] : least_first[node + 1]]]

    def diverges(self, node: int) -> bool:
        """Whether some state of the node diverges."""
        return bool(self._reserves[0].words.view(np.uint32)[node])


class Unspecified(NormalForm):
    """In place of a normal form where there is no specification: nothing of it is looked at."""

    def __init__(self, labelled: Labelled) -> None:
        super().__init__(labelled, SequenceTable(_UNUSED), NOTHING, _UNUSED)

    @property
    def byte_count(self) -> int:
        """Nothing: the states are counted as those of the implementation."""
        return 0
