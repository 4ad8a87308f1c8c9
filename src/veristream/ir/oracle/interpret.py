"""The interpreter: the oracle for tests of kernels and searches.

It follows the semantics in `network` literally, one state at a time; it is written for clarity, not for
speed. It also fixes what that text leaves open:

- A fault in a test fails one choice of the leader's values; a fault in an effect fails one combination of
  movers. Each failure is a separate finding; the other choices still produce their steps.
- A follower's indices are compared with the leader's one by one; an index out of bounds never matches.
- Priority applies to steps, so a failure neither creates nor cancels it, and a failing action that
  priority excludes is not a failure. If a test faults, the movers are not known yet: the leader counts, and
  every other component at the source of an edge that might follow.

For a timed network it computes the steps that the state alone allows, each with its clock bounds and
resets. `timed` implements items 5 to 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
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
    """A step: its action's position in `list_actions`, the movers with their edges, and the next state.

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
    """An action that faulted; `components` are those that moved or could have moved.

    `clocks` has the movers' bounds, unless a test faulted, and no resets.
    """

    action: int
    label: str
    process: str
    fault: Fault
    components: tuple[int, ...]
    clocks: ClockEffect = NO_CLOCKS


@dataclass(frozen=True, slots=True)
class Expansion:
    """The steps and failures of a state, by action, then the leader's choices, then the followers'."""

    steps: tuple[Taken, ...]
    failures: tuple[Failed, ...]


class Interpreter:
    """Expands the states of one network, without a cache."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.actions = list_actions(network)
        self._names = name_parts(network)
        self._led_from: dict[tuple[int, int], list[int]] = {}  # actions by the leader and its location
        for index, action in enumerate(self.actions):
            source = network.components[action.leader].edges[action.edge].source
            place = (action.leader, self._names.locations[action.leader][source])
            self._led_from.setdefault(place, []).append(index)

    def initial(self) -> State:
        """Returns the initial state."""
        return initial_state(self.network)

    def steps(self, state: State) -> list[Taken]:
        """Returns the steps of the state."""
        return list(self.expand(state).steps)

    def failures(self, state: State) -> list[Failed]:
        """Returns the actions that fault in the state."""
        return list(self.expand(state).failures)

    def expand(self, state: State) -> Expansion:
        """Returns the steps and the failures of the state after applying priorities."""
        steps: list[Taken] = []
        failures: list[Failed] = []
        before = thaw(self._names, state)
        led = (self._led_from.get(place, ()) for place in enumerate(state.locations))
        for index in chain.from_iterable(led):  # in the order of the list, which is sorted by leader
            for outcome in self._attempt(index, before):
                if isinstance(outcome, Taken):
                    steps.append(outcome)
                else:
                    failures.append(outcome)
        return self._prioritise(state, steps, failures)

    def value(self, expr: Expr, state: State) -> int:
        """Evaluates the expression in the state; raises ModelFault."""
        return evaluate(expr, thaw(self._names, state), {})

    def holds(self, expr: Expr, state: State, moment: Moment | None = None) -> bool:
        """Evaluates the condition in the state, and at the moment if it is timed; raises ModelFault."""
        env = thaw(self._names, state)
        env.moment = moment
        return evaluate(expr, env, {}) != 0

    def holds_step(self, expr: Expr, before: State, after: State) -> bool:
        """Evaluates the condition, which may contain primes, on the step; raises ModelFault."""
        env = thaw(self._names, before)
        env.after = thaw(self._names, after)
        return evaluate(expr, env, {}) != 0

    def occurs(self, proposition: Occurs | Silent, taken: Taken) -> bool:
        """Returns whether the step satisfies the proposition; names of invisible actions match too."""
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
        """Returns whether all components are idle or at final locations, or `terminal` holds."""
        env = thaw(self._names, state)
        if self.network.terminal is not None and evaluate(self.network.terminal, env, {}):
            return True
        return all(at == IDLE or is_done(env, i) for i, at in enumerate(state.locations))

    def invariant_bounds(self, state: State) -> tuple[Bound, ...]:
        """Returns the bounds of all clock invariants, in the order of the components; raises ModelFault."""
        env = thaw(self._names, state)
        return tuple(
            bound
            for component, at in zip(self.network.components, state.locations, strict=True)
            for constraint in (() if at == IDLE else component.locations[at].clock_invariant)
            for bound in evaluate_constraint(constraint, env, {})
        )

    def bounds(self, constraint: ClockConstraint, state: State) -> tuple[Bound, ...]:
        """Returns the constraint's bounds on clocks in the state; raises ModelFault."""
        return evaluate_constraint(constraint, thaw(self._names, state), {})

    def may_delay(self, state: State) -> bool:
        """Returns whether the state, without its clocks, allows time to pass."""
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
        """Yields the steps and failures of the action before priority."""
        action = self.actions[index]
        for outcome in list_enabled(action, before):
            if isinstance(outcome, Enabled):
                yield from self._perform(index, outcome, before)
            else:
                yield self._fail_test(index, outcome, before)

    # Effects, on a copy of the state.

    def _perform(self, index: int, enabled: Enabled, before: Environment) -> Iterator[Taken | Failed]:
        """Yields the step of these movers or its failure; nothing if an invariant forbids the step."""
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
        """Returns the failure of a test; for a broadcast, only the leader counts."""
        action = self.actions[index]
        possible = list_possible(action, before)
        blamed = possible[:1] if action.movement is Movement.BROADCAST else possible
        receives = isinstance(self.network.components[action.leader].edges[action.edge].sync, Receive)
        label = action.label.name
        if not receives and not action.label_of_follower:  # otherwise the scope lacks the received values
            label = _label_of_failure(action, before, faulted.choice)
        return Failed(index, label, self._process(blamed), _as_data(faulted.fault), possible)

    def _move(self, movers: tuple[Mover, ...], after: Environment) -> None:
        for mover in movers:
            target = self._names.locations[mover.component][mover.edge.target]
            after.locations[mover.component] = target

    def _exchange(self, lead: Lead, after: Environment) -> None:
        """Appends the sent message to its buffer, or removes the oldest one."""
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
        """Performs the joins and kills of all movers, then their forks."""
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
        """Returns whether a mover of the failing action has priority; only the leader's edge is known."""
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
    """Returns the label with its arguments, or only its name if the arguments fault."""
    try:
        return render_label(action.label.name, _arguments(action, before, scope))
    except ModelFault:
        return action.label.name


def _as_data(fault: ModelFault) -> Fault:
    return Fault(fault.message, fault.span)
