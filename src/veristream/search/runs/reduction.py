"""Liveness with partial-order reduction: whether it applies, and the exploration of the reduced product."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from veristream.ir.network import Network
from veristream.ir.property import Fairness
from veristream.kernel.layout import Row
from veristream.search.memory import OutOfMemoryError, Reserve, reserve
from veristream.search.reach.expand import Code
from veristream.search.reach.explore import Exploration, Plan, begin
from veristream.search.reach.visited import ROOT
from veristream.search.reduction.relations import Relations, relate_runs, unsupported
from veristream.search.reduction.tables import tabulate
from veristream.search.runs import reduced as native
from veristream.search.runs.graph import Graph
from veristream.search.runs.interruption import is_interruptible
from veristream.search.runs.product import Product
from veristream.search.runs.reduced import Pairs, Rules
from veristream.search.session import Hit
from veristream.verdict import Counts

ASTRAY = 4
"""If a product is complete, so many states for each of its nodes are searched for failures at most."""


class NotReducedError(Exception):
    """The search must be repeated in full: something failed, or the reduction is not worth its price."""


def allows_reduction(network: Network, product: Product) -> bool:
    """Whether partial-order reduction preserves the verdict: no fairness, and a property that does not
    notice invisible steps."""
    is_fair = product.property.fairness is not Fairness.NONE or product.units.exist
    return unsupported(network) is None and not is_fair and is_interruptible(product.formula)


def relations_of(product: Product) -> Relations:
    """How the actions of the network depend on each other, and which of them the property sees."""
    conditions = [*product.watch.states, *product.watch.premises]
    return relate_runs(product.network, conditions, product.automaton.actions)


class ReducedRuns:
    """The exploration of a product with a network that is reduced; `advance` continues it."""

    def __init__(self, product: Product, relations: Relations, memory_max_mib: int | None) -> None:
        automaton, kernel = product.automaton, product.kernel
        self.size = automaton.state_count
        # Where an action may fail, all states are expanded, so that a failure is found if there is one.
        self.examines = relations.may_fault
        tables = tabulate(relations, kernel.layout, 1)
        code = Code(kernel.successors, kernel.propositions, 0, 0, tables.address)
        self.system: Exploration = begin(code, product.initial[:-1], Plan(), 1, memory_max_mib)
        self.system.tables = tables
        rules = product.watch.monitor
        assert rules is not None
        moves = (rules.positive, rules.negative, rules.target, rules.acceptance)
        self.rules = Rules(np.array(rules.first, np.int64), *(np.array(m, np.int64) for m in moves))
        self.complete = False
        self._reserve()

    def _reserve(self) -> None:
        """Lends the product its memory, and enters its initial node."""
        budget, states = self.system.budget, self.system.arena_size
        edge_count = min(budget // 12, (1 << 32) - 2)
        node_count = edge_count + 1  # each but the first is found by an edge
        sizes = (
            4 * self.size * states,  # numbers
            8 * node_count,  # places
            4 * node_count,  # parents
            8 * (node_count + 1),  # first
            4 * edge_count,  # targets
            8 * edge_count,  # entries
            16 * states,  # spans
            4 * edge_count,  # targets of steps
            8 * edge_count,  # entries of steps
        )
        self.parts: tuple[Reserve, ...] = tuple(map(reserve, sizes))
        self.tally: NDArray[np.int64] = np.zeros(native.TALLY_COUNT, np.int64)
        limits = np.array([edge_count, edge_count], np.int64)
        nodes, edges, steps = (tuple(one.address for one in self.parts[k : k + 3]) for k in (0, 3, 6))
        self.pairs = Pairs(*nodes, *edges, *steps, limits, self.tally)  # type: ignore[call-arg,arg-type]
        numbers, places, parents = (part.words for part in self.parts[:3])
        numbers.view(np.uint32)[0], places[0], parents.view(np.uint32)[0] = 1, 0, ROOT
        self.tally[native.NODES] = self.tally[native.LEVEL_END] = 1

    @property
    def hits(self) -> list[Hit]:
        """None: whatever is hit here is a failure, and `advance` raises NotReducedError."""
        return []

    @property
    def seen(self) -> int:
        """The state propositions that held in some node, as a mask."""
        return int(self.tally[native.SEEN])

    @property
    def has_left_out(self) -> bool:
        """Whether a step was left out."""
        return self.system.has_left_out

    @property
    def counts(self) -> Counts:
        """Nodes, edges, and the level that is being expanded."""
        nodes, expanded = int(self.tally[native.NODES]), int(self.tally[native.EXPANDED])
        edges, depth = int(self.tally[native.EDGES]), int(self.tally[native.DEPTH])
        return Counts(nodes, edges, depth, frontier=nodes - expanded)

    @property
    def budget(self) -> int:
        """Bytes that the search may use."""
        return self.system.budget

    @property
    def byte_count(self) -> int:
        """Memory in use for states, table, nodes, steps and edges."""
        states, nodes = self.system.state_count, int(self.tally[native.NODES])
        edges = int(self.tally[native.EDGES] + self.tally[native.STEPS])
        return self.system.byte_count + (4 * self.size + 16) * states + 20 * nodes + 12 * edges

    def row(self, index: int) -> Row:
        """The row of a node, as the product without reduction has it."""
        state, of_automaton = divmod(int(self.parts[1].words[index]), self.size)
        return np.append(self.system.row(state), np.uint64(of_automaton))

    def path(self, index: int) -> list[int]:
        """The nodes from the initial one to this one, along the breadth-first tree."""
        parents = self.parts[2].words.view(np.uint32)
        path = [index]
        while parents[path[-1]] != ROOT:
            path.append(int(parents[path[-1]]))
        return path[::-1]

    def rows_to(self, index: int) -> list[Row]:
        """The rows along that path."""
        return [self.row(node) for node in self.path(index)]

    def graph(self) -> Graph:
        """The part of the product whose nodes are expanded."""
        node_count, edge_count = int(self.tally[native.EXPANDED]), int(self.tally[native.EDGES])
        first, targets, entries = (part.words for part in self.parts[3:6])
        first[node_count] = edge_count
        return Graph(first[: node_count + 1], targets.view(np.uint32)[:edge_count], entries[:edge_count])

    def close(self) -> None:
        """Ends the exploration; everything found stays accessible."""
        self.system.close()

    def advance(self, quantum: int) -> None:
        """Expands about `quantum` nodes; raises OutOfMemoryError, or NotReducedError."""
        system = self.system
        arguments = (system.store(), system.work, system.own[0], self.rules, self.pairs, self.examines)
        reason = int(native.advance(system.code, *arguments, quantum))
        self.complete = reason == native.COMPLETE
        if reason in (native.HIT, native.NOT_WORTH_IT) or self._is_astray():
            raise NotReducedError
        if reason == native.NEED_BUFFER:
            system.enlarge_buffers()
        if reason in (native.NEED_ARENA, native.NEED_EDGES) or self.byte_count > self.budget:
            raise OutOfMemoryError
        system.grow_table()

    def _is_astray(self) -> bool:
        """Whether most states are expanded only because one of them might fail."""
        nodes = int(self.tally[native.NODES])
        is_examining = self.tally[native.EXPANDED] == nodes and not self.complete
        return is_examining and self.system.state_count > ASTRAY * nodes
