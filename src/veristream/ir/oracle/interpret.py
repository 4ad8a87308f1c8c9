"""The interpreter: the oracle that kernels and searches are tested against.

It follows the text of `network` step by step, for one state at a time, and is meant to be read, not
to be fast. Where that text leaves something open, it is this:

- A fault fails one choice of the leader's values if a test faults, one combination of movers if what
  they do faults. Each failure is a finding of its own; the other choices still give their steps.
- A follower's indices are compared with the leader's one after the other; one out of bounds simply
  never agrees.
- Priority speaks of steps, so a failure neither creates nor lifts it, and a failing action that it
  would exclude is no failure. Where a test faults, nobody knows yet who would have moved: the leader
  counts, and every other component that is at the source of an edge with which it might follow.

Of a timed network these are the steps as far as the state alone decides; each says what it demands of
the clocks and does to them. The text's items 5 to 7 are the matter of `timed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from veristream.ir.actions import Action, Movement, list_actions, render_label
from veristream.ir.clocks import NO_CLOCKS, Bound, ClockEffect
from veristream.ir.expr import ClockConstraint, Expr
from veristream.ir.network import ChannelKind, LocationKind, Network, Receive, Send
from veristream.ir.oracle.enabled import Enabled, Faulted, Lead, Mover, list_enabled, list_possible
from veristream.ir.oracle.evaluate import (
    Environment,
    ModelFault,
    Moment,
    Scope,
    copy_scope,
    evaluate,
    evaluate_constraint,
    flatten,
    freeze,
    is_done,
    run,
    thaw,
)
from veristream.ir.property import Occurs, Silent
from veristream.ir.state import IDLE, State, initial_state, name_parts, start_location
from veristream.verdict import Fault


@dataclass(frozen=True, slots=True)
class Taken:
    """A step: its action's position in `list_actions`, who moved along which edge, and where to.

    `process` names the movers, the leader first; `movers` are pairs of component and edge.
    """

    action: int
    label: str
    process: str
    state: State
    arguments: tuple[int, ...]
    movers: tuple[tuple[int, int], ...]
    clocks: ClockEffect = NO_CLOCKS


@dataclass(frozen=True, slots=True)
class Failed:
    """An action that faulted; `components` are those that moved, or could have.

    `clocks` has the bounds of the movers where it was not a test that faulted, and no resets.
    """

    action: int
    label: str
    process: str
    fault: Fault
    components: tuple[int, ...]
    clocks: ClockEffect = NO_CLOCKS


@dataclass(frozen=True, slots=True)
class Expansion:
    """All that can happen in a state, by action, then the leader's choices, then the followers'."""

    steps: tuple[Taken, ...]
    failures: tuple[Failed, ...]


class Interpreter:
    """Expands the states of one network; nothing but the network is remembered."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.actions = list_actions(network)
        self._names = name_parts(network)

    def initial(self) -> State:
        """The state that every run begins in."""
        return initial_state(self.network)

    def steps(self, state: State) -> list[Taken]:
        """The steps out of the state."""
        return list(self.expand(state).steps)

    def failures(self, state: State) -> list[Failed]:
        """The actions that fault in the state."""
        return list(self.expand(state).failures)

    def expand(self, state: State) -> Expansion:
        """The steps and the failures of the state, priorities applied."""
        steps: list[Taken] = []
        failures: list[Failed] = []
        before = thaw(self._names, state)
        for index in range(len(self.actions)):
            for outcome in self._attempt(index, before):
                if isinstance(outcome, Taken):
                    steps.append(outcome)
                else:
                    failures.append(outcome)
        return self._prioritise(state, steps, failures)

    def value(self, expr: Expr, state: State) -> int:
        """The expression's value in the state; raises ModelFault."""
        return evaluate(expr, thaw(self._names, state), {})

    def holds(self, expr: Expr, state: State, moment: Moment | None = None) -> bool:
        """Whether the condition holds in the state, and at the moment if it is timed; raises ModelFault."""
        env = thaw(self._names, state)
        env.moment = moment
        return evaluate(expr, env, {}) != 0

    def holds_step(self, expr: Expr, before: State, after: State) -> bool:
        """Whether the condition, which may be primed, holds of the step; raises ModelFault."""
        env = thaw(self._names, before)
        env.after = thaw(self._names, after)
        return evaluate(expr, env, {}) != 0

    def occurs(self, proposition: Occurs | Silent, taken: Taken) -> bool:
        """Whether the proposition is true of the step; the name of an invisible action counts too."""
        action = self.actions[taken.action]
        match proposition:
            case Silent():
                return not action.visible
            case Occurs(name=name, arguments=wanted):
                if name != action.label.name or wanted is None:
                    return name == action.label.name
                return len(wanted) == len(taken.arguments) and all(
                    want is None or want == argument
                    for want, argument in zip(wanted, taken.arguments, strict=True)
                )
            case _:
                assert_never(proposition)

    def is_terminated(self, state: State) -> bool:
        """Whether every component is idle or at a final location, or the terminal condition holds."""
        env = thaw(self._names, state)
        if self.network.terminal is not None and evaluate(self.network.terminal, env, {}):
            return True
        return all(at == IDLE or is_done(env, i) for i, at in enumerate(state.locations))

    def invariant_bounds(self, state: State) -> tuple[Bound, ...]:
        """What the clock invariants of all locations demand, in the order of the components; raises
        ModelFault."""
        env = thaw(self._names, state)
        return tuple(
            bound
            for component, at in zip(self.network.components, state.locations, strict=True)
            for constraint in (() if at == IDLE else component.locations[at].clock_invariant)
            for bound in evaluate_constraint(constraint, env, {})
        )

    def bounds(self, constraint: ClockConstraint, state: State) -> tuple[Bound, ...]:
        """What the constraint demands of the clocks in the state; raises ModelFault."""
        return evaluate_constraint(constraint, thaw(self._names, state), {})

    def may_delay(self, state: State) -> bool:
        """Whether time may pass, as far as the state alone decides."""
        for kind in (LocationKind.URGENT, LocationKind.COMMITTED):
            if self._components_at(state, kind):
                return False
        before = thaw(self._names, state)
        return not any(
            isinstance(outcome, Enabled)
            for action in self.actions
            if self._is_urgent(action)
            for outcome in list_enabled(action, before)
        )

    def _is_urgent(self, action: Action) -> bool:
        sync = self.network.components[action.leader].edges[action.edge].sync
        return sync is not None and self._names.channels[sync.channel][1].urgent

    def _attempt(self, index: int, before: Environment) -> Iterator[Taken | Failed]:
        """What the action comes to, before priority."""
        action = self.actions[index]
        for outcome in list_enabled(action, before):
            if isinstance(outcome, Enabled):
                yield from self._perform(index, outcome, before)
            else:
                yield self._fail_test(index, outcome, before)

    # What: the effects, in a copy of the state.

    def _perform(self, index: int, enabled: Enabled, before: Environment) -> Iterator[Taken | Failed]:
        """The step of these movers, its failure, or nothing if an invariant forbids it."""
        action = self.actions[index]
        movers = enabled.movers
        components = tuple(mover.component for mover in movers)
        scope = movers[1 if action.label_of_follower else 0].scope
        bounds = tuple(bound for mover in movers for bound in mover.bounds)
        try:
            after = thaw(self._names, freeze(before))
            self._move(movers, after)
            self._exchange(enabled.lead, after)
            self._stop_and_start(movers, after)
            for mover in movers:
                run(mover.edge.update, after, copy_scope(mover.scope))
            if not self._invariants_hold(after):
                return
            arguments = _arguments(action, before, scope)
        except ModelFault as fault:
            label = _label_of_failure(action, before, scope)
            demanded = ClockEffect(bounds)
            yield Failed(index, label, self._process(components), _as_data(fault), components, demanded)
            return
        label = render_label(action.label.name, arguments)
        edges = tuple((mover.component, mover.position) for mover in movers)
        process = ", ".join(movers[0].edge.actors) or self._process(components)
        effect = ClockEffect(bounds, tuple(sorted(after.resets.items())))
        yield Taken(index, label, process, freeze(after), arguments, edges, effect)

    def _fail_test(self, index: int, faulted: Faulted, before: Environment) -> Failed:
        """The failure of a test; a broadcast is blamed on its leader alone."""
        action = self.actions[index]
        possible = list_possible(action, before)
        blamed = possible[:1] if action.movement is Movement.BROADCAST else possible
        receives = isinstance(self.network.components[action.leader].edges[action.edge].sync, Receive)
        label = action.label.name
        if not receives and not action.label_of_follower:  # else the scope lacks what is received
            label = _label_of_failure(action, before, faulted.choice)
        return Failed(index, label, self._process(blamed), _as_data(faulted.fault), possible)

    def _move(self, movers: tuple[Mover, ...], after: Environment) -> None:
        for mover in movers:
            target = self._names.locations[mover.component][mover.edge.target]
            after.locations[mover.component] = target

    def _exchange(self, lead: Lead, after: Environment) -> None:
        """Puts the message sent into its buffer, or takes the oldest one out."""
        sync = lead.mover.edge.sync
        if sync is None:
            return
        position, channel = self._names.channels[sync.channel]
        if channel.kind is not ChannelKind.BUFFER:
            return
        queue = position + flatten(channel.shape, lead.indices)
        if isinstance(sync, Send):
            after.queues[queue] = (*after.queues[queue], lead.message)
        else:
            after.queues[queue] = after.queues[queue][1:]

    def _stop_and_start(self, movers: tuple[Mover, ...], after: Environment) -> None:
        """Joins and kills of all movers come before the forks of any."""
        for mover in movers:
            for name in (*mover.edge.join, *mover.edge.kill):
                component = self._names.components[name]
                after.locations[component] = IDLE
                self._reset_variables(component, after)
        for mover in movers:
            for fork in mover.edge.fork:
                component = self._names.components[fork.component]
                if after.locations[component] != IDLE:
                    raise ModelFault(f"{fork.component} is forked but is not idle", mover.edge.span)
                after.locations[component] = start_location(
                    self.network.components[component], fork.location
                )
                self._reset_variables(component, after)

    def _reset_variables(self, component: int, after: Environment) -> None:
        for variable in self.network.components[component].variables:
            position, _ = self._names.variables[variable.name]
            after.values[position : position + len(variable.initial)] = variable.initial

    def _invariants_hold(self, after: Environment) -> bool:
        for component, at in zip(self.network.components, after.locations, strict=True):
            invariant = None if at == IDLE else component.locations[at].invariant
            if invariant is not None and not evaluate(invariant, after, {}):
                return False
        return True

    def _process(self, components: Iterable[int]) -> str:
        return ", ".join(self.network.components[component].name for component in components)

    # Priority.

    def _prioritise(self, state: State, steps: list[Taken], failures: list[Failed]) -> Expansion:
        first = self._components_at(state, LocationKind.COMMITTED)
        if first:
            return Expansion(
                tuple(step for step in steps if _moves(step, first)),
                tuple(failure for failure in failures if first.intersection(failure.components)),
            )
        atomic = self._components_at(state, LocationKind.ATOMIC)
        early = tuple(step for step in steps if self._goes_first(step, atomic))
        if not early:
            return Expansion(tuple(steps), tuple(failures))
        return Expansion(
            early, tuple(failure for failure in failures if self._fails_first(failure, atomic))
        )

    def _goes_first(self, step: Taken, atomic: frozenset[int]) -> bool:
        return any(i in atomic and not self.network.components[i].edges[e].late for i, e in step.movers)

    def _fails_first(self, failure: Failed, atomic: frozenset[int]) -> bool:
        """Whether a mover of the failing action would go first; of its leader we know the edge."""
        action = self.actions[failure.action]
        late = self.network.components[action.leader].edges[action.edge].late
        return bool(atomic.intersection(failure.components) - ({action.leader} if late else set()))

    def _components_at(self, state: State, kind: LocationKind) -> frozenset[int]:
        return frozenset(
            i
            for i, at in enumerate(state.locations)
            if at != IDLE and self.network.components[i].locations[at].kind is kind
        )


