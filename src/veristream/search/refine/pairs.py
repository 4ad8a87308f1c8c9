"""Pairs of a state of the implementation and a node of the specification, explored breadth-first.

A pair is reached by a trace that both can do. It violates the refinement if the state can do or refuse
something, or diverges, and no state of the node allows that. A pair is skipped if the same state was
already seen with fewer states of the specification: every violation is found from there too, and no later
(Wang, Song, Sun, Liu, Dong et al., "More Anti-chain Based Refinement Checking", ICFEM 2012).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from veristream.native.loop import loop
from veristream.native.primitives import half_at, set_half, set_word, word_at
from veristream.search.memory import OutOfMemoryError, Reserve, reserve
from veristream.search.refine.alphabet import TAU
from veristream.search.refine.labelled import Labelled
from veristream.search.refine.normal_form import (
    DIVERGENCES,
    FAILURES,
    NOTHING,
    NOWHERE,
    Normal,
    NormalForm,
    allows_offer,
    covers,
    find_move,
    first_node,
)
from veristream.search.refine.system import (
    DIVERGES,
    DONE,
    FAULT,
    GROW,
    QUANTUM,
    WORK,
    System,
    diverge,
    expand_state,
    offer_of,
)
from veristream.search.refine.tables import Map, MapTable, address_of, has_room, place_of, put
from veristream.search.refine.ways import NO_EVENT, split_event
from veristream.verdict import Counts

BROKEN, COMPLETE = 10, 11
"""Why the loop returns, in addition to the reasons of expanding a state."""

# How a pair violates the refinement, or that its state is not deterministic.
NOT, CANNOT, REFUSES, ENDLESS, SPLITS = range(5)

# The state of the loop between calls. BROKEN_PAIR and BROKEN_EDGE belong to HOW.
PAIRS, NEXT, CURSOR, LEVEL_END, DEPTH, TRANSITIONS, ROOM_FULL = range(7)
HOW, BROKEN_PAIR, BROKEN_EDGE, SEEN_VISIBLE, SEEN_STABLE, PAIR_COUNTS = range(7, 13)
ROOT = 0xFFFFFFFF
WORK_LEAST = 1 << 14  # expansions between two checks of the limits
LOOK_BACK = 32  # pairs of one state that a new one is compared with


class Pairing(NamedTuple):
    """The memory of the native loop: addresses of half words, per pair except `heads`, and of counts."""

    system: System
    normal: Normal
    old: int  # per worker, the words of a map: from state and node to the pair, for pairs of its states
    # that a new one is not compared with
    workers: int  # no address, as is `end`
    end: int  # of the worker's numbers of pairs
    states: int
    nodes: int
    parents: int
    events: int  # by which the pair was reached from its parent
    others: int  # the pair that the same state had before, plus 1
    heads: int  # per state of the implementation: its newest pair, plus 1
    queue: int  # the pairs in the order of the search; 0 if that is the order of their numbers
    ways: int  # scratch of `split_event`, if nothing is observed but whether the network is deterministic
    counts: int


@loop
def owner_of(pairing, state):  # type: ignore[no-untyped-def]
    """The worker that decides which pairs of the state are new. A cache line of `heads` has one."""
    return ((((state >> 4) * 0x9E3779B1) & 0xFFFFFFFF) * pairing.workers) >> 32


@loop
def _old_of(pairing, state):  # type: ignore[no-untyped-def]
    """The map with old pairs of the state."""
    words = pairing.old + 32 * owner_of(pairing, state)
    return Map(word_at(words, 0), word_at(words, 1), word_at(words, 2), word_at(words, 3))


@loop
def _last_compared(pairing, state, node):  # type: ignore[no-untyped-def]
    """Whether one of the newest pairs of the state has a node with no more states than this one; and the
    oldest of those pairs, plus 1, if there are as many as are compared, else 0."""
    other = half_at(pairing.heads, state)
    last = 0
    for _ in range(LOOK_BACK):
        if other == 0:
            return False, 0
        if covers(pairing.normal, half_at(pairing.nodes, other - 1), node):
            return True, 0
        last = other
        other = half_at(pairing.others, other - 1)
    return False, last


@loop
def add_pair(pairing, state, node, parent, event):  # type: ignore[no-untyped-def]
    """Adds the pair unless it is known or covered; returns DONE or GROW."""
    covered, last = _last_compared(pairing, state, node)
    if covered:
        return DONE
    pair = word_at(pairing.counts, NEXT)
    if pair == pairing.end:
        set_word(pairing.counts, ROOM_FULL, 1)
        return GROW
    if last != 0:
        old = _old_of(pairing, state)
        if word_at(old.keys, place_of(old, (state << 32) | node)) != 0:
            return DONE
        if not has_room(old.counts, 1):
            return GROW
        # With the new pair, this one will not be compared any more.
        key = (state << 32) | half_at(pairing.nodes, last - 1)
        put(old, place_of(old, key), key, last - 1)
    set_half(pairing.states, pair, state)
    set_half(pairing.nodes, pair, node)
    set_half(pairing.parents, pair, parent)
    set_half(pairing.events, pair, event)
    set_half(pairing.others, pair, half_at(pairing.heads, state))
    set_half(pairing.heads, state, pair + 1)
    set_word(pairing.counts, NEXT, pair + 1)
    known = word_at(pairing.counts, PAIRS)
    if pairing.queue != 0:
        set_half(pairing.queue, known, pair)
    set_word(pairing.counts, PAIRS, known + 1)
    return DONE


@loop
def _begin(pairing):  # type: ignore[no-untyped-def]
    """Adds the first pair; returns DONE or why it could not."""
    code = first_node(pairing.normal)
    if code == DONE:
        code = add_pair(pairing, 0, 0, ROOT, TAU)
        set_word(pairing.counts, LEVEL_END, 1)
    return code


@loop
def judge(pairing, state, node):  # type: ignore[no-untyped-def]
    """How the pair itself, with an expanded state, violates the refinement; with DONE, or why it is not
    known."""
    system, normal = pairing.system, pairing.normal
    if normal.depth == DIVERGENCES:
        code = diverge(system, normal.alphabet, state)
        if code != DONE:
            return code, NOT
        if half_at(system.divergence, state) == DIVERGES:
            return DONE, ENDLESS
    if normal.depth >= FAILURES:
        offer = offer_of(system, normal.offers, state, True)
        if offer == -2:
            return GROW, NOT
        if offer >= 0:
            set_word(pairing.counts, SEEN_STABLE, 1)
            if not allows_offer(normal, node, offer):
                return DONE, REFUSES
    return DONE, NOT


@loop
def _follow(pairing, pair, state, node):  # type: ignore[no-untyped-def]
    """Adds the pairs after this one, up to an edge that the specification cannot follow; returns DONE or
    why it could not, and that edge or -1."""
    system, normal = pairing.system, pairing.normal
    for edge in range(word_at(system.first, state) - 1, word_at(system.last, state)):
        event = half_at(system.events, edge)
        target = node
        if event != TAU and normal.depth != NOTHING:
            set_word(pairing.counts, SEEN_VISIBLE, 1)
            code, target = find_move(normal, node, event)
            if code != DONE:
                return code, -1
            if target == NOWHERE:
                return DONE, edge
        code = add_pair(pairing, half_at(system.targets, edge), target, pair, event)
        if code != DONE:
            return code, -1
    return DONE, -1


@loop
def _break(counts, how, pair, edge):  # type: ignore[no-untyped-def]
    set_word(counts, HOW, how)
    set_word(counts, BROKEN_PAIR, pair)
    set_word(counts, BROKEN_EDGE, edge)


@loop
def _look(pairing, pair):  # type: ignore[no-untyped-def]
    """Checks one pair; returns DONE, or why it could not, or BROKEN if no nearer violation is possible."""
    counts, system, normal = pairing.counts, pairing.system, pairing.normal
    state, node = half_at(pairing.states, pair), half_at(pairing.nodes, pair)
    if normal.depth == DIVERGENCES and half_at(normal.diverges, node):
        return DONE  # from here on the specification allows everything
    code = expand_state(system, normal.alphabet, state)
    if code != DONE:
        return code
    code, how = judge(pairing, state, node)
    if code != DONE:
        return code
    if how != NOT:
        _break(counts, how, pair, -1)
        return BROKEN
    if word_at(counts, HOW) == NOT:
        code, edge = _follow(pairing, pair, state, node)
        if code != DONE:
            return code
        if edge >= 0:
            _break(counts, CANNOT, pair, edge)
            if normal.depth < FAILURES:
                return BROKEN
    if normal.depth == NOTHING:
        event = split_event(system, pairing.ways, state)
        if event != NO_EVENT:
            _break(counts, SPLITS, pair, event)
            return BROKEN
    steps = word_at(system.last, state) - word_at(system.first, state) + 1
    set_word(counts, TRANSITIONS, word_at(counts, TRANSITIONS) + steps)
    return DONE


@loop
def explore_pairs(pairing: Pairing, quantum: int) -> int:
    """Checks about `quantum` pairs; returns why it stopped.

    A step that the specification cannot do ends in the next level, so the rest of this level is checked
    first for a pair that violates the refinement by itself.
    """
    counts = pairing.counts
    if word_at(counts, PAIRS) == 0:
        code = _begin(pairing)
        if code != DONE:
            return code
    for _ in range(quantum):
        cursor = word_at(counts, CURSOR)
        if cursor == word_at(counts, LEVEL_END):
            if word_at(counts, HOW) != NOT:
                return BROKEN
            if cursor == word_at(counts, PAIRS):
                return COMPLETE
            set_word(counts, LEVEL_END, word_at(counts, PAIRS))
            set_word(counts, DEPTH, word_at(counts, DEPTH) + 1)
        pair = cursor if pairing.queue == 0 else half_at(pairing.queue, cursor)
        code = _look(pairing, pair)
        if code != DONE:
            return code
        set_word(counts, CURSOR, cursor + 1)
    return QUANTUM


@dataclass(frozen=True, slots=True)
class Break:
    """How the refinement is violated, and at which pair; `edge` is the step that the specification lacks,
    or the event that splits."""

    how: int
    pair: int
    edge: int


class Pairs:
    """An exploration in progress; see `session.Advancing`."""

    def __init__(self, implementation: Labelled, normal: NormalForm, budget: int) -> None:
        self.implementation, self.normal, self.budget = implementation, normal, budget
        self.sides = tuple(dict.fromkeys((implementation, normal.specification)))
        self.workers = implementation.crew.size
        self.complete = False
        self.failed: Labelled | None = None  # the network that has a failing action
        self.broken: Break | None = None
        self.room = min(budget // 28, (ROOT - 1) // self.workers)  # pairs of each worker
        self._reserves: list[Reserve] = [reserve(4 * self.room * self.workers) for _ in range(5)]
        events = implementation.alphabet.table.native.first_size
        self._ways_size = 16 * events if normal.native.depth == NOTHING else 0
        self._ways = reserve(self._ways_size * self.workers)
        self._heads = reserve(4 * implementation.rooms[0] * self.workers)
        self._old = [MapTable() for _ in range(self.workers)]
        self._maps = np.zeros((self.workers, len(Map._fields)), np.int64)
        self._list_maps()
        self.tally = np.zeros(PAIR_COUNTS, np.int64)

    def _list_maps(self) -> None:
        self._maps[:] = [old.native for old in self._old]

    @property
    def native(self) -> Pairing:
        """The current form for the native loop."""
        states, nodes, parents, events, others = (part.address for part in self._reserves)
        return Pairing(
            system=self.implementation.native,
            normal=self.normal.native,
            old=address_of(self._maps),
            workers=self.workers,
            end=self.room,
            states=states,
            nodes=nodes,
            parents=parents,
            events=events,
            others=others,
            heads=self._heads.address,
            queue=0,
            ways=self._ways.address,
            counts=address_of(self.tally),
        )

    @property
    def state_count(self) -> int:
        """Pairs found."""
        return int(self.tally[PAIRS])

    @property
    def counts(self) -> Counts:
        """Transitions are steps of the implementation, counted once for each pair; the depth is the number
        of the level being expanded, after the end the greatest distance."""
        pairs, transitions, depth, cursor = (
            int(self.tally[which]) for which in (PAIRS, TRANSITIONS, DEPTH, CURSOR)
        )
        return Counts(pairs, transitions, depth, frontier=pairs - cursor)

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        offers = self.normal.offers.byte_count + self.implementation.alphabet.table.byte_count
        own = 20 * self.state_count + 4 * self.implementation.state_count
        own += sum(old.byte_count for old in self._old)
        return own + self.implementation.byte_count + self.normal.byte_count + offers

    @property
    def saw_visible(self) -> bool:
        """Whether the implementation took a visible action."""
        return bool(self.tally[SEEN_VISIBLE])

    @property
    def saw_stable(self) -> bool:
        """Whether refusals were compared."""
        return bool(self.tally[SEEN_STABLE])

    def advance(self, quantum: int) -> None:
        """Checks about `quantum` pairs, and expands about as many states of each side."""
        self.allow(quantum)
        code = int(explore_pairs(self.native, quantum))
        while code == GROW:
            self.tend()
            code = int(explore_pairs(self.native, quantum))
        if self.byte_count > self.budget:
            raise OutOfMemoryError
        if code == FAULT:
            self.failed = self._failing()
        elif code == BROKEN:
            how, pair, edge = self.tally[[HOW, BROKEN_PAIR, BROKEN_EDGE]]
            self.broken = Break(int(how), int(pair), int(edge))
        self.complete = code in (FAULT, BROKEN, COMPLETE)

    def allow(self, quantum: int) -> None:
        """Sets how many states of each side may be expanded until the limits are checked."""
        for side in self.sides:
            side.counts[WORK] = max(quantum, WORK_LEAST)

    def close(self) -> None:
        """Ends the threads of the implementation."""
        self.implementation.crew.close()

    def tend(self) -> None:
        """Enlarges what is too small; raises OutOfMemoryError if there is no room for another pair."""
        if self.tally[ROOM_FULL] or self.byte_count > self.budget:
            raise OutOfMemoryError
        self.implementation.make_room()
        self.normal.make_room()
        for old in self._old:
            old.make_room(1024)
        self._list_maps()

    def _failing(self) -> Labelled:
        (failed,) = [side for side in self.sides if side.failure is not None]
        return failed

    @property
    def current(self) -> int:
        """The pair that is checked next, or could not be checked."""
        return int(self.tally[CURSOR])

    def path(self, pair: int) -> list[tuple[int, int]]:
        """The run to a pair: states of the implementation, each with the event that led to it."""
        states, _, parents, events, _ = (part.words.view(np.uint32) for part in self._reserves)
        found = []
        while pair != ROOT:
            found.append((int(states[pair]), int(events[pair])))
            pair = int(parents[pair])
        return found[::-1]

    def node(self, pair: int) -> int:
        """The specification's node of a pair."""
        return int(self._reserves[1].words.view(np.uint32)[pair])
