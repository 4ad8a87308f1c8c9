"""Properties of whole runs of timed networks, by searching for a run that never leaves a condition.

`A<> p` is false if some run stays in `not p` from the start, `E[] p` is true if some run stays in `p`, and
`p --> q` is false if some run stays in `not q` from a reachable state in which p holds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from veristream.errors import ModelError
from veristream.ir.disjuncts import Disjunct, negate, split
from veristream.ir.expr import Expr
from veristream.ir.network import Network
from veristream.ir.oracle.timed import TimedInterpreter
from veristream.ir.property import Inevitable, LeadsTo, PotentiallyAlways, Property, kind_of
from veristream.ir.text.printer import print_expr
from veristream.ir.vacuity import sentence_never
from veristream.kernel.layout import Row, encode
from veristream.kernel.load import load_kernel
from veristream.kernel.zones import set_zero
from veristream.search.limits import Limits, Report
from veristream.search.memory import OutOfMemoryError
from veristream.search.session import INTERRUPTED, Session
from veristream.search.vacuity import true_from_the_start
from veristream.search.zones import stay as native
from veristream.search.zones.explore import NodeMemory, Pace, ZoneExploration
from veristream.search.zones.faults import NO_ACTION, FaultExplainer, failure_at_start
from veristream.search.zones.kept import COVERED, NONE
from veristream.search.zones.path import Walker
from veristream.search.zones.stay import Parts, Trees, add_root, search_runs
from veristream.search.zones.steps import ENTERED, FAILED
from veristream.search.zones.trace import Hop, TraceBuilder, path_to, zone_bounds
from veristream.search.zones.watch import Questions
from veristream.verdict import Counts, Effort, Holds, Result, Trace, Unknown, Verdict, Violated

RunClaim = Inevitable | PotentiallyAlways | LeadsTo

_ENDINGS = {
    native.WAITS: "then time passes forever",
    native.STUCK: "then no step is possible, now or after any delay",
    native.CYCLES: "then the last steps repeat forever",
}


def check_timed_runs(network: Network, property_: Property, limits: Limits, report: Report) -> Result:
    """The result of a property of the runs of a timed network."""
    claim = property_.claim
    assert isinstance(claim, Inevitable | PotentiallyAlways | LeadsTo)
    search = RunSearch(network, property_, claim, limits, report)
    verdict = search.run()
    return Result(property_.name, kind_of(claim), verdict, search.effort())


def _conditions(claim: RunClaim) -> tuple[tuple[Disjunct, ...], tuple[Disjunct, ...], Expr | None]:
    """The condition that the run stays in, its negation, and where the run may begin."""
    match claim:
        case Inevitable(condition=condition):
            return negate(condition), split(condition), None
        case PotentiallyAlways(condition=condition):
            return split(condition), negate(condition), None
        case LeadsTo(cause=cause, effect=effect):
            return negate(effect), split(effect), cause


@dataclass(slots=True)
class RunExploration:
    """A depth-first search of zones for a run; see `zones.stay`."""

    zones: ZoneExploration  # provides the code and the shape
    parts: Parts
    memory: NodeMemory
    budget: int
    trees: Trees = field(init=False)
    tally: np.ndarray = field(init=False)
    pace: Pace = field(default_factory=Pace)
    complete: bool = False
    found: bool = False
    failed: bool = False

    def __post_init__(self) -> None:
        pending = np.zeros(1 << 12, np.int64)
        row = np.zeros(self.zones.shape.word_count + 1, np.int64)
        self.trees = Trees(self.memory.nodes(), pending, row)
        self.tally = np.zeros(native.TALLY_COUNT, np.int64)
        self.tally[native.FAULT_NODE] = -1
        self._set_limits()

    def _set_limits(self) -> None:
        self.tally[native.TABLE_LIMIT] = self.memory.table_limit
        self.tally[native.NODE_LIMIT] = min(
            self.memory.node_count_max, self.state_count + len(self.trees.pending) - self.pending_count
        )

    def add(self, row: Row, zone: np.ndarray, origin: int) -> bool:
        """Adds a zone in which runs may begin; returns False if the condition cannot be evaluated there."""
        zones = self.zones
        words = row.view(np.int64).copy()
        while True:
            self._make_room(zones.capacity)
            before = self.tally.copy()
            args = (self.parts, int(words.ctypes.data), zone, origin)
            if add_root(
                zones.code, zones.shape, self.memory.store(), self.trees, self.tally, zones.scratch, *args
            ):
                break
            self.tally[:] = before
            zones.enlarge()
        return bool(self.tally[native.FAULT_NODE] < 0)

    def _make_room(self, count: int) -> None:
        room = count * len(self.zones.scratch.cuts) * (2 * self.parts.stay_count + 1)
        while self.tally[native.DISCRETE] + room > self.memory.table_limit:
            self.memory.grow_table(self.state_count, int(self.tally[native.DISCRETE]))
        while self.pending_count + room > len(self.trees.pending):
            pending = np.zeros(2 * len(self.trees.pending), np.int64)
            pending[: len(self.trees.pending)] = self.trees.pending
            self.trees = self.trees._replace(pending=pending)
        self._set_limits()
        if self.state_count + room > self.memory.node_count_max:
            raise OutOfMemoryError

    def advance(self, quantum: int) -> None:
        """Expands at most `quantum` nodes; raises OutOfMemoryError if the budget is used up."""
        zones = self.zones
        started = time.monotonic()
        reason = search_runs(
            zones.code,
            zones.shape,
            self.memory.store(),
            self.trees,
            self.tally,
            zones.scratch,
            self.parts,
            min(quantum, self.pace.count),
        )
        self.pace.adapt(time.monotonic() - started)
        match reason:
            case native.COMPLETE:
                self.complete = True
            case native.FOUND:
                self.complete = self.found = True
            case native.FAULT:
                self.complete = self.failed = True
            case native.NEED_BUFFER | native.NEED_PIECES:
                zones.enlarge()
            case native.NEED_TABLE | native.NEED_NODES:
                self._make_room(zones.capacity)
            case _:
                pass
        if self.byte_count > self.budget:
            raise OutOfMemoryError

    def close(self) -> None:
        """Nothing to release."""

    @property
    def state_count(self) -> int:
        """Zones found by this search."""
        return int(self.tally[native.NODES])

    @property
    def counts(self) -> Counts:
        """The depth is the length of the longest path."""
        nodes, transitions, depth, pending = (
            int(self.tally[which])
            for which in (native.NODES, native.TRANSITIONS, native.DEPTH, native.PENDING)
        )
        return Counts(nodes, transitions, depth, frontier=pending)

    @property
    def pending_count(self) -> int:
        """Zones that are still to be expanded."""
        return int(self.tally[native.PENDING])

    @property
    def byte_count(self) -> int:
        """Memory in use, including that of the search for where runs may begin."""
        own = self.memory.byte_count(self.state_count, int(self.tally[native.DISCRETE]))
        return own + self.zones.byte_count

    def path(self, node: int) -> list[int]:
        """The nodes from a root to this one."""
        path = [node]
        while self.trees.nodes.parents[path[-1]] != NONE:
            path.append(int(self.trees.nodes.parents[path[-1]]))
        return path[::-1]


class RunSearch:
    """The search for a run that decides one property."""

    def __init__(
        self, network: Network, property_: Property, claim: RunClaim, limits: Limits, report: Report
    ) -> None:
        self.started = time.monotonic()
        self.network, self.property, self.claim = network, property_, claim
        self.limits, self.report = limits, report
        self.interpreter = TimedInterpreter(network)
        self.questions = Questions(network)
        stay, leave, self.cause = _conditions(claim)
        if any(part.deadlock is not None for part in stay + leave):
            raise ModelError(
                "`deadlock` in a property of whole runs is not supported",
                property_.span,
                "check `A[] not deadlock` or `E<> deadlock` as a property of its own",
            )
        self.questions.ask(stay)
        self.questions.ask(leave)
        self.cause_case = -1 if self.cause is None else self.questions.ask(split(self.cause))
        watch = self.questions.watch()
        self.kernel = load_kernel(network, watch)
        bounds = self.questions.bounds(exact=True, reach=0)
        watched = self.questions.watched()
        watched.open[:] = 0
        self.zones = ZoneExploration(network, watch, self.kernel, bounds, watched, limits.memory_max_mib)
        shape = self.zones.shape
        limit = len(stay) + len(leave)
        parts = Parts(watched.bits[:limit], watched.timed[:limit], len(stay))
        memory = NodeMemory(shape.word_count + 1, shape.n, self.zones.budget)
        self.runs = RunExploration(self.zones, parts, memory, self.zones.budget)
        self.traces = TraceBuilder(network, self.kernel, shape, self.interpreter)
        self.cause_found = False
        self.session: Session[ZoneExploration] | Session[RunExploration] | None = None

    def effort(self) -> Effort:
        """The cost of both searches."""
        assert self.session is not None
        effort = self.session.effort()
        zones, runs = self.zones.counts, self.runs.counts
        return Effort(
            zones.states + runs.states,
            zones.transitions + runs.transitions,
            max(zones.depth, runs.depth),
            effort.seconds,
            effort.memory_mib,
        )

    def run(self) -> Verdict:
        """The verdict."""
        self.session = Session(self.zones, self.limits, self.report, self.property.name, self.started)
        failure = failure_at_start(self.interpreter) or self._begin(self.session)
        if failure is not None:
            return failure
        second = Session(self.runs, self.limits, self.report, self.property.name, self.started)
        self.session = second
        for _ in second.rounds():
            pass
        if second.stopped:
            return Unknown(second.stopped)
        if self.runs.failed:
            return self._failure()
        return self._verdict()

    def _begin(self, session: Session[ZoneExploration]) -> Unknown | None:
        """Finds where runs may begin; returns the verdict if that is impossible."""
        try:
            return self._begin_at_first() if self.cause is None else self._begin_at_causes(session)
        except OutOfMemoryError:
            return Unknown(session.out_of_memory)
        except KeyboardInterrupt:
            return Unknown(INTERRUPTED)

    def _begin_at_first(self) -> Unknown | None:
        zone = np.zeros(self.zones.shape.n**2, np.int32)
        set_zero(zone, self.zones.shape.n)
        initial = self._initial()
        if not self.runs.add(initial, zone, 0):
            return self._explain_failure([Hop(initial)], NO_ACTION)
        return None

    def _begin_at_causes(self, session: Session[ZoneExploration]) -> Unknown | None:
        self.zones.begin(self._initial())
        for _ in session.rounds():
            node, action = map(int, self.zones.watched.fault)
            if node >= 0:
                return self._explain_failure(path_to(self.zones, node), action)
        return Unknown(session.stopped) if session.stopped else self._add_causes()

    def _initial(self) -> Row:
        return encode(self.kernel.layout, self.network, self.interpreter.initial().state)

    def _failure(self) -> Unknown:
        """The verdict if the search for a run failed."""
        node, action = (int(self.runs.tally[at]) for at in (native.FAULT_NODE, native.FAULT_ACTION))
        return self._explain_failure(self._hops(self.runs.path(node)), action)

    def _explain_failure(self, hops: Sequence[Hop], action: int) -> Unknown:
        return FaultExplainer(self.traces, self._walker(), self.questions).explain(hops, action)

    def _add_causes(self) -> Unknown | None:
        """Adds every reachable zone in which the cause holds; returns the verdict if the cause cannot be
        evaluated."""
        walker = self._walker()
        for node in range(self.zones.state_count):
            if self.zones.nodes.flags[node] & COVERED:
                continue
            row = self.zones.row(node)
            for number, part in enumerate(self.questions.parts):
                if part.case != self.cause_case:
                    continue
                found, zone = walker.part_of(row, self.zones.zone(node), number, part.bit)
                self.cause_found |= found == ENTERED
                if found == FAILED or (
                    found == ENTERED and not self.runs.add(row, zone, (number << 32) | node)
                ):
                    return self._explain_failure(path_to(self.zones, node), NO_ACTION)
        return None

    def _walker(self) -> Walker:
        zones = self.zones
        return Walker(zones.code, zones.shape, zones.scratch, self.kernel, self.runs.parts)

    def _verdict(self) -> Verdict:
        if isinstance(self.claim, PotentiallyAlways):
            if self.runs.found:
                trace, ending = self._trace()
                return Holds(ending, trace)
            return Violated("on every run the condition becomes false")
        if self.runs.found:
            trace, ending = self._trace()
            return Violated(ending, trace)
        vacuous = true_from_the_start(self.interpreter, self.property)
        if self.cause is not None and not self.cause_found:
            vacuous = sentence_never(print_expr(self.cause))
        return Holds(vacuous=vacuous)

    def _trace(self) -> tuple[Trace, str]:
        tally = self.runs.tally
        ending = int(tally[native.ENDING])
        path = self.runs.path(int(tally[native.LAST]))
        hops = self._hops(path)
        loop = None
        if ending == native.CYCLES:
            loop = len(hops) - len(path) + path.index(int(tally[native.FIRST]))
        walker = self._walker()
        found = walker.walk(hops, walker.ending if ending == native.STUCK else walker.anywhere)
        assert found is not None, "a path of zones is a run"
        gone, zone = found
        trace = self.traces.build(gone, zone_bounds(zone, self.zones.shape.n), loop)
        return trace, _ENDINGS[ending]

    def _hops(self, path: Sequence[int]) -> list[Hop]:
        """The path through the nodes of the second search, after the path of the first search to its
        root."""
        nodes = self.runs.trees.nodes
        first = self._hop(path[0])
        hops = [first]
        if self.cause is not None:
            origin = int(nodes.entries[path[0]])
            cause = origin >> 32
            at_first = self.questions.parts[cause].disjunct.clocks
            hops = [
                *path_to(self.zones, origin & 0xFFFFFFFF),
                replace(first, cause=cause, at_first=at_first),
            ]
        for node in path[1:]:
            hop, entry = self._hop(node), int(nodes.entries[node])
            if entry != native.WAITING:
                hop = replace(hop, action=entry & 0xFFFFFFFF, successor=entry >> 32)
            hops.append(hop)
        return hops

    def _hop(self, node: int) -> Hop:
        """The state of a node, and the part of the condition that it stays in."""
        row = self.runs.memory.row(int(self.runs.trees.nodes.states[node]))
        part = int(row[-1])
        return Hop(row[:-1], part=part, within=self.questions.parts[part].disjunct.clocks)
