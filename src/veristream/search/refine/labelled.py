"""Labelled transition systems: the states of a network with their events, and the memory for both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter, Taken
from veristream.ir.state import State
from veristream.kernel.layout import decode, encode
from veristream.kernel.load import load_kernel
from veristream.kernel.watch import Watch
from veristream.search.memory import OutOfMemoryError, reserve
from veristream.search.reach.visited import (
    ROOT,
    Store,
    enter_again,
    find_or_add,
    fingerprint,
    size_arenas,
    store_of,
)
from veristream.search.refine.alphabet import Alphabet
from veristream.search.refine.system import (
    BUFFER_FULL,
    COUNTS,
    DIVERGES,
    EDGES,
    FAULT_ACTION,
    FAULT_STATE,
    ROOM_FULL,
    STATE_LIMIT,
    STATES,
    Shift,
    System,
    expand_ahead,
)
from veristream.search.refine.tables import Words, address_of
from veristream.search.threads import Crew, lone_words

CAPACITY = 2048
_FIRST_SLOTS = 1 << 12
_LOAD_MAX = 0.72
_SLOTS_MAX = (1 << 31) - 1


class Helper:
    """What another thread needs to expand states: counts, buffers, and numbers for states and edges."""

    def __init__(self, native: System, worker: int, rooms: tuple[int, int]) -> None:
        self.counts = lone_words(COUNTS)
        self.counts[[STATES, EDGES]] = worker * rooms[0], worker * rooms[1]
        self._first_edge, self._ends = worker * rooms[1], tuple((worker + 1) * room for room in rooms)
        self._key = lone_words(native.fixed_width + native.argument_count)
        self._buffers = _buffers(native.capacity, native.store.word_count + native.argument_count)

    @property
    def edge_count(self) -> int:
        """Edges found."""
        return int(self.counts[EDGES]) - self._first_edge

    def forget_edges(self) -> None:
        """Frees the place of all edges."""
        self.counts[EDGES] = self._first_edge

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
        self.counts = lone_words(COUNTS)
        self.counts[FAULT_STATE] = -1
        self.counts[STATE_LIMIT] = int(_LOAD_MAX * _FIRST_SLOTS)
        self._tables = (wording, fixed, lone_words(fixed.shape[1] + arguments))
        self._buffers = _buffers(CAPACITY, words + arguments)
        self.rooms = room, edge_room  # for each worker
        self._arenas = workers, bits
        self.native = self._native(arguments)
        self.others = [Helper(self.native, worker, self.rooms) for worker in range(1, workers)]
        self.crew = Crew(workers)
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

    def systems(self) -> list[System]:
        """The system as each worker sees it."""
        return [self.native, *(other.system(self.native) for other in self.others)]

    def expand_ahead(self, shift: Shift) -> int:
        """Expands the states of pairs with all workers; returns how many are left to `expand_state`."""
        self._grow_table(max(self.native.capacity * self.crew.size, 2 * shift.size))
        free = int(_LOAD_MAX * self.native.store.slot_count) - self.state_count
        systems, alphabet = self.systems(), self.alphabet.table.native
        for counts in (self.counts, *(other.counts for other in self.others)):
            counts[STATE_LIMIT] = counts[STATES] + free // len(systems)
        left = self.crew.run(lambda worker: expand_ahead(systems[worker], alphabet, shift))
        self.counts[[BUFFER_FULL, ROOM_FULL]] = 0  # `expand_state` finds out itself
        self._limit_states()
        return sum(left)

    def forget_edges(self) -> None:
        """Frees the place of all edges, which nobody needs again."""
        self.counts[EDGES] = 0
        for other in self.others:
            other.forget_edges()

    def fail_later(self) -> None:
        """Forgets a failure, which is found again once its state is needed."""
        self.counts[FAULT_STATE] = -1

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
        ranges, is_shared = self._ranges(), self.crew.size > 1
        self.crew.run(lambda worker: enter_again(store, *ranges[worker], is_shared))
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
