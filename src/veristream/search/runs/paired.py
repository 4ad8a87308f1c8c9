"""The exploration of a product on the stored steps of its network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from veristream.kernel.layout import Row
from veristream.search.memory import OutOfMemoryError, Reserve, reserve
from veristream.search.reach.visited import ROOT
from veristream.search.runs import pairs as native
from veristream.search.runs.graph import Graph
from veristream.search.runs.pairs import Pairs, Rules
from veristream.search.runs.product import Product
from veristream.search.runs.stored import ActionAtom, StoredSteps
from veristream.search.session import Hit
from veristream.verdict import Counts

ASTRAY = 4
"""If a product is complete, so many states for each of its nodes are searched for failures at most."""
_ACTION_SHIFT = 32
"""Action propositions of a letter are above its state propositions."""


class NotDecidedError(Exception):
    """The search must be repeated without stored steps: something failed, or they are not worth it."""


class PairedRuns:
    """The exploration of a product; `advance` continues it. If it examines, it looks for a failure in all
    states, not only in those of the product."""

    def __init__(self, product: Product, stored: StoredSteps, examines: bool = False) -> None:
        self.size = product.automaton.state_count
        self.examines, self.stored, self.system = examines, stored, stored.system
        self.code = self.system.code._replace(propositions=product.kernel.propositions)
        self.rules = _rules_of(product, stored.atoms)
        self.complete = False
        self._reserve(product.automaton.initial)

    def _reserve(self, initial: int) -> None:
        """Lends the product its memory, and enters its initial node."""
        budget, states = self.system.budget, self.system.arena_size
        edge_count = min(budget // 12, (1 << 32) - 2)
        node_count = min(budget // 20, (1 << 32) - 2)
        sizes = (
            4 * self.size * states,  # numbers
            8 * node_count,  # places
            4 * node_count,  # parents
            8 * (node_count + 1),  # first
            4 * edge_count,  # targets
            8 * edge_count,  # entries
        )
        self.parts: tuple[Reserve, ...] = tuple(map(reserve, sizes))
        self.tally: NDArray[np.int64] = np.zeros(native.TALLY_COUNT, np.int64)
        nodes, edges = (tuple(part.address for part in self.parts[k : k + 3]) for k in (0, 3))
        self.pairs = Pairs(*nodes, *edges, node_count, edge_count, self.tally)  # type: ignore[call-arg,arg-type]
        numbers, places, parents = (part.words for part in self.parts[:3])
        numbers.view(np.uint32)[initial], places[0], parents.view(np.uint32)[0] = 1, initial, ROOT
        self.tally[native.NODES] = self.tally[native.LEVEL_END] = 1

    @property
    def hits(self) -> list[Hit]:
        """None: whatever is hit here is a failure, and `advance` raises NotDecidedError."""
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
        edges, depth = int(self.tally[native.TRANSITIONS]), int(self.tally[native.DEPTH])
        return Counts(nodes, edges, depth, frontier=nodes - expanded)

    @property
    def budget(self) -> int:
        """Bytes that the search may use."""
        return self.system.budget

    @property
    def byte_count(self) -> int:
        """Memory in use for states, table, nodes, steps and edges."""
        states, nodes = self.system.state_count, int(self.tally[native.NODES])
        edges = int(self.tally[native.EDGES])
        return self.stored.byte_count + 4 * self.size * states + 20 * nodes + 12 * edges

    def row(self, index: int) -> Row:
        """The row of a node, as in a search without stored steps."""
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
        """Expands about `quantum` nodes; raises OutOfMemoryError, or NotDecidedError."""
        system = self.system
        network = (self.code, system.store(), system.work, system.own[0])
        product = (self.rules, self.stored.steps, self.pairs)
        reason = int(native.advance(*network, *product, self.examines, quantum))
        self.complete = reason == native.COMPLETE
        if reason in (native.HIT, native.NOT_WORTH_IT) or self._is_astray():
            raise NotDecidedError
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


def _rules_of(product: Product, atoms: Sequence[ActionAtom]) -> Rules:
    """The automaton, with its action propositions where the entries of steps have them."""
    automaton = product.automaton
    places = [(bit, atoms.index(atom)) for bit, atom in enumerate(automaton.actions)]

    def moved(letters: Sequence[int]) -> NDArray[np.int64]:
        return np.array([_moved(letter, places) for letter in letters], np.int64)

    return Rules(
        np.array(automaton.first, np.int64),
        moved(automaton.positive),
        moved(automaton.negative),
        np.array(automaton.target, np.int64),
        np.array(automaton.acceptance, np.int64),
        np.array(automaton.recurrent, np.int64),
    )


def _moved(letter: int, places: Sequence[tuple[int, int]]) -> int:
    """The letter with each action proposition at its new place."""
    states = letter & ((1 << _ACTION_SHIFT) - 1)
    actions = letter >> _ACTION_SHIFT
    return states | sum((actions >> old & 1) << (_ACTION_SHIFT + new) for old, new in places)
