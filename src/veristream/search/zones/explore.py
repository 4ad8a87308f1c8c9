"""Breadth-first exploration of zones: drives the native loop, within a memory budget."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from veristream.ir.actions import Action, Movement, list_actions
from veristream.ir.clock_bounds import NEVER, ClockBounds
from veristream.ir.clocks import count_clocks
from veristream.ir.network import Network
from veristream.kernel.clocks import bound_count, clock_word_count, invariant_count_max
from veristream.kernel.layout import Row
from veristream.kernel.load import Kernel
from veristream.kernel.watch import Watch
from veristream.kernel.zones import set_zero
from veristream.search.memory import OutOfMemoryError, Reserve, budget_bytes, reserve
from veristream.search.reach.table import LOAD_MAX, SLOTS_MAX
from veristream.search.reach.visited import ROOT, Store, enter_again, fingerprint, store_of
from veristream.search.session import Hit
from veristream.search.zones import expand as native
from veristream.search.zones import kept
from veristream.search.zones.expand import Watched, expand_zones, keep_zone
from veristream.search.zones.kept import INDEX_WORDS_MAX, Nodes
from veristream.search.zones.steps import ENTERED, Scratch, Shape, TimedCode, enter, normalise
from veristream.verdict import Counts

BUFFER = 256
PIECES = 64
PACE_SECONDS = 0.2
_PER_NODE = 4 + 4 + 4 + 8 + 4 + 1

MODEL_FAILS = -1
"""The kind of a hit that is a failure of the model; `source` is the node, `other` the action."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The discrete state of a node, its parent, and the step from there: its action, and above 32 bits its
    place among the successors."""

    row: Row
    parent: int | None
    entry: int


@dataclass(slots=True)
class Pace:
    """How many nodes to expand in one call: as many as take a short time. The cost of a node grows with the
    number of zones that it is compared with."""

    count: int = 1 << 10

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Adapts the number to the time that the body takes."""
        started = time.monotonic()
        yield
        self.adapt(time.monotonic() - started)

    def adapt(self, seconds: float) -> None:
        """Adapts the number to a call that took this long."""
        if seconds < PACE_SECONDS / 4:
            self.count = min(2 * self.count, 1 << 20)
        elif seconds > PACE_SECONDS:
            self.count = max(self.count // 2, 1)


def code_of(kernel: Kernel, network: Network) -> TimedCode:
    """The entries of a timed kernel."""
    urgent = kernel.urgent if any(channel.urgent for channel in network.channels) else 0
    return TimedCode(
        kernel.successors,
        kernel.propositions,
        kernel.measure,
        kernel.timing,
        kernel.tests,
        kernel.places,
        urgent,
    )


def shape_of(network: Network, kernel: Kernel, bounds: ClockBounds) -> Shape:
    """The sizes and bounds of a network's zones."""
    words = kernel.layout.word_count
    rows = [(b.left, b.right, 2 * b.limit + (not b.strict)) for b in bounds.differences]
    return Shape(
        words,
        words + clock_word_count(network),
        count_clocks(network) + 1,
        len(network.components),
        *_by_location(bounds),
        np.array(rows, np.int32).reshape(-1, 3),
        _priorities(network),
    )


def _by_location(bounds: ClockBounds) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The bounds of the clocks that each location still compares, and where those of each location
    begin."""
    compared = np.maximum(bounds.lower, bounds.upper) > NEVER
    places, clocks = np.nonzero(compared)
    rows = np.stack([clocks, bounds.lower[places, clocks], bounds.upper[places, clocks]], axis=1)
    first = np.concatenate([[0], np.cumsum(compared.sum(axis=1))])
    return first.astype(np.int64), np.ascontiguousarray(rows, np.int32)


def _priorities(network: Network) -> NDArray[np.int64]:
    """The priority of each action, greater ones first; empty if all are the same."""
    ranks = [_rank(network, action) for action in list_actions(network)]
    order = sorted(set(ranks))
    if len(order) < 2:
        return np.zeros(0, np.int64)
    return np.array([order.index(rank) for rank in ranks], np.int64)


def _rank(network: Network, action: Action) -> tuple[int, int]:
    """The priority of the channel, then the greatest priority of the components that move."""
    leader = network.components[action.leader]
    sync = leader.edges[action.edge].sync
    channels = {channel.name: channel.priority for channel in network.channels}
    movers = [leader.priority]
    if action.movement is Movement.PAIR:
        movers.append(network.components[action.follower].priority)
    return (0 if sync is None else channels[sync.channel], max(movers))


def scratch_of(shape: Shape, network: Network, watch: Watch, capacity: int, pieces: int) -> Scratch:
    """Working memory for states with up to `capacity` successors."""
    n = shape.n
    words = 1 + max([invariant_count_max(network), *map(bound_count, watch.tests)])
    cuts = pieces if len(shape.differences) else 1
    return Scratch(
        np.zeros(capacity * shape.stride, np.int64),
        np.zeros(capacity, np.int64),
        np.zeros(2 * shape.stride, np.int64),
        np.zeros(2, np.int64),
        np.zeros(words, np.int64),
        np.zeros(shape.component_count, np.int64),
        np.full(n, -1, np.int32),
        np.full(n, -1, np.int32),
        np.zeros(n, np.int32),
        np.zeros(n * n, np.int32),
        np.zeros(n * n, np.int32),
        np.zeros((pieces, n * n), np.int32),
        np.zeros((pieces, n * n), np.int32),
        np.zeros((pieces, n * n), np.int32),
        np.zeros((cuts, n * n), np.int32),
        np.zeros(n * n, np.int32),
        np.zeros(kept.GROUP + kept.ENTRY, np.int64),
    )


class NodeMemory:
    """Memory for nodes and their discrete states, allocated on demand; the table grows with the states."""

    def __init__(self, word_count: int, n: int, budget: int) -> None:
        self.word_count, self.budget = word_count, budget
        self.per_node = 4 * n**2 + _PER_NODE
        self.node_count_max = min(budget // self.per_node + BUFFER * PIECES, kept.NODES_MAX)
        self.slot_count = 1 << 12
        self.table = reserve(4 * self.slot_count)
        self.rows = reserve(8 * word_count * self.node_count_max)
        self.heads = reserve(4 * self.node_count_max)
        sizes = (4 * n**2, 4, 4, 4, 8, 4, 1, 8 * INDEX_WORDS_MAX)
        self.arrays: list[Reserve] = [reserve(size * self.node_count_max) for size in sizes]

    def nodes(self) -> Nodes:
        """The arrays of all nodes."""
        zones, states, following, parents, entries, depths, flags, index = self.arrays
        return Nodes(
            zones.words.view(np.int32),
            states.words.view(np.uint32),
            following.words.view(np.uint32),
            parents.words.view(np.uint32),
            entries.words,
            depths.words.view(np.int32),
            flags.words.view(np.uint8),
            index.words,
            index.words.view(np.uint32),
        )

    def store(self) -> Store:
        """The visited set of discrete states; a state's parent is where its nodes begin."""
        return store_of(
            self.table.address, self.slot_count, self.rows.address, self.heads.address, self.word_count
        )

    @property
    def table_limit(self) -> int:
        """How many discrete states the table may hold."""
        return int(LOAD_MAX * self.slot_count)

    def byte_count(self, nodes: int, states: int, indexed: int = 0) -> int:
        """Memory in use for that many nodes, states and words of the index."""
        in_rows = states * (8 * self.word_count + 4)
        return nodes * self.per_node + in_rows + 4 * self.slot_count + 8 * indexed

    def grow_table(self, nodes: int, states: int) -> None:
        """Enlarges the table and enters the states again; raises OutOfMemoryError."""
        slots = self.slot_count * 4
        if (
            slots > SLOTS_MAX
            or self.byte_count(nodes, states) + 4 * (slots - self.slot_count) > self.budget
        ):
            raise OutOfMemoryError
        self.table = reserve(0)  # the old table is freed first
        self.table = reserve(4 * slots)
        self.slot_count = slots
        enter_again(self.store(), 0, states, False)

    def row(self, state: int) -> Row:
        """A discrete state."""
        words = self.rows.words[state * self.word_count : (state + 1) * self.word_count]
        return words.view(np.uint64).copy()


class ZoneExploration:
    """An exploration of zones in progress: `advance` continues it, everything else inspects it."""

    def __init__(
        self,
        network: Network,
        watch: Watch,
        kernel: Kernel,
        bounds: ClockBounds,
        watched: Watched,
        memory_max_mib: int | None,
    ) -> None:
        self.network, self.watch, self.kernel = network, watch, kernel
        self.code = code_of(kernel, network)
        self.shape = shape_of(network, kernel, bounds)
        self.watched = watched
        self.budget = budget_bytes(memory_max_mib)
        self.capacity, self.pieces = BUFFER, PIECES
        self.scratch = scratch_of(self.shape, network, watch, self.capacity, self.pieces)
        self.memory = NodeMemory(self.shape.word_count, self.shape.n, self.budget)
        self.nodes = self.memory.nodes()
        self.tally = np.zeros(kept.TALLY_COUNT, np.int64)
        self.tally[kept.TABLE_LIMIT] = self.memory.table_limit
        self.tally[kept.NODE_LIMIT] = self.memory.node_count_max
        self.complete = False
        self.has_failed = False
        self.pace = Pace()

    def store(self) -> Store:
        """The visited set of discrete states."""
        return self.memory.store()

    def begin(self, initial: Row) -> None:
        """Enters the initial state with all clocks 0, unless its invariants forbid it."""
        row = initial.view(np.int64).copy()
        address = int(row.ctypes.data)
        zone = self.scratch.zone
        set_zero(zone, self.shape.n)
        found = enter(self.code, self.shape, self.scratch, address, zone)
        if found != ENTERED:
            return
        count = normalise(self.code, self.shape, self.scratch, address, zone)
        while count < 0:
            self.enlarge()
            count = normalise(self.code, self.shape, self.scratch, address, zone)
        print_ = fingerprint(address, self.shape.word_count)
        for piece in range(count):
            keep_zone(*self.native(), address, print_, self.scratch.cuts[piece], kept.NONE, 0, 0)

    def native(self) -> tuple[TimedCode, Shape, Store, Nodes, NDArray[np.int64], Scratch, Watched]:
        """The arguments of the native loops."""
        store = self.store()
        return self.code, self.shape, store, self.nodes, self.tally, self.scratch, self.watched

    def advance(self, quantum: int) -> None:
        """Expands at most `quantum` nodes; raises OutOfMemoryError if the budget is used up."""
        self.watched.hits[:] = -1
        with self.pace.kept():
            reason = expand_zones(*self.native(), min(quantum, self.pace.count))
        match reason:
            case native.COMPLETE:
                self.complete = True
            case native.HIT | native.QUANTUM | native.FAULT:
                pass
            case _:
                self.make_room(reason)
        self.has_failed = reason in (native.COMPLETE, native.FAULT) and self.watched.fault[0] >= 0
        self.check_budget()

    def make_room(self, reason: int) -> None:
        """Makes the room that a native loop returned for; raises OutOfMemoryError."""
        match reason:
            case native.NEED_BUFFER | native.NEED_PIECES:
                self.enlarge()
            case native.NEED_TABLE:
                self._grow_table()
            case native.NEED_NODES:
                raise OutOfMemoryError
            case _:
                raise AssertionError(f"the loop came back for {reason}")

    def check_budget(self) -> None:
        """Raises OutOfMemoryError if the budget is used up."""
        if self.byte_count > self.budget:
            raise OutOfMemoryError

    def make_room_for_one(self) -> None:
        """Makes room for one more node; raises OutOfMemoryError."""
        lacks_nodes = self.state_count + 1 > self.tally[kept.NODE_LIMIT]
        self.make_room(native.NEED_NODES if lacks_nodes else native.NEED_TABLE)

    def enlarge(self) -> None:
        """Enlarges the working memory; raises OutOfMemoryError."""
        self.capacity, self.pieces = 2 * self.capacity, 2 * self.pieces
        if self.pieces * self.shape.n**2 * 12 > self.budget:
            raise OutOfMemoryError
        self.scratch = scratch_of(self.shape, self.network, self.watch, self.capacity, self.pieces)

    def _grow_table(self) -> None:
        self.memory.grow_table(self.state_count, int(self.tally[kept.DISCRETE]))
        self.tally[kept.TABLE_LIMIT] = self.memory.table_limit

    def close(self) -> None:
        """Nothing to release."""

    @property
    def state_count(self) -> int:
        """Nodes in memory, including covered ones."""
        return int(self.tally[kept.NODES])

    @property
    def counts(self) -> Counts:
        """Zones that no other covers; the depth is the number of steps to the farthest zone ever kept."""
        nodes, dropped, expanded, ahead, transitions, depth = (
            int(self.tally[which])
            for which in (
                kept.NODES,
                kept.DROPPED,
                kept.EXPANDED,
                kept.AHEAD,
                kept.TRANSITIONS,
                kept.DEPTH,
            )
        )
        return Counts(nodes - dropped, transitions, depth, frontier=nodes - expanded - ahead)

    @property
    def byte_count(self) -> int:
        """Memory in use."""
        states, indexed = int(self.tally[kept.DISCRETE]), int(self.tally[kept.INDEXED])
        return self.memory.byte_count(self.state_count, states, indexed)

    @property
    def is_shortest(self) -> bool:
        """Whether the first path found to each zone so far is a shortest one."""
        return not self.tally[kept.SKEWED]

    @property
    def discrete_count(self) -> int:
        """Discrete states found."""
        return int(self.tally[kept.DISCRETE])

    @property
    def room(self) -> tuple[int, int]:
        """How many successors, and how many pieces of a zone, the working memory holds."""
        return self.capacity, self.pieces

    @property
    def hits(self) -> list[Hit]:
        """The parts of open cases found in the last round, each with its node and depth, and at the end of
        a level what failed in it."""
        depths = self.nodes.depths
        noted = self.watched.hits.tolist()
        found = [Hit(part, node, int(depths[node])) for node, part in noted if node >= 0]
        if self.has_failed:
            node, action = self.watched.fault.tolist()
            found.append(Hit(MODEL_FAILS, node, action))
        return found

    def unwatch(self, hit: Hit) -> None:
        """Stops watching for the case that the part found belongs to."""
        self.watched.open[self.watched.cases[hit.kind]] = 0

    def extreme(self, measure: int) -> tuple[int, int, int] | None:
        """The best value of a measure, the node that has it, and the part of the case."""
        value, node, part = self.watched.best[measure].tolist()
        return None if node < 0 else (value, node, part)

    def origin(self, node: int) -> Origin:
        """Where a node was found from."""
        parent = int(self.nodes.parents[node])
        return Origin(self.row(node), None if parent == ROOT else parent, int(self.nodes.entries[node]))

    def row(self, node: int) -> Row:
        """The discrete state of a node."""
        return self.memory.row(int(self.nodes.states[node]))

    def zone(self, node: int) -> NDArray[np.int32]:
        """The clock values of a node."""
        size = self.shape.n**2
        return self.nodes.zones[node * size : (node + 1) * size]


def watched_parts(
    cases: Sequence[int],
    bits: Sequence[int],
    timed: Sequence[bool],
    deadlocks: Sequence[bool | None],
    measures: Sequence[int],
    goals: Sequence[tuple[int, int]],
) -> Watched:
    """The parts of all cases as arrays; `goals` are pairs of a measure's clock and sign."""
    said = {None: native.NOT_ASKED, False: native.ALIVE, True: native.DEAD}
    return Watched(
        np.array(cases, np.int64),
        np.array(bits, np.int64),
        np.array(timed, np.int64),
        np.array([said[deadlock] for deadlock in deadlocks], np.int64),
        np.array(measures, np.int64),
        np.array([clock for clock, _ in goals], np.int64),
        np.array([sign for _, sign in goals], np.int64),
        np.ones(len(measures), np.int64),
        np.full((len(measures), 2), -1, np.int64),
        np.full((len(goals), 3), -1, np.int64),
        np.full(2, -1, np.int64),
    )
