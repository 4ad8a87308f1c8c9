"""Random networks: the interpreter handles all of them, and the strategies promise what they say."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.strategies import networks, properties
from veristream.ir.actions import list_actions
from veristream.ir.network import ChannelKind, LocationKind, Network, all_variables
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import Always, Reachable, Temporal, Transition
from veristream.ir.show import show_state
from veristream.ir.state import IDLE, State
from veristream.ir.verify import verify
from veristream_testing.states import explore

STATE_COUNT_MAX = 300

patient = settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))


def _assert_in_range(network: Network, state: State) -> None:
    values = iter(state.values)
    for variable in all_variables(network):
        for _ in variable.initial:
            assert variable.type.low <= next(values) <= variable.type.high, variable.name
    assert next(values, None) is None
    queues = iter(state.queues)
    for channel in network.channels:
        if channel.kind is not ChannelKind.BUFFER:
            continue
        for _ in range(channel.shape[0] if channel.shape else 1):
            contents = next(queues)
            assert len(contents) <= channel.capacity
            for message in contents:
                for value, type_ in zip(message, channel.fields, strict=True):
                    assert type_.low <= value <= type_.high, channel.name
    assert next(queues, None) is None
    for component, at in zip(network.components, state.locations, strict=True):
        assert at == IDLE or 0 <= at < len(component.locations)


@patient
@given(networks())
def test_every_state_of_a_random_network_is_in_range(network: Network) -> None:
    found = explore(network, STATE_COUNT_MAX)
    for state in found.states:
        _assert_in_range(network, state)
        shown = show_state(network, state)
        assert {variable.name for variable in all_variables(network)} <= set(shown)
    event(f"failures: {bool(found.failures)}, deadlocks: {bool(found.deadlocks)}")


@patient
@given(networks())
def test_steps_come_in_order_and_start_where_their_movers_are(network: Network) -> None:
    interpreter = Interpreter(network)
    for state in explore(network, 50).states:
        steps = interpreter.steps(state)
        assert [step.action for step in steps] == sorted(step.action for step in steps)
        for step in steps:
            action = interpreter.actions[step.action]
            assert step.movers[0] == (action.leader, action.edge)
            for component, edge in step.movers:
                owner = network.components[component]
                at = owner.locations[state.locations[component]].name
                assert owner.edges[edge].source == at


@patient
@given(networks())
def test_nothing_overtakes_a_committed_component(network: Network) -> None:
    interpreter = Interpreter(network)

    def is_committed(state: State, component: int) -> bool:
        at = state.locations[component]
        return at != IDLE and network.components[component].locations[at].kind is LocationKind.COMMITTED

    for state in explore(network, 50).states:
        if any(is_committed(state, i) for i in range(len(network.components))):
            for step in interpreter.steps(state):
                assert any(is_committed(state, component) for component, _ in step.movers)


@patient
@given(networks(faults=False))
def test_careful_networks_never_fault(network: Network) -> None:
    assert explore(network, STATE_COUNT_MAX).failures == []


@patient
@given(networks())
def test_random_networks_are_valid(network: Network) -> None:
    verify(network)


@patient
@given(st.data())
def test_random_properties_are_valid_and_can_be_evaluated(data: st.DataObject) -> None:
    network = data.draw(networks(faults=False))
    property_ = data.draw(properties(network))
    verify(replace(network, properties=(property_,)))
    claim = property_.claim
    interpreter = Interpreter(network)
    for state in explore(network, 20).states:
        match claim:
            case Always(condition=condition) | Reachable(condition=condition):
                assert interpreter.holds(condition, state) == (interpreter.value(condition, state) != 0)
            case Transition(condition=condition):
                for step in interpreter.steps(state):
                    assert interpreter.holds_step(condition, state, step.state) in (False, True)
            case Temporal():
                event("temporal")


@patient
@given(networks())
def test_a_failure_says_what_and_whose(network: Network) -> None:
    names = {component.name for component in network.components}
    labels = {action.label.name for action in list_actions(network)}
    for _, failure in explore(network, 100).failures:
        assert failure.fault.message
        assert set(failure.process.split(", ")) <= names
        assert any(failure.label.startswith(name) for name in labels)


def test_strategies_reach_every_kind_of_result() -> None:
    """A strategy that only made dull networks would let all other tests pass."""
    seen: set[str] = set()

    @settings(deadline=None, max_examples=300, derandomize=True, database=None)
    @given(networks())
    def collect(network: Network) -> None:
        found = explore(network, 200)
        seen.update(channel.kind.value for channel in network.channels)
        sizes = {"few" if len(found.states) < 20 else "many"}
        outcomes = {
            "failure": found.failures,
            "deadlock": found.deadlocks,
            "terminated": found.terminated,
            "idle slot": [c for c in network.components if c.idle],
            "moved together": [
                step
                for state in list(found.states)[:20]
                for step in Interpreter(network).steps(state)
                if len(step.movers) > 1
            ],
        }
        seen.update(name for name, found_some in outcomes.items() if found_some)
        seen.update(sizes)

    collect()
    assert seen >= {
        "rendezvous",
        "buffer",
        "broadcast",
        "barrier",
        "few",
        "many",
        "failure",
        "deadlock",
        "terminated",
        "idle slot",
        "moved together",
    }
