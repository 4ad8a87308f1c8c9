"""Fair components: which strongly connected components hold a fair accepting run.

A component is fair if a run that visits all of it infinitely often is. Weak fairness of a unit fails only
if the unit is enabled in every state and never taken, and then it also fails for every part of the
component. Strong fairness fails if the unit is enabled in some state and never taken; a fair run must
then avoid the states that enable it, so they are removed and the rest is decomposed again
(Emerson and Lei, "Modalities for model checking", 1987; Streett acceptance).

Strong global fairness fails if some step of a state of the component is on none of its edges, and
then it also fails for every part: the states that a fair run visits infinitely often are closed under
the system's steps (Sun, Liu, Dong, Pang, "PAT: Towards Flexible Verification under Fairness", 2009).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from veristream.ir.actions import Action
from veristream.ir.expr import Const
from veristream.ir.network import FairnessMark, Label
from veristream.ir.property import Fairness
from veristream.search.runs.graph import (
    ABSENT,
    NONE,
    TOO_SMALL,
    Graph,
    Letters,
    Part,
    components,
    copy_part,
    enabled_units,
    gather,
    name_steps,
    scratch_for,
    summarise,
    taken_units,
)
from veristream.search.threads import divide

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Units:
    """Fairness units as bits: the units of each action, and which units are weak and which strong."""

    of_action: Words  # one row of bit words for each action
    weak: Words
    strong: Words

    @property
    def exist(self) -> bool:
        """Whether there are fairness requirements."""
        return bool(self.weak.any() or self.strong.any())


def list_units(actions: tuple[Action, ...], fairness: Fairness) -> Units:
    """The units of a fairness assumption, and of the edges' own marks.

    Strong global fairness has none: it concerns single steps, and implies the marks.
    """
    if fairness is Fairness.STRONG_GLOBAL:
        actions = tuple(replace(action, fairness=FairnessMark.NONE) for action in actions)
    keys: dict[tuple[str, object], int] = {}
    strong: set[int] = set()
    of_action: list[set[int]] = []
    by_name = fairness in (Fairness.WEAK_ACTION, Fairness.STRONG_ACTION)
    by_process = fairness in (Fairness.WEAK_PROCESS, Fairness.STRONG_PROCESS)
    is_strong = fairness in (Fairness.STRONG_ACTION, Fairness.STRONG_PROCESS)
    for position, action in enumerate(actions):
        mine: list[tuple[tuple[str, object], bool]] = []
        if action.fairness is not FairnessMark.NONE:
            mine.append((("marked", position), action.fairness is FairnessMark.STRONG))
        if by_name:
            mine.append((("action", _name(action.label)), is_strong))
        if by_process:
            mine += [(("process", process), is_strong) for process in action.processes]
        bits = set()
        for key, needs_strong in mine:
            bit = keys.setdefault(key, len(keys))
            bits.add(bit)
            if needs_strong:
                strong.add(bit)
        of_action.append(bits)
    width = max(1, -(-len(keys) // 63))
    weak = set(range(len(keys))) - strong
    table = np.zeros((max(1, len(actions)), width), np.int64)
    for position, bits in enumerate(of_action):
        table[position] = _words(bits, width)
    return Units(table, _words(weak, width), _words(strong, width))


def _name(label: Label) -> tuple[object, ...]:
    """A label's name with its constant arguments."""
    fixed = [part.value if isinstance(part, Const) else None for part in label.arguments]
    return (label.name, *fixed)


