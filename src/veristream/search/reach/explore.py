"""Exploration: drives the native loops within a memory budget, breadth-first on one or more threads, or
depth-first on one."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.layout import Row
from veristream.search.limits import Limits, count_cores
from veristream.search.memory import OutOfMemoryError, Reserve, budget_bytes, reserve
from veristream.search.reach import expand as native
from veristream.search.reach.ancestry import level_of, walk_back
from veristream.search.reach.depth import descend, height, push
from veristream.search.reach.edges import reserve_edges
from veristream.search.reach.expand import (
    STRIDE,
    Code,
    Own,
    Work,
    expand,
    next_level,
    observe,
    pack_initial,
)
from veristream.search.reach.packing import count_orbits
from veristream.search.reach.reduced import expand_reduced
from veristream.search.reach.storage import Form, Memory, enter_all, make_memory, scratch_of
from veristream.search.reach.visited import ROOT, Store, find_or_add
from veristream.search.reduction.tables import Tables
from veristream.search.session import QUANTUM, Hit
from veristream.search.threads import lone_words
from veristream.verdict import Counts

WIDE = 1 << 12  # a level of fewer states is not worth sharing
SHARED_FROM = 1 << 20
"""Where nobody chose the number of workers, one searches up to so many states: that takes a second or two,
and always finds the same trace."""
BUFFER = 2048
SPILLED_STATES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class Plan:
    """What to watch: masks of state and action propositions, ends, measures; which edges to keep."""

    states: int = 0
    actions: int = 0
    ends: int = 0
    goals: tuple[tuple[int, int], ...] = ()
    observes: bool = False  # evaluate the state propositions
    keeps_edges: tuple[int, ...] = ()  # per value of a row's last word; empty: none are kept
    compact: bool = False  # store keys instead of rows, and find paths again; see `storage`
    hash_bits: int | None = None  # keep hashes of so many bits instead; see `compaction`


@dataclass(slots=True)
class Exploration:
    """An exploration in progress: `advance` continues it, everything else inspects it."""

    code: Code
    word_count: int
    workers: int
    budget: int
    plan: Plan
    work: Work
    own: list[Own]  # one as long as the search is small, then one for each worker
    memory: Memory
    pool: ThreadPoolExecutor | None
    shared_from: int = 0  # states; with fewer, one worker searches
    tables: Tables | None = None  # of partial-order reduction; the code has their address
    stack: Reserve | None = None  # of a depth-first exploration, which has one worker
    hits: list[Hit] = field(default_factory=list)
    complete: bool = False

    @property
    def state_count(self) -> int:
        """States found."""
        return int(self.work.counts[::STRIDE].sum())

    @property
    def counts(self) -> Counts:
        """The depth is the number of the level being expanded; after the end, the greatest distance. Of a
        depth-first exploration it is the greatest height of the stack, without the initial state."""
        transitions = sum(int(own.tally[native.TRANSITIONS]) for own in self.own)
        depth = int(self.work.control[native.DEPTH])
        return Counts(self.state_count, transitions, depth, frontier=self._frontier())

    def _frontier(self) -> int:
        if self.stack is not None:
            return int(height(self.stack.address))
        bases = np.arange(self.workers) * self.arena_size
        left = self.work.counts[::STRIDE] + bases - self.work.cursors[::STRIDE]
        return int(np.maximum(left, 0).sum())

    @property
    def arena_size(self) -> int:
        """The distance between the indices of two arenas."""
        return self.memory.arena_size

    @property
    def seen(self) -> int:
        """The state propositions that held in some state, as a mask."""
        bits = 0
        for own in self.own:
            bits |= int(own.tally[native.SEEN])
        return bits

    @property
    def has_left_out(self) -> bool:
        """Whether the reduction has left out a step."""
        return self.tables is not None and self.tables.reduced_count > 0

    @property
    def is_deep(self) -> bool:
        """Whether the exploration goes depth-first."""
        return self.stack is not None

    @property
    def edge_count(self) -> int:
        """Edges kept."""
        edges = self.memory.edges
        if edges is None:
            return 0
        return sum(int(own.tally[native.EDGES]) - k * edges.room for k, own in enumerate(self.own))

    @property
    def expanded(self) -> int:
        """How many states are expanded; for one worker only, which expands in the order of the indices."""
        first, end = self.own[0].pending
        return int(first if first < end else min(self.work.cursors[0], self.work.ends[0]))

    @property
    def byte_count(self) -> int:
        """Memory in use for states, table, edges and stack."""
        levels = int(self.work.control[native.DEPTH]) + 2
        used = self.memory.byte_count(self.state_count, levels)
        if self.plan.keeps_edges:
            used += 12 * (self.state_count + self.edge_count)
        if self.stack is not None:
            used += 8 * (int(self.work.control[native.DEPTH]) + 2)
        return used

    def best(self, measure: int) -> tuple[int, int] | None:
        """The best value of a measure so far and the state that has it."""
        goal = self.plan.goals[measure][1]
        found = [own.best[measure] for own in self.own if own.best[measure, 1] >= 0]
        if not found:
            return None
        value, index = max(found, key=lambda entry: int(entry[0]) * goal)
        return int(value), int(index)

    def row(self, index: int) -> Row:
        """The row of a state."""
        return self.memory.row(index)

    def rows_to(self, index: int) -> Iterable[Row]:
        """The rows of the states from the initial one to this one."""
        return map(self.row, self.path(index))

    def path(self, index: int) -> list[int]:
        """The states from the initial one to this one, along the tree of the search."""
        if self.memory.parents is None:
            return self._walk_back(index)
        parents = self.memory.parent_indices
        path = [index]
        while parents[path[-1]] != ROOT:
            path.append(int(parents[path[-1]]))
        return path[::-1]

    def _walk_back(self, index: int) -> list[int]:
        """The same where parents are not kept, by expanding the states of each level before it again."""
        assert self.memory.levels is not None, "either parents or levels are kept"
        levels = self.memory.levels.words.view(np.uint32)
        level = level_of(levels, self.work, index, int(self.work.control[native.DEPTH]))
        path, row = np.full(level + 1, index, np.int64), np.empty(self.word_count, np.int64)
        own = self.own[0]
        while level > 0:
            level = walk_back(self.code, self.memory.store(), self.work, own, level, path, row)
            assert level >= 0, "every state but the initial one has a predecessor in the level before"
            if level > 0:
                own = _enlarge(own, self.word_count)
        return [int(state) for state in path]

    def unwatch(self, kind: int) -> None:
        """Stops noting hits of a kind."""
        control = self.work.control
        if kind < native.ACTION_HIT:
            control[native.WATCH_STATES] &= ~(1 << kind)
        elif kind < native.DEADLOCK:
            control[native.WATCH_ACTIONS] &= ~(1 << (kind - native.ACTION_HIT))
        elif kind == native.DEADLOCK:
            control[native.WATCH_ENDS] &= ~native.DEADLOCK_END
        elif kind == native.TERMINAL:
            control[native.WATCH_ENDS] &= ~native.TERMINAL_END

    def close(self) -> None:
        """Stops the worker threads; everything found stays accessible, and `advance` may continue."""
        if self.pool is not None:
            self.pool.shutdown(wait=True)
            self.pool = ThreadPoolExecutor(self.workers)  # starts no thread before there is work

    def advance(self, quantum: int = QUANTUM) -> None:
        """Expands about `quantum` states per worker; afterwards `hits` holds the new hits, and `complete`
        says whether everything is explored. Raises OutOfMemoryError if the budget is used up."""
        self.hits.clear()
        reasons = self._run(quantum)
        for own in self.own:
            self.collect(own)
        for worker, reason in enumerate(reasons):
            if reason == native.NEED_BUFFER:
                self.enlarge_buffers(worker)
        if native.NEED_ARENA in reasons or self.byte_count > self.budget:
            raise OutOfMemoryError
        self.grow_table()
        if native.COMPLETE in reasons:
            self.complete = True
        elif all(reason == native.LEVEL for reason in reasons):
            self.complete = next_level(self.work) == 0

    def _run(self, quantum: int) -> list[int]:
        self.work.control[native.STOPPED] = 0
        if self.pool is None or self.state_count < self.shared_from:
            return [self._turn(self.store(), 0, True, quantum)]
        if len(self.own) < self.workers:
            self._add_workers()
        store = self.store()
        # A piece in hand is finished by its owner, so that no state of a level is left behind.
        held = any(own.pending[0] < own.pending[1] for own in self.own[1:])
        if self._frontier() < WIDE and not held:
            return [self._turn(store, 0, True, quantum)]
        turns = range(1, self.workers)
        others = [self.pool.submit(self._turn, store, w, False, quantum) for w in turns]
        first = self._turn(store, 0, False, quantum)
        return [first, *(other.result() for other in others)]

    def _add_workers(self) -> None:
        """Gives all threads what they need; from now on, levels that are worth it are shared."""
        others = range(len(self.own), self.workers)
        self.own += [_own(self.word_count, self.plan, self.memory, worker) for worker in others]
        self.work.control[native.WIDE] = WIDE
        self.grow_table()  # room for what all threads have in flight

    def _turn(self, store: Store, worker: int, alone: bool, quantum: int) -> int:
        if self.stack is not None:
            return int(descend(self.code, store, self.work, self.own[0], self.stack.address, quantum))
        step = expand_reduced if self.code.reduction else expand
        return int(step(self.code, store, self.work, self.own[worker], worker, alone, quantum))

    def enlarge_buffers(self, worker: int = 0) -> None:
        """Makes room for more successors of one state, also in the table; raises OutOfMemoryError."""
        self.own[worker] = _enlarge(self.own[worker], self.word_count)
        self.grow_table()

    def store(self) -> Store:
        return self.memory.store()

    def collect(self, own: Own) -> None:
        for kind in np.nonzero(own.hits[:, 0] >= 0)[0]:
            source, other = own.hits[kind]
            self.hits.append(Hit(int(kind), int(source), int(other)))
        own.hits[:] = -1

    def grow_table(self) -> None:
        """Makes sure that the tables hold what the loops add until they stop; raises OutOfMemoryError."""
        in_flight = sum(own.out_actions.size for own in self.own)
        memory, table = self.memory, self.memory.table
        slots = table.wanted(self.state_count, in_flight)
        if self.byte_count + table.slot_size * (slots - table.slot_count) > self.budget:
            raise OutOfMemoryError
        again = memory.fields is not None and memory.fields.is_full and memory.widen(self.ranges())
        if again or slots > table.slot_count:
            self._renew_table(slots)
        self.work.control[native.TABLE_LIMIT] = table.limit(in_flight)

    def _renew_table(self, slots: int) -> None:
        """Makes a table of so many slots in which all states are found by the keys that they have now."""
        self.memory.table.resize(slots)
        enter_all(self.memory.store(), self.ranges(), self._helpers())

    def enter_first(self) -> None:
        """Makes the first row in the buffer the first state."""
        own, store = self.own[0], self.store()
        find_or_add(store, pack_initial(store, own), int(own.prints[0]), 0, ROOT)

    def _helpers(self) -> ThreadPoolExecutor | None:
        return None if len(self.own) == 1 else self.pool

    def count_orbits(self, orbit: int) -> int:
        """How many states those found represent, if each is the canonical one of its orbit."""
        store, scratch = self.memory.store(), self.own[0].scratch
        return sum(int(count_orbits(orbit, store, scratch, *bounds)) for bounds in self.ranges())

    def ranges(self) -> list[tuple[int, int]]:
        """The first index and the end of each arena."""
        return [
            (arena * self.arena_size, arena * self.arena_size + int(self.work.counts[arena * STRIDE]))
            for arena in range(self.workers)
        ]


def sharing_of(limits: Limits) -> tuple[int, int]:
    """How many threads search, and from how many states on."""
    return limits.workers or count_cores(), 0 if limits.workers else SHARED_FROM


def begin(
    code: Code,
    initial: Row,
    plan: Plan,
    workers: int = 1,
    memory_max_mib: int | None = None,
    shared_from: int = 0,
) -> Exploration:
    """An exploration that has found and observed its initial state."""
    exploration = prepare(code, len(initial), plan, workers, memory_max_mib)
    exploration.shared_from = shared_from
    enter_initial(exploration, initial)
    return exploration


def begin_deep(code: Code, initial: Row, plan: Plan, memory_max_mib: int | None = None) -> Exploration:
    """Like `begin`, for an exploration that goes depth-first."""
    assert not plan.compact, "without parents, paths are found level by level"
    exploration = begin(code, initial, plan, 1, memory_max_mib)
    exploration.stack = reserve(8 * (exploration.arena_size + 1))  # no state is on it twice
    push(exploration.stack.address, 0)
    return exploration


def prepare(
    code: Code,
    word_count: int,
    plan: Plan,
    workers: int = 1,
    memory_max_mib: int | None = None,
    spill_folder: str | None = None,
) -> Exploration:
    """An exploration without any state yet; keeps its states in files if a folder for them is given."""
    budget = budget_bytes(memory_max_mib)
    form = Form(word_count, plan.compact, code.row_bits, plan.hash_bits)
    room = budget // form.state_bytes + 2 * BUFFER
    if spill_folder is not None:
        room = SPILLED_STATES_MAX
    memory = make_memory(form, workers, room, spill_folder)
    if plan.keeps_edges:
        memory.edges = reserve_edges(plan.keeps_edges, budget, memory.arena_size, workers)
    return Exploration(
        code,
        word_count,
        workers,
        budget,
        plan,
        _shared(workers, memory, plan),
        [_own(word_count, plan, memory, 0)],
        memory,
        ThreadPoolExecutor(workers) if workers > 1 else None,
    )


def _shared(workers: int, memory: Memory, plan: Plan) -> Work:
    control = lone_words(native.CONTROL_COUNT)
    control[native.WATCH_STATES] = plan.states
    control[native.WATCH_ACTIONS] = plan.actions
    control[native.WATCH_ENDS] = plan.ends
    control[native.TABLE_LIMIT] = memory.table.limit(BUFFER)
    control[native.ARENA_SIZE] = memory.arena_size
    control[native.LEVELS] = 0 if memory.levels is None else memory.levels.address
    control[native.WIDE] = 1 << 62
    starts = np.zeros(workers * STRIDE, np.int64)
    starts[::STRIDE] = np.arange(workers) * memory.arena_size
    return Work(np.zeros(workers * STRIDE, np.int64), starts.copy(), starts.copy(), control)


def _own(word_count: int, plan: Plan, memory: Memory, worker: int) -> Own:
    rows, actions, prints, sources, keys = _buffers(word_count, BUFFER)
    tally = lone_words(native.TALLY_COUNT)
    edges = [0]
    if memory.edges is not None:
        edges = memory.edges.addresses
        tally[native.EDGES] = worker * memory.edges.room
    return Own(
        rows,
        actions,
        prints,
        sources,
        lone_words(2),
        np.full((native.HIT_COUNT, 2), -1, np.int64),
        tally,
        np.array(plan.goals, np.int64).reshape(-1, 2),
        np.full((len(plan.goals), 2), -1, np.int64),
        np.array(edges, np.int64),
        keys,
        scratch_of(word_count),
    )


def _buffers(word_count: int, capacity: int) -> tuple[NDArray[np.int64], ...]:
    return (
        np.zeros(capacity * word_count, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity * word_count, np.int64),
    )


def _enlarge(own: Own, word_count: int) -> Own:
    """The worker with room for four times as many successors."""
    rows, actions, prints, sources, keys = _buffers(word_count, 4 * own.out_actions.size)
    return own._replace(out_rows=rows, out_actions=actions, prints=prints, sources=sources, keys=keys)


def enter_initial(exploration: Exploration, initial: Row) -> None:
    """Makes the initial state the first one, observes it, and makes it the first level."""
    own = exploration.own[0]
    own.out_rows[: len(initial)] = initial.view(np.int64)
    address = int(own.out_rows.ctypes.data)
    exploration.enter_first()
    exploration.work.counts[0] = 1
    if exploration.plan.observes:
        observe(exploration.code, exploration.work, exploration.own[0], address, 0, 0)
        exploration.collect(exploration.own[0])
    next_level(exploration.work)
    exploration.work.control[native.DEPTH] = 0
