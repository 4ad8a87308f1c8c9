"""Explores a system breadth-first and judges its properties; counts are those that TLC prints.

A state that a constraint excludes is judged but neither counted nor explored. The depth is the number of
levels: a system whose initial states have no other successors has depth 1. As with TLC, the first violation
ends the exploration: a system that breaks an invariant often has no end.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeVar

from veristream.errors import ModelError
from veristream.search.limits import Limits, Progress, Report
from veristream.search.memory import budget_bytes
from veristream.search.session import (
    INTERRUPTED,
    OUT_OF_MEMORY,
    out_of_seconds,
    out_of_states,
    peak_memory_mib,
)
from veristream.system import Condition, State, System, When
from veristream.verdict import (
    Effort,
    Holds,
    Invalid,
    Result,
    Step,
    Trace,
    Unknown,
    Verdict,
    Violated,
)

DEADLOCK = "deadlock-free"
"""The name of the property that every state has a step."""
FAULT_FREE = "fault-free"
"""The name of the property that everything has a value: for a system of which nothing else is asked."""
REASONS = {
    When.STATES: "the condition does not hold in the last state",
    When.INITIAL: "the condition does not hold in the initial state",
    When.STEPS: "the condition does not hold in the last step",
}
STUTTERING = "(stuttering)"
OFTEN = 1 << 10
"""After so many states, the limits are checked and progress is reported."""
NONE = -1
Computed = TypeVar("Computed")


class _Stopped(Exception):  # noqa: N818  # ends the exploration
    """A limit is reached, or nothing is open any more."""


@dataclass
class Exploration:
    """What is known of a system so far."""

    system: System
    limits: Limits
    report: Report
    open: set[str]
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    parents: array[int] = field(default_factory=lambda: array("q"))
    known: dict[Hashable, int] = field(default_factory=dict)
    edges: list[array[int]] = field(default_factory=list)  # from each state, if runs are looked at
    generated: int = 0
    depth: int = 0
    frontier: int = 0
    started: float = field(default_factory=time.monotonic)

    @cached_property
    def _of_state(self) -> Sequence[Condition]:
        return [one for one in self.system.conditions if one.when is When.STATES]

    @cached_property
    def _of_arrival(self) -> Sequence[Sequence[Condition]]:
        """What is judged of each step, and of each initial state."""
        kinds = (When.STEPS, When.INITIAL)
        return [[one for one in self.system.conditions if one.when is kind] for kind in kinds]

    def run(self) -> None:
        """Explores until everything is decided or a limit is reached."""
        try:
            self._assume()
            level_ends = self._begin()
            while level_ends > (first := self.frontier):
                self.depth += 1
                for index in range(first, level_ends):
                    self._expand(index)
                    self.frontier = index + 1
                    if index % OFTEN == 0:
                        self._check_limits()
                level_ends = len(self.states)
            self._judge_runs()
        except _Stopped:
            return
        except KeyboardInterrupt:
            self._end(Unknown(INTERRUPTED))
        except MemoryError:
            self._end(Unknown(f"{OUT_OF_MEMORY} of this machine is used up"))
        else:
            self._end(Holds())

    def _assume(self) -> None:
        for one in self.system.assumptions:
            if one.name in self.open and not self._try(one.holds, None):
                self._decide(one.name, Violated("the assumption is false"))
            elif one.name in self.open:
                self._decide(one.name, Holds())
        if not self.open:
            raise _Stopped

    def _begin(self) -> int:
        self._collect(NONE, self._try(lambda: list(self.system.initial()), None))
        return len(self.states)

    def _expand(self, index: int) -> None:
        before = self.states[index]
        after = self._try(lambda: list(self.system.steps(before)), index)
        if not after and DEADLOCK in self.open:
            self._decide(DEADLOCK, Violated("no step is possible in the last state", self.trace(index)))
            self._end_at(DEADLOCK)
        self._collect(index, after)

    def _collect(self, parent: int, found: Iterable[State]) -> None:
        """Judges the successors of a state, and keeps those that are new."""
        for state in found:
            self.generated += 1
            is_within = self._try(lambda: self._is_within(parent, state), parent)  # noqa: B023  # called here
            if is_within:
                key = self._try(lambda: self.system.key(state), parent)  # noqa: B023
                if key in self.known:
                    self._follow(parent, self.known[key])
                    self._judge(state, parent, self._of_arrival[parent == NONE])
                    continue
                self._follow(parent, len(self.states))
                self.known[key] = len(self.states)
                self.states.append(state)
                self.parents.append(parent)
            self._judge(state, parent, self._of_state)
            self._judge(state, parent, self._of_arrival[parent == NONE])

    def _follow(self, parent: int, index: int) -> None:
        """Notes an edge of the graph."""
        if self.system.run_conditions and parent != NONE:
            while len(self.edges) <= parent:
                self.edges.append(array("q"))
            if index not in self.edges[parent]:
                self.edges[parent].append(index)

    def _judge_runs(self) -> None:
        """Judges formulas about runs, once the graph is whole."""
        from veristream.search.direct.runs import find_run

        while len(self.edges) < len(self.states):
            self.edges.append(array("q"))
        initial = [index for index, parent in enumerate(self.parents) if parent == NONE]
        for one in self.system.run_conditions:
            if one.name not in self.open:
                continue
            try:
                lasso = self._try(partial(find_run, one, self.states, self.edges, initial), None)
            except ModelError as error:  # the formula is too large
                self._decide(one.name, Invalid(error.message, error.span, error.hint))
                continue
            if lasso is not None:
                trace = Trace(tuple(self._steps([self.states[at] for at in lasso.states])), lasso.loop)
                self._decide(one.name, Violated("the run never satisfies it", trace))

    def _is_within(self, parent: int, state: State) -> bool:
        system = self.system
        is_allowed = parent == NONE or system.is_allowed(self.states[parent], state)
        return is_allowed and system.is_within(state)

    def _judge(self, state: State, parent: int, conditions: Sequence[Condition]) -> None:
        ended = ""
        for one in conditions:
            if one.name not in self.open:
                continue
            try:
                if one.holds(None if parent == NONE else self.states[parent], state):
                    continue
                reason = REASONS[one.when]
                verdict: Verdict = Violated(reason, self.trace(parent, state))
            except self.system.failure as error:
                fault = self.system.fault_of(error)
                verdict = Unknown(fault.message, self.trace(parent, state), fault)
            self._decide(one.name, verdict)
            ended = ended or one.name
        if ended:
            self._end_at(ended)

    def _end_at(self, name: str) -> None:
        """Ends the exploration: this property is decided, and not by holding."""
        self._end(Unknown(f"the exploration ended where {name} was decided"))
        raise _Stopped

    def _try(self, compute: Callable[[], Computed], at: int | None) -> Computed:
        """What is computed; if that fails, nothing more can be decided."""
        try:
            return compute()
        except self.system.failure as error:
            fault = self.system.fault_of(error)
            trace = None if at is None or at == NONE else self.trace(at)
            self._end(Unknown(fault.message, trace, fault))
            raise _Stopped from error

    def _decide(self, name: str, verdict: Verdict) -> None:
        self.verdicts[name] = verdict
        self.open.discard(name)

    def _end(self, verdict: Verdict) -> None:
        """Gives what is still open this verdict."""
        for name in self.open:
            self.verdicts[name] = verdict
        self.open.clear()

    def _check_limits(self) -> None:
        seconds, mib = time.monotonic() - self.started, peak_memory_mib()
        waiting = len(self.states) - self.frontier
        counts = len(self.states), self.generated, self.depth
        self.report(Progress(*counts, self.system.name, mib, seconds, frontier=waiting))
        limits, budget = self.limits, budget_bytes(self.limits.memory_max_mib) >> 20
        why = ""
        if limits.states_max is not None and len(self.states) >= limits.states_max:
            why = out_of_states(limits)
        elif limits.seconds_max is not None and seconds >= limits.seconds_max:
            why = out_of_seconds(limits)
        elif mib > budget:
            why = f"{OUT_OF_MEMORY} of {budget} MiB is used up ({limits.remedy})"
        if why:
            self._end(Unknown(why))
            raise _Stopped

    def trace(self, index: int, last: State | None = None) -> Trace:
        """A shortest run to a known state, and one step further if a last state is given."""
        states = [] if last is None else [last]
        while index != NONE:
            states.append(self.states[index])
            index = self.parents[index]
        states.reverse()
        return Trace(tuple(self._steps(states)), shortest=True)

    def _steps(self, states: Sequence[State]) -> Iterator[Step]:
        before: State | None = None
        for state in states:
            action = None if before is None else self._action(before, state)
            yield Step(action, None, self.system.show(state))
            before = state

    def _action(self, before: State, after: State) -> str:
        named = (name for name, state in self.system.named_steps(before) if state == after)
        return next(named, STUTTERING)


def check_system(
    system: System, names: Sequence[str], limits: Limits, report: Report
) -> tuple[Result, ...]:
    """The result of each property, in the order of the names."""
    kinds = kinds_of(system)
    exploration = Exploration(system, limits, report, {one for one in names if one not in system.refused})
    if exploration.open:
        exploration.run()
    seconds = time.monotonic() - exploration.started
    counts = len(exploration.states), exploration.generated, exploration.depth
    effort = Effort(
        *counts, seconds, peak_memory_mib(), frontier=len(exploration.states) - exploration.frontier
    )
    verdicts: dict[str, Verdict] = {**exploration.verdicts, **system.refused}
    nothing = Effort(0, 0, 0, 0.0, effort.memory_mib)
    return tuple(
        Result(
            name,
            kinds[name],
            verdicts[name],
            nothing if isinstance(verdicts[name], Invalid) else effort,
        )
        for name in names
    )


def kinds_of(system: System) -> dict[str, str]:
    """The properties of a system with what kind each is, in the order of a report."""
    kinds = {one.name: "assumption" for one in system.assumptions}
    if system.checks_deadlock:
        kinds[DEADLOCK] = "deadlockfree"
    for one in system.conditions:
        is_state = one.when is When.STATES and kinds.get(one.name, "always") == "always"
        kinds[one.name] = "always" if is_state else "safety"
    if system.has_steps and not system.checks_deadlock and not system.conditions:
        kinds[FAULT_FREE] = "faultfree"
    kinds |= {one.name: "temporal" for one in system.run_conditions}
    return kinds | dict.fromkeys(system.refused, "temporal")