def _words(bits: set[int], width: int) -> Words:
    words = np.zeros(width, np.int64)
    for bit in bits:
        words[bit // 63] |= 1 << (bit % 63)
    return words


@dataclass(frozen=True, slots=True)
class System:
    """What it takes to compute the enabled actions of a state: code, rows, and words per row.

    `letters` are given if fairness concerns single steps. `places` says which rows nodes have.
    """

    successors: int
    rows: int
    word_count: int
    letters: Letters | None = None
    words: Words | None = None  # the memory at `rows`
    places: Callable[[Words], Words] = lambda nodes: nodes
    workers: int = 1


@dataclass(frozen=True, slots=True)
class FairComponent:
    """A component with a fair accepting run: its number in `found`, its nodes, the units they enable.

    If fairness concerns single steps: how many there are, and which one each inner edge represents.
    """

    component: int
    nodes: Words
    found: NDArray[np.int64]
    taken: Words
    enabled: Words  # one row of bit words for each node
    step_count: int = 0
    step_of: Words | None = None  # per edge, NONE for others


def find_fair(graph: Graph, all_marks: int, units: Units, system: System) -> FairComponent | None:
    """A fair accepting component; of the candidates, those nearest to the initial state are tried first."""
    # A node without edges is on no cycle.
    nodes = np.flatnonzero(np.diff(graph.first))
    found = np.full(graph.first.size - 1, NONE, np.int64)
    numbers = np.full(found.size, ABSENT, np.uint32)
    pending, base = [nodes], 0
    while pending:
        nodes = pending.pop()
        inside, count = components(_part(graph, nodes, numbers, system.workers))
        # Components of all parts have different numbers, so what `found` says of others does no harm.
        found[nodes] = inside + base
        summary = summarise(graph, nodes, found, base, count, system.workers)
        chosen = np.flatnonzero(summary.cyclic & (summary.marks & all_marks == all_marks))
        chosen = chosen[np.argsort(summary.least[chosen], kind="stable")]
        members = _members(nodes, found, base, np.bincount(inside, minlength=1), chosen)
        for component, some in zip(base + chosen, members, strict=True):
            taken, enabled = np.zeros_like(units.weak), _no_bits(some, units)
            candidate = FairComponent(int(component), some, found, taken, enabled)
            fair, rest = _judge(graph, units, system, candidate)
            if fair is not None:
                return fair
            if rest.size:
                pending.append(rest)
        base += count
    return None


def _part(graph: Graph, nodes: Words, numbers: NDArray[np.uint32], workers: int) -> Part:
    """The part of the graph with only these nodes; `numbers` is ABSENT everywhere, and stays so."""
    numbers[nodes] = np.arange(nodes.size, dtype=np.uint32)
    part = Part(np.empty(2 * nodes.size, np.int64), np.empty(graph.targets.size, np.uint32))

    def copy(first: int, last: int) -> None:
        copy_part(graph, nodes, numbers, first, last, part)

    divide(copy, nodes.size, workers)
    numbers[nodes] = ABSENT
    return part


def _no_bits(nodes: Words, units: Units) -> Words:
    return np.zeros((nodes.size if units.exist else 0, units.weak.size), np.int64)


def _members(nodes: Words, found: Words, base: int, sizes: Words, chosen: Words) -> list[Words]:
    """The nodes of each component that is chosen, in ascending order."""
    ends = np.cumsum(sizes[chosen])
    members = np.empty(ends[-1] if ends.size else 0, np.int64)
    places = np.full(sizes.size, NONE, np.int64)
    places[chosen] = ends - sizes[chosen]
    gather(nodes, found, base, places, members)
    return np.split(members, ends[:-1]) if ends.size else []


def _judge(
    graph: Graph, units: Units, system: System, candidate: FairComponent
) -> tuple[FairComponent | None, Words]:
    """The candidate itself if it is fair, else the nodes that a fair run might still visit."""
    nothing = np.empty(0, np.int64)
    if system.letters is not None:
        return _judge_steps(graph, system, candidate), nothing
    if not units.exist:
        return candidate, nothing
    nodes, component = candidate.nodes, candidate.component
    places = system.places(nodes)

    def fill(first: int, last: int) -> None:
        some = (system.successors, system.rows, system.word_count, places[first:last])
        candidate.enabled[first:last] = enabled_of(units, *some)
        taken = np.zeros_like(units.weak)
        taken_units(graph, nodes[first:last], candidate.found, component, units.of_action, taken)
        parts.append(taken)

    parts: list[Words] = []
    divide(fill, nodes.size, system.workers)
    np.bitwise_or.reduce(parts, axis=0, out=candidate.taken)
    everywhere = np.bitwise_and.reduce(candidate.enabled, axis=0)
    if (everywhere & units.weak & ~candidate.taken).any():
        return None, nothing
    somewhere = np.bitwise_or.reduce(candidate.enabled, axis=0)
    owed = somewhere & units.strong & ~candidate.taken
    if not owed.any():
        return candidate, nothing
    return None, nodes[~(candidate.enabled & owed).any(axis=1)]


def _judge_steps(graph: Graph, system: System, candidate: FairComponent) -> FairComponent | None:
    """The candidate if every step of its states is on one of its edges."""
    assert system.letters is not None and system.words is not None
    nodes = candidate.nodes
    places = system.places(nodes)
    table = system.words[: system.word_count * (int(places.max()) + 1)].reshape(-1, system.word_count)
    groups = np.unique(table[places, :-1], axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(groups, kind="stable")
    step_of = np.full(graph.targets.size, NONE, np.int64)
    capacity, count = 1024, TOO_SMALL
    while count == TOO_SMALL:
        scratch = scratch_for(capacity, system.word_count)
        where = nodes[order], places[order], groups[order], candidate.found, candidate.component
        count = int(name_steps(graph, system.letters, *where, scratch, step_of))
        capacity *= 4
    return None if count == NONE else replace(candidate, step_count=count, step_of=step_of)


def enabled_of(units: Units, successors: int, rows: int, width: int, nodes: Words) -> Words:
    """The units that each node enables, one row of bit words per node."""
    capacity = 1024
    while True:
        enabled = np.zeros((nodes.size, units.weak.size), np.int64)
        scratch = scratch_for(capacity, width)
        if enabled_units(successors, rows, width, nodes, units.of_action, scratch, enabled):
            return enabled
        capacity *= 4
