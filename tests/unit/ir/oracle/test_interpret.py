"""Steps and failures of single components, and runs; derived by hand from the semantics in `network`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.ir.small_networks import (
    BAD,
    NOT_ZERO,
    V,
    add,
    buffer,
    faults,
    go,
    labels,
    network,
    outcomes,
    process,
    set_v,
    slotted,
)
from veristream.ir.expr import (
    FALSE,
    Assign,
    AtLocation,
    Binary,
    Const,
    Expr,
    IsIdle,
    Load,
    Local,
    Primed,
    Queue,
)
from veristream.ir.network import (
    Bind,
    Component,
    Edge,
    Fork,
    Label,
    Location,
    Match,
    Network,
    Receive,
    Select,
    Send,
)
from veristream.ir.oracle.evaluate import ModelFault
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import Occurs, Silent
from veristream.ir.state import State, initial_state
from veristream_testing.states import explore

# Single components.


def test_an_edge_moves_and_updates() -> None:
    model = network(process("P", go(update=set_v(add(V, Const(3))))))
    assert outcomes(model) == [("go", "P", State((3, 0), (), (1,)))]


def test_a_step_names_its_action_and_movers() -> None:
    model = network(process("P", go("no", guard=FALSE), go("b", label=Label("b", (Const(4), V)))))
    (step,) = Interpreter(model).steps(initial_state(model))
    assert (step.action, step.label, step.arguments, step.movers) == (1, "b(4, 0)", (4, 0), ((0, 1),))


def test_without_a_label_an_edge_is_called_by_its_ends() -> None:
    assert labels(network(process("P", Edge("x", "y")))) == ["x->y"]


def test_selected_values_turn_with_the_last_one_fastest() -> None:
    edge = go(
        select=(Select("i", 0, 1), Select("j", 2, 3)),
        guard=Binary("!=", add(Local("i"), Local("j")), Const(3)),
        label=Label("pick", (Local("i"), Local("j"))),
        update=set_v(Local("j")),
    )
    assert outcomes(network(process("P", edge))) == [
        ("pick(0, 2)", "P", State((2, 0), (), (1,))),
        ("pick(1, 3)", "P", State((3, 0), (), (1,))),
    ]


def test_an_update_of_a_selected_value_reaches_neither_label_nor_other_steps() -> None:
    edge = go(
        select=(Select("i", 0, 1),),
        label=Label("pick", (Local("i"),)),
        update=(Assign(Local("i"), Const(1)), *set_v(Local("i"))),
    )
    expected = State((1, 0), (), (1,))
    assert outcomes(network(process("P", edge))) == [("pick(0)", "P", expected), ("pick(1)", "P", expected)]


def test_label_arguments_are_those_before_the_step() -> None:
    assert labels(network(process("P", go(label=Label("go", (V,)), update=set_v(Const(5)))))) == ["go(0)"]


def test_an_update_sees_the_new_location() -> None:
    model = network(process("P", go(update=set_v(AtLocation("P", "y")))))
    assert outcomes(model)[0][2] == State((1, 0), (), (1,))


# Faults of a single component.


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        (go(guard=BAD), "division by zero"),
        (go(update=set_v(Const(10))), "10 is outside the range 0..9 of v"),
        (go(fork=(Fork("P"),)), "P is forked but is not idle"),
    ],
)
def test_a_fault_is_a_failure_and_no_step(edge: Edge, message: str) -> None:
    model = network(process("P", edge))
    assert outcomes(model) == []
    assert faults(model) == [("go", "P", message)]


def test_a_fault_in_the_label_is_a_failure_with_its_bare_name() -> None:
    model = network(process("P", go(label=Label("go", (BAD,)))))
    assert outcomes(model) == []
    assert faults(model) == [("go", "P", "division by zero")]


def test_only_the_choice_that_faults_fails() -> None:
    edge = go(
        select=(Select("i", 0, 1),),
        guard=Binary("div", Const(1), Local("i")),
        label=Label("go", (Local("i"),)),
    )
    model = network(process("P", edge))
    assert labels(model) == ["go(1)"]
    assert faults(model) == [("go(0)", "P", "division by zero")]


def test_an_edge_that_is_not_ready_is_not_tested() -> None:
    model = network(process("P", Edge("y", "x", guard=BAD)), process("Q", go(guard=BAD, join=("P",))))
    assert faults(model) == []


# Buffers.


def test_a_send_appends_what_was_so_before() -> None:
    sync = Send("q", (), (Const(4), add(V, Const(1))))
    model = network(
        process("P", Edge("x", "x", sync=sync, update=set_v(Queue("len", "q")))), channels=(buffer(),)
    )
    (first,) = outcomes(model)
    assert first == ("q!4.1", "P", State((1, 0), (((4, 1),),), (0,)))
    (second,) = outcomes(model, first[2])
    assert second == ("q!4.2", "P", State((2, 0), (((4, 1), (4, 2)),), (0,)))
    assert outcomes(model, second[2]) == []
    assert faults(model, second[2]) == []


def test_a_full_buffer_can_be_a_fault() -> None:
    sync = Send("q", (Const(1),), (BAD, BAD))
    channel = buffer(shape=(2,), capacity=1, overflow_faults=True)
    model = network(process("P", go(sync=sync)), channels=(channel,))
    full = State((0, 0), ((), ((1, 1),)), (0,))
    assert faults(model, full) == [("go", "P", "the queue q[1] is full (capacity 1)")]


def test_a_full_buffer_ends_the_tests() -> None:
    model = network(process("P", go(sync=Send("q", (), (BAD, BAD)))), channels=(buffer(capacity=1),))
    assert faults(model, State((0, 0), (((1, 1),),), (0,))) == []
    assert faults(model) == [("go", "P", "division by zero")]


def test_a_guard_comes_before_the_index_of_a_send() -> None:
    sync = Send("q", (Const(2),), (V, V))
    model = network(
        process("P", go("a", sync=sync), go("b", guard=FALSE, sync=sync)), channels=(buffer(shape=(2,)),)
    )
    assert faults(model) == [("a", "P", "index 2 is outside 0..1 of q")]


def test_a_sent_value_must_fit_its_field() -> None:
    model = network(process("P", go(sync=Send("q", (), (V, Const(10))))), channels=(buffer(),))
    assert faults(model) == [("go", "P", "10 is outside the range 0..9 of part 1 of q")]


def receiver(*patterns: Bind | Match, guard: Expr | None = None) -> Network:
    edge = Edge("x", "y", guard=guard, sync=Receive("q", (), patterns), update=set_v(Queue("len", "q")))
    return network(process("P", edge), channels=(buffer(),))


def test_a_receive_takes_the_oldest_message() -> None:
    state = State((0, 0), (((4, 5), (6, 7)),), (0,))
    model = receiver(Bind("a"), Match(Const(5)), guard=Binary("==", Local("a"), Const(4)))
    assert outcomes(model, state) == [("q?4.5", "P", State((1, 0), (((6, 7),),), (1,)))]


@pytest.mark.parametrize(
    ("model", "failing"),
    [
        (receiver(Match(Const(6)), Match(BAD)), False),  # the first field differs: the second is not tested
        (receiver(Match(Const(4)), Match(BAD)), True),
        (receiver(Bind("a"), Match(Const(6)), guard=BAD), False),
        (receiver(Bind("a"), Bind("b"), guard=BAD), True),
        (receiver(Bind("a"), Bind("b"), guard=Binary(">", Local("b"), Local("a"))), None),
    ],
)
def test_a_receive_tests_field_by_field_and_then_its_guard(model: Network, failing: bool | None) -> None:
    state = State((0, 0), (((4, 5),),), (0,))
    assert bool(outcomes(model, state)) == (failing is None)
    assert bool(faults(model, state)) == bool(failing)


def test_a_receive_from_an_empty_buffer_is_not_tested() -> None:
    model = receiver(Match(BAD), Match(BAD), guard=BAD)
    assert outcomes(model) == []
    assert faults(model) == []


# Fork, join and kill.


def test_a_forked_component_starts_fresh_and_before_the_update() -> None:
    model = slotted(go(fork=(Fork("S"),), update=(Assign(Load("S.n", (Const(1),)), AtLocation("S", "x")),)))
    start = State((0, 0, 7, 7), (), (0, -1))
    assert outcomes(model, start) == [("go", "P", State((0, 0, 1, 1), (), (1, 0)))]


def test_a_join_waits_until_the_component_is_done_and_clears_it() -> None:
    model = slotted(go(join=("S",)))
    assert outcomes(model) == []
    assert labels(model, State((0, 0, 1, 2), (), (0, 0))) == ["work"]
    done = State((0, 0, 5, 2), (), (0, 1))
    assert outcomes(model, done) == [("go", "P", State((0, 0, 1, 2), (), (1, -1)))]


def test_a_kill_stops_a_component_anywhere() -> None:
    model = slotted(go(kill=("S",)))
    assert outcomes(model, State((0, 0, 5, 2), (), (0, 0)))[0] == (
        "go",
        "P",
        State((0, 0, 1, 2), (), (1, -1)),
    )
    assert outcomes(model)[0] == ("go", "P", State((0, 0, 1, 2), (), (1, -1)))


def test_a_fork_faults_unless_the_slot_is_idle_by_then() -> None:
    running = State((0, 0, 5, 2), (), (0, 0))
    assert faults(slotted(go(fork=(Fork("S"),))), running) == [("go", "P", "S is forked but is not idle")]
    again = slotted(go(kill=("S",), fork=(Fork("S"),)))
    assert outcomes(again, running)[0] == ("go", "P", State((0, 0, 1, 2), (), (1, 0)))
    guarded = slotted(go(guard=IsIdle("S"), fork=(Fork("S"),)))
    assert faults(guarded, running) == []


# Invariants.


def bounded(*edges: Edge, invariant: Expr) -> Component:
    return process("P", *edges, locations=(Location("x"), Location("y", invariant=invariant)))


def test_a_step_that_breaks_an_invariant_does_not_exist() -> None:
    invariant = Binary("<", V, Const(2))
    edges = [go(f"to{n}", update=set_v(Const(n))) for n in range(4)]
    assert labels(network(bounded(*edges, invariant=invariant))) == ["to0", "to1"]


def test_an_invariant_binds_the_steps_of_others() -> None:
    model = network(bounded(invariant=Binary("<", V, Const(1))), process("Q", go(update=set_v(Const(1)))))
    assert labels(model) == ["go"]
    assert labels(model, State((0, 0), (), (1, 0))) == []


def test_a_broken_invariant_ends_the_tests() -> None:
    first = replace(bounded(invariant=FALSE), name="A", initial="y")
    second = replace(bounded(invariant=BAD), name="B", initial="y")
    mover = process("Q", go(label=Label("go", (BAD,))))
    assert faults(network(first, second, mover)) == []
    assert faults(network(second, first, mover)) == [("go", "Q", "division by zero")]


# Properties.


def test_propositions() -> None:
    edges = (go("b", label=Label("b", (Const(1), Const(2)))), go("tau", visible=False))
    model = network(process("P", *edges))
    interpreter = Interpreter(model)
    visible, silent = interpreter.steps(interpreter.initial())
    assert [interpreter.occurs(Silent(), step) for step in (visible, silent)] == [False, True]
    wanted: dict[tuple[int | None, ...] | None, bool] = {
        None: True,
        (1, 2): True,
        (None, 2): True,
        (1, 1): False,
        (1,): False,
    }
    for arguments, expected in wanted.items():
        assert interpreter.occurs(Occurs("b", arguments), visible) is expected
    assert not interpreter.occurs(Occurs("a"), visible)
    assert interpreter.occurs(Occurs("tau"), silent)


def test_conditions_of_states_and_steps() -> None:
    interpreter = Interpreter(network(process("P", go(update=set_v(Const(3))))))
    start = interpreter.initial()
    (step,) = interpreter.steps(start)
    assert interpreter.value(add(V, Const(1)), step.state) == 4
    assert interpreter.holds(V, step.state)
    assert not interpreter.holds(V, start)
    grows = Binary("<", V, Primed(V))
    assert interpreter.holds_step(grows, start, step.state)
    assert not interpreter.holds_step(grows, step.state, start)


def test_a_fault_in_a_property_is_not_a_truth_value() -> None:
    interpreter = Interpreter(network())
    with pytest.raises(ModelFault, match="division by zero"):
        interpreter.holds(NOT_ZERO, interpreter.initial())


# Exploration.


def test_exploration_of_two_independent_components() -> None:
    back_and_forth = (Edge("x", "y"), Edge("y", "x"))
    found = explore(network(process("P", *back_and_forth), process("Q", *back_and_forth)), 100)
    assert (len(found.states), found.transitions, found.depth) == (4, 8, 2)
    assert found.complete
    assert not found.deadlocks
    assert not found.terminated


def test_ends_are_told_apart() -> None:
    places = (Location("x"), Location("y", final=True))
    stay = go(target="x", guard=Binary("==", V, Const(0)), update=set_v(Const(1)))
    model = network(process("P", go(), stay, locations=places), process("Q", go(), locations=places))
    found = explore(model, 100)
    assert found.terminated == {State((0, 0), (), (1, 1)), State((1, 0), (), (1, 1))}
    assert found.deadlocks == set()
    stuck = explore(network(process("P", go())), 100)
    assert stuck.deadlocks == {State((0, 0), (), (1,))}
    idle = explore(slotted(go(guard=FALSE)), 100)
    assert idle.deadlocks == {State((0, 0, 1, 2), (), (0, -1))}


def test_a_state_that_only_fails_is_no_deadlock() -> None:
    found = explore(network(process("P", go(guard=BAD))), 100)
    assert len(found.failures) == 1
    assert not found.deadlocks
    assert not found.terminated


def test_exploration_stops_at_its_bound() -> None:
    count = Edge("x", "x", guard=Binary("<", V, Const(9)), update=set_v(add(V, Const(1))))
    model = network(process("P", count))
    assert (len(explore(model, 10).states), explore(model, 10).complete) == (10, True)
    bounded_search = explore(model, 4)
    assert (len(bounded_search.states), bounded_search.complete, bounded_search.depth) == (4, False, 3)