def _moves(step: Taken, components: frozenset[int]) -> bool:
    return any(component in components for component, _ in step.movers)


def _arguments(action: Action, before: Environment, scope: Scope) -> tuple[int, ...]:
    return tuple(evaluate(argument, before, scope) for argument in action.label.arguments)


def _label_of_failure(action: Action, before: Environment, scope: Scope) -> str:
    """The label with its arguments, or its bare name where they fault themselves."""
    try:
        return render_label(action.label.name, _arguments(action, before, scope))
    except ModelFault:
        return action.label.name


def _as_data(fault: ModelFault) -> Fault:
    return Fault(fault.message, fault.span)


@dataclass(frozen=True, slots=True)
class Exploration:
    """What a whole search found; `complete` unless the bound on states stopped it.

    `depth` is the greatest distance of a state from the initial one. Only states that were expanded
    count for `transitions` and `failures`. A state with a failure is neither a deadlock nor
    terminated.
    """

    states: set[State]
    transitions: int
    depth: int
    deadlocks: set[State]
    terminated: set[State]
    failures: list[tuple[State, Failed]]
    complete: bool


def explore(network: Network, state_count_max: int) -> Exploration:
    """Every state that can be reached, breadth first, past failures too, up to the bound."""
    interpreter = Interpreter(network)
    start = interpreter.initial()
    found = Exploration({start}, 0, 0, set(), set(), [], True)
    transitions, depth = 0, 0
    frontier = [start]
    while frontier:
        following: list[State] = []
        for state in frontier:
            expansion = interpreter.expand(state)
            transitions += len(expansion.steps)
            found.failures.extend((state, failure) for failure in expansion.failures)
            if not expansion.steps and not expansion.failures:
                ended = interpreter.is_terminated(state)
                (found.terminated if ended else found.deadlocks).add(state)
            for step in expansion.steps:
                if step.state in found.states:
                    continue
                if len(found.states) == state_count_max:
                    depth += 1 if following else 0
                    return replace(found, transitions=transitions, depth=depth, complete=False)
                found.states.add(step.state)
                following.append(step.state)
        depth += 1 if following else 0
        frontier = following
    return replace(found, transitions=transitions, depth=depth)
