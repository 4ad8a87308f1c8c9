"""Labelled transition systems: a network's states, expanded one by one on demand, with their events.

An *event* is the visible part of a step: its label with the arguments' values; all invisible steps are the
event `TAU`. Events are numbered in one table for all networks that are compared. States are numbered as
they are found, and expanded in any order, so a search expands only the states that it needs.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter, Taken
from veristream.ir.state import State
from veristream.kernel.layout import decode, encode
from veristream.kernel.load import load_kernel
from veristream.kernel.watch import Watch
from veristream.native.loop import loop
from veristream.native.primitives import call_4, claim, fetch_add, half_at, set_half, set_word, word_at
from veristream.search.memory import OutOfMemoryError, reserve
from veristream.search.reach.visited import (
    ROOT,
    Store,
    enter_again,
    expect,
    find_or_add,
    fingerprint,
    size_arenas,
    store_of,
)
from veristream.search.refine.alphabet import TAU, Alphabet
from veristream.search.refine.tables import (
    MISSING,
    Sequences,
    Words,
    address_of,
    has_room,
    intern,
    look_up,
    make_set,
)

CAPACITY = 2048
_FIRST_SLOTS = 1 << 12
_LOAD_MAX = 0.72
_SLOTS_MAX = (1 << 31) - 1
_PIECE = 64  # states that a thread takes at a time

# Why a native function returns; GROW: a table or buffer is too small, call `make_room`.
DONE, QUANTUM, GROW, FAULT = range(4)

# Counters of a system. WORK: expansions left before the driver checks the limits.
STATES, EDGES, STATE_LIMIT, BUFFER_FULL, ROOM_FULL, FAULT_STATE, FAULT_ACTION, WORK, COUNTS = range(9)

# Whether invisible steps can continue forever from a state.
UNKNOWN, ON_PATH, CONVERGES, DIVERGES = range(4)


class System(NamedTuple):
    """A network as native loops see it: addresses of arrays, one entry per state unless noted otherwise."""

    successors: int
    store: Store
    argument_count: int
    state_room: int
    edge_room: int
    first: int  # the first edge plus 1; 0 if the state is not expanded
    last: int  # one past the last edge
    targets: int  # half words, per edge
    events: int  # half words, per edge
    divergence: int  # half words
    offers: int  # half words: what a stable state offers, plus 2; 1: not stable; 0: not known
    path: int  # scratch, as is `turn`
    turn: int
    counts: int
    wording: int  # per action: -1 if it is invisible, else how many arguments the step has
    fixed: int  # per action, `fixed_width` words: how many arguments its name has, its number, those
    fixed_width: int
    out_rows: int  # scratch, as is all below
    out_entries: int
    capacity: int
    prints: int
    key: int


@loop
def expand_state(system, alphabet, state):  # type: ignore[no-untyped-def]
    """Finds the edges of a state, unless they are known; returns DONE or why it could not."""
    if word_at(system.first, state) != 0:
        return DONE
    counts = system.counts
    if word_at(counts, WORK) <= 0:
        return QUANTUM
    count = _steps(system, state)
    if count < 0 or not has_room(alphabet.counts, count):
        return GROW
    failing = _expect_targets(system, count)
    if failing >= 0:
        set_word(counts, FAULT_STATE, state)
        set_word(counts, FAULT_ACTION, failing)
        return FAULT
    for k in range(count):
        event = _event(system, alphabet, k, True)
        if event == MISSING:
            return GROW
        set_half(system.events, word_at(counts, EDGES) + k, event)
    _find_targets(system, state, count)
    set_word(counts, WORK, word_at(counts, WORK) - 1)
    return DONE


@loop
def expand_ahead(system: System, alphabet: Sequences, states: int, end: int, cursor: int) -> None:
    """Expands states, whose numbers are half words at the address, as one of several threads that share the
    cursor at the other address. Leaves a state alone that needs more room, has a new event, or fails: then
    `expand_state` says so."""
    while True:
        first = fetch_add(cursor, _PIECE)
        if first >= end:
            return
        for k in range(first, min(first + _PIECE, end)):
            state = half_at(states, k)
            # Another thread may have the same state in hand.
            if word_at(system.first, state) != 0 or claim(system.first + 8 * state, -1) != 0:
                continue
            if not _expand_ahead(system, alphabet, state):
                set_word(system.first, state, 0)


@loop
def _expand_ahead(system, alphabet, state):  # type: ignore[no-untyped-def]
    count = _steps(system, state)
    if count < 0 or _expect_targets(system, count) >= 0:
        return False
    for k in range(count):
        event = _event(system, alphabet, k, False)
        if event == MISSING:
            return False
        set_half(system.events, word_at(system.counts, EDGES) + k, event)
    _find_targets(system, state, count)
    return True


@loop
def _steps(system, state):  # type: ignore[no-untyped-def]
    """Writes the steps of a state into the buffer; returns how many, or -1 if there is no room for them."""
    counts, store = system.counts, system.store
    row = store.rows + 8 * store.word_count * state
    count = call_4(system.successors, row, system.out_rows, system.out_entries, system.capacity)
    if count < 0:
        set_word(counts, BUFFER_FULL, 1)
        return -1
    known = word_at(counts, STATES)
    if known + count > system.state_room or word_at(counts, EDGES) + count > system.edge_room:
        set_word(counts, ROOM_FULL, 1)
        return -1
    return count if known + count <= word_at(counts, STATE_LIMIT) else -1


@loop
def _expect_targets(system, count):  # type: ignore[no-untyped-def]
    """Computes the fingerprints of the steps in the buffer; returns an action that fails, or -1."""
    store = system.store
    stride = 8 * (store.word_count + system.argument_count)
    for k in range(count):
        entry = word_at(system.out_entries, k)
        if entry < 0:
            return entry & 0xFFFFFFFF
        print_ = fingerprint(system.out_rows + stride * k, store.word_count)
        set_word(system.prints, k, print_)
        expect(store.table, store.slot_count, print_)
    return -1


@loop
def _event(system, alphabet, step, adds):  # type: ignore[no-untyped-def]
    """The number of the event of a step in the buffer; MISSING if it is new and is not to be added."""
    action = word_at(system.out_entries, step) & 0xFFFFFFFF
    taken = word_at(system.wording, action)
    if taken < 0:
        return TAU
    fixed = system.fixed + 8 * system.fixed_width * action
    size = word_at(fixed, 0) + 1
    for k in range(size):
        set_word(system.key, k, word_at(fixed, k + 1))
    words = system.store.word_count
    start = step * (words + system.argument_count) + words
    for k in range(taken):
        set_word(system.key, size + k, word_at(system.out_rows, start + k))
    if adds:
        return intern(alphabet, system.key, size + taken)
    return look_up(alphabet, system.key, size + taken)


@loop
def _find_targets(system, state, count):  # type: ignore[no-untyped-def]
    """Writes the targets of the steps in the buffer, which may be new states: the state is expanded."""
    counts, store = system.counts, system.store
    stride = 8 * (store.word_count + system.argument_count)
    base, known = word_at(counts, EDGES), word_at(counts, STATES)
    for k in range(count):
        target = find_or_add(store, system.out_rows + stride * k, word_at(system.prints, k), known, state)
        if target == known:
            known += 1
        set_half(system.targets, base + k, target)
    set_word(counts, STATES, known)
    set_word(counts, EDGES, base + count)
    set_word(system.last, state, base + count)
    set_word(system.first, state, base + 1)


@loop
def diverge(system, alphabet, state):  # type: ignore[no-untyped-def]
    """Decides whether invisible steps can continue forever from the state: whether a depth-first walk
    along them returns to its own path, or reaches a state that diverges. Returns DONE or why it could
    not."""
    path, turn, divergence = system.path, system.turn, system.divergence
    if half_at(divergence, state) != UNKNOWN:
        return DONE
    depth, fresh, code, endless = 0, state, DONE, False
    while True:
        if fresh >= 0:
            code = expand_state(system, alphabet, fresh)
            if code != DONE:
                break
            set_half(divergence, fresh, ON_PATH)
            set_word(path, depth, fresh)
            set_word(turn, depth, word_at(system.first, fresh) - 1)
            depth += 1
            fresh = -1
        here, edge = word_at(path, depth - 1), word_at(turn, depth - 1)
        if edge == word_at(system.last, here):
            set_half(divergence, here, CONVERGES)
            depth -= 1
            if depth == 0:
                return DONE
            continue
        set_word(turn, depth - 1, edge + 1)
        if half_at(system.events, edge) != TAU:
            continue
        target = half_at(system.targets, edge)
        if half_at(divergence, target) == UNKNOWN:
            fresh = target
        elif half_at(divergence, target) != CONVERGES:
            endless = True
            break
    for k in range(depth):
        set_half(divergence, word_at(path, k), DIVERGES if endless else UNKNOWN)
    return code


@loop
def offer_of(system, offers, state):  # type: ignore[no-untyped-def]
    """The number in `offers` of what the expanded state offers; -1 if it is not stable; -2 if `offers` must
    grow first."""
    known = half_at(system.offers, state)
    if known != 0:
        return known - 2
    if not has_room(offers.counts, 1):
        return -2
    first, last = word_at(system.first, state) - 1, word_at(system.last, state)
    events = system.out_entries  # the buffer of a state's steps has room for its events too
    for edge in range(first, last):
        event = half_at(system.events, edge)
        if event == TAU:
            set_half(system.offers, state, 1)
            return -1
        set_word(events, edge - first, event)
    number = intern(offers, events, make_set(events, last - first))
    if number == MISSING:
        return -2
    set_half(system.offers, state, number + 2)
    return number


class Helper:
    """What another thread needs to expand states: counts, buffers, and numbers for states and edges."""

    def __init__(self, native: System, worker: int, rooms: tuple[int, int]) -> None:
        self.counts = np.zeros(COUNTS, np.int64)
        self.counts[[STATES, EDGES]] = worker * rooms[0], worker * rooms[1]
        self._first_edge, self._ends = worker * rooms[1], tuple((worker + 1) * room for room in rooms)
        self._key = np.zeros(native.fixed_width + native.argument_count, np.int64)
        self._buffers = _buffers(native.capacity, native.store.word_count + native.argument_count)

    @property
    def edge_count(self) -> int:
        """Edges found."""
        return int(self.counts[EDGES]) - self._first_edge

    def system(self, native: System) -> System:
        """The system of the first thread as this one sees it."""
        if self._buffers[1].size < native.capacity:
            self._buffers = _buffers(native.capacity, native.store.word_count + native.argument_count)
        own = native._replace(
            counts=address_of(self.counts),
            key=address_of(self._key),
            state_room=self._ends[0],
            edge_room=self._ends[1],
        )
        return _with_buffers(own, self._buffers)


def _with_buffers(native: System, buffers: tuple[Words, Words, Words]) -> System:
    rows, entries, prints = (address_of(part) for part in buffers)
    return native._replace(out_rows=rows, out_entries=entries, capacity=buffers[1].size, prints=prints)


class Labelled:
    """A network that is expanded on demand; owns the memory that `System` points to.

    Several threads can expand states ahead. Each numbers its states and edges in a range of its own.
    """

    def __init__(self, network: Network, alphabet: Alphabet, byte_max: int, workers: int = 1) -> None:
        self.network, self.alphabet = network, alphabet
        self.interpreter = Interpreter(network)
        actions = self.interpreter.actions
        arguments = max((len(action.label.arguments) for action in actions), default=0)
        plain = replace(network, symmetries=(), bags=(), properties=())
        self.kernel = load_kernel(plain, Watch(argument_count=arguments))
        words = self.kernel.layout.word_count
        (room, bits), edge_room = size_arenas(byte_max // (8 * words + 40), workers), byte_max // 8
        halves, whole = ("parents", "divergence", "offers"), ("first", "last", "path", "turn")
        sizes = {"rows": 8 * words} | dict.fromkeys(halves, 4) | dict.fromkeys(whole, 8)
        self.memory = {part: reserve(size * room * workers) for part, size in sizes.items()}
        self.memory |= {part: reserve(4 * edge_room * workers) for part in ("targets", "events")}
        self.memory["table"] = reserve(4 * _FIRST_SLOTS)
        wording, fixed = alphabet.word(actions)
        self.counts = np.zeros(COUNTS, np.int64)
        self.counts[FAULT_STATE] = -1
        self.counts[STATE_LIMIT] = int(_LOAD_MAX * _FIRST_SLOTS)
        self._tables = (wording, fixed, np.zeros(fixed.shape[1] + arguments, np.int64))
        self._buffers = _buffers(CAPACITY, words + arguments)
        self.rooms = room, edge_room  # for each worker
        self._arenas = workers, bits
        self.native = self._native(arguments)
        self.others = [Helper(self.native, worker, self.rooms) for worker in range(1, workers)]
        self._enter_initial()

    def _store(self, slots: int) -> Store:
        table, rows, parents = (self.memory[part].address for part in ("table", "rows", "parents"))
        return store_of(table, slots, rows, parents, self.kernel.layout.word_count, self._arenas)

    def _native(self, argument_count: int) -> System:
        at = {name: part.address for name, part in self.memory.items()}
        (wording, fixed, key), (rows, entries, prints) = self._tables, self._buffers
        return System(
            successors=self.kernel.successors,
            store=self._store(_FIRST_SLOTS),
            argument_count=argument_count,
            state_room=self.rooms[0],
            edge_room=self.rooms[1],
            first=at["first"],
            last=at["last"],
            targets=at["targets"],
            events=at["events"],
            divergence=at["divergence"],
            offers=at["offers"],
            path=at["path"],
            turn=at["turn"],
            counts=address_of(self.counts),
            wording=address_of(wording),
            fixed=address_of(fixed),
            fixed_width=fixed.shape[1],
            out_rows=address_of(rows),
            out_entries=address_of(entries),
            capacity=entries.size,
            prints=address_of(prints),
            key=address_of(key),
        )

    def _enter_initial(self) -> None:
        row = encode(self.kernel.layout, self.network, self.interpreter.initial()).view(np.int64).copy()
        print_ = fingerprint(address_of(row), len(row))
        find_or_add(self.native.store, address_of(row), print_, 0, ROOT)
        self.counts[STATES] = 1

    @property
    def state_count(self) -> int:
        """States found."""
        return sum(end - first for first, end in self._ranges())

    def _ranges(self) -> list[tuple[int, int]]:
        """The first state of each worker's range, and the end of those in use."""
        ends = [int(counts[STATES]) for counts in (self.counts, *(other.counts for other in self.others))]
        return [(worker * self.rooms[0], end) for worker, end in enumerate(ends)]

    @property
    def byte_count(self) -> int:
        """Memory in use for states, table and edges."""
        per_state = 8 * self.native.store.word_count + 4 + 16
        edges = int(self.counts[EDGES]) + sum(other.edge_count for other in self.others)
        return self.state_count * per_state + 4 * self.native.store.slot_count + 8 * edges

    @property
    def failure(self) -> tuple[int, int] | None:
        """The state that could not be expanded and the action that fails there."""
        state, action = (int(n) for n in self.counts[[FAULT_STATE, FAULT_ACTION]])
        return None if state < 0 else (state, action)

    def make_room(self) -> None:
        """Enlarges what is too small; raises OutOfMemoryError if there is no room for another state."""
        if self.counts[ROOM_FULL] or self.alphabet.table.is_full:
            raise OutOfMemoryError
        if self.counts[BUFFER_FULL]:
            self.counts[BUFFER_FULL] = 0
            stride = self.native.store.word_count + self.native.argument_count
            self._buffers = _buffers(4 * self.native.capacity, stride)
            self.native = _with_buffers(self.native, self._buffers)
        self.alphabet.table.make_room(self.native.capacity)
        self._grow_table(self.native.capacity)

    def expand_ahead(self, states: int, count: int) -> None:
        """Expands states, whose numbers are half words at the address, with all workers."""
        self._grow_table(max(self.native.capacity * (1 + len(self.others)), 2 * count))
        free = int(_LOAD_MAX * self.native.store.slot_count) - self.state_count
        cursor, alphabet = np.zeros(1, np.int64), self.alphabet.table.native
        systems = [self.native, *(other.system(self.native) for other in self.others)]
        for counts in (self.counts, *(other.counts for other in self.others)):
            counts[STATE_LIMIT] = counts[STATES] + free // len(systems)
        with ThreadPoolExecutor(len(systems)) as pool:
            work = [
                pool.submit(expand_ahead, system, alphabet, states, count, address_of(cursor))
                for system in systems
            ]
        for one in work:
            one.result()
        self.counts[[BUFFER_FULL, ROOM_FULL]] = 0  # `expand_state` finds out itself
        self._limit_states()

    def _limit_states(self) -> None:
        """Lets this thread alone fill the table."""
        free = int(_LOAD_MAX * self.native.store.slot_count) - self.state_count
        self.counts[STATE_LIMIT] = self.counts[STATES] + free

    def _grow_table(self, wanted: int) -> None:
        """Makes room for that many more states."""
        slots = self.native.store.slot_count
        while self.state_count + wanted > _LOAD_MAX * slots:
            slots = slots * 4 if slots < 1 << 18 else slots * 3 // 2
        if slots == self.native.store.slot_count:
            return
        if slots > _SLOTS_MAX:
            raise OutOfMemoryError
        del self.memory["table"]  # the old table is freed first
        self.memory["table"] = reserve(4 * slots)
        store = self._store(slots)
        for first, end in self._ranges():
            enter_again(store, first, end, False)
        self.native = self.native._replace(store=store)
        self._limit_states()

    def state(self, index: int) -> State:
        """A state in the form that the interpreter uses."""
        words = self.native.store.word_count
        row = self.memory["rows"].words[index * words : (index + 1) * words]
        return decode(self.kernel.layout, self.network, row.view(np.uint64).copy())

    def path_to(self, index: int) -> list[State]:
        """The run from the initial state by which the state was first found."""
        parents = self.memory["parents"].words.view(np.uint32)
        path = [index]
        while parents[path[-1]] != ROOT:
            path.append(int(parents[path[-1]]))
        return [self.state(i) for i in reversed(path)]

    def edges(self, index: int) -> list[tuple[int, int]]:
        """The events of an expanded state, each with its target."""
        first, last = int(self.memory["first"].words[index]) - 1, int(self.memory["last"].words[index])
        return [self.edge(edge) for edge in range(first, last)]

    def edge(self, edge: int) -> tuple[int, int]:
        """The event and the target of an edge."""
        events, targets = (self.memory[part].words.view(np.uint32) for part in ("events", "targets"))
        return int(events[edge]), int(targets[edge])

    def diverges(self, index: int) -> bool:
        """Whether the state is known to diverge."""
        return bool(self.memory["divergence"].words.view(np.uint32)[index] == DIVERGES)

    def offer(self, index: int) -> int:
        """What a stable state offers, once `offer_of` has computed it."""
        return int(self.memory["offers"].words.view(np.uint32)[index]) - 2

    def shown(self, taken: Taken) -> str | None:
        """The text of the event of the interpreter's step; None if it is invisible."""
        return taken.label if self.interpreter.actions[taken.action].visible else None


def _buffers(capacity: int, stride: int) -> tuple[Words, Words, Words]:
    return (
        np.zeros(capacity * max(1, stride), np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int64),
    )
