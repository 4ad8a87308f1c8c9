"""Steps of components that move together, and priorities; derived by hand."""

from __future__ import annotations

from tests.unit.ir.small_networks import (
    ATOMIC,
    BAD,
    CAST,
    COMMITTED,
    PAIR,
    PAIRS,
    V,
    W,
    add,
    at,
    barrier,
    faults,
    go,
    hear,
    labels,
    meet,
    network,
    outcomes,
    process,
    set_v,
)
from veristream.ir.expr import (
    FALSE,
    TRUE,
    Assign,
    Binary,
    Const,
    Expr,
    Local,
)
from veristream.ir.network import (
    Bind,
    Edge,
    Label,
    Match,
    Meet,
    Receive,
    Select,
    Send,
)
from veristream.ir.state import State

# Rendezvous.


def test_a_sender_moves_with_one_receiver_and_updates_first() -> None:
    send = Edge("x", "y", sync=Send("c", (), (Const(7),)), update=set_v(Const(2)))
    receive = Edge("x", "y", sync=Receive("c", (), (Bind("r"),)), update=(Assign(W, add(Local("r"), V)),))
    model = network(process("R", receive), process("P", send), process("S", receive), channels=(PAIR,))
    assert outcomes(model) == [
        ("c(7)", "P, R", State((2, 9), (), (1, 1, 0))),
        ("c(7)", "P, S", State((2, 9), (), (0, 1, 1))),
    ]


def test_a_component_does_not_meet_itself() -> None:
    edges = (Edge("x", "y", sync=Send("c", (), (V,))), Edge("x", "y", sync=Receive("c", (), (Bind("r"),))))
    assert outcomes(network(process("P", *edges), channels=(PAIR,))) == []


def test_indices_and_demands_must_agree() -> None:
    send = Edge("x", "y", select=(Select("i", 0, 2),), sync=Send("c", (Local("i"),), (Local("i"),)))
    receive = Edge(
        "x",
        "y",
        select=(Select("j", 1, 3),),
        sync=Receive("c", (Local("j"),), (Match(add(V, Const(2))),)),
    )
    model = network(process("P", send), process("R", receive), channels=(PAIRS,))
    assert labels(model) == ["c(2, 2)"]
    assert faults(model) == []  # 3 is not an index of c, but no sender uses it either


def test_follower_choices_turn_within_those_of_the_leader() -> None:
    send = Edge("x", "x", select=(Select("i", 0, 1),), sync=Send("c", (), (Local("i"),)))
    receive = Edge(
        "x",
        "x",
        label=Label("got", (Local("r"), Local("j"))),
        select=(Select("j", 0, 1),),
        sync=Receive("c", (), (Bind("r"),)),
    )
    model = network(process("P", send), process("R", receive), channels=(PAIR,))
    assert labels(model) == ["got(0, 0)", "got(0, 1)", "got(1, 0)", "got(1, 1)"]


def test_the_tests_of_a_pair_go_from_leader_to_follower() -> None:
    def pair(guard: Expr, index: Expr, match: Expr) -> list[tuple[str, str, str]]:
        send = go(guard=guard, sync=Send("c", (V,), (V,)))
        receive = Edge("x", "y", guard=BAD, sync=Receive("c", (index,), (Match(match),)))
        return faults(network(process("P", send), process("R", receive), channels=(PAIRS,)))

    failure = ("go", "P, R", "division by zero")
    assert pair(FALSE, BAD, BAD) == []
    assert pair(TRUE, BAD, BAD) == [failure]
    assert pair(TRUE, add(V, Const(1)), BAD) == []
    assert pair(TRUE, V, add(V, Const(1))) == []
    assert pair(TRUE, V, V) == [failure]


def test_a_leader_without_a_ready_follower_is_not_tested() -> None:
    send = go(guard=BAD, sync=Send("c", (), (V,)))
    receive = Edge("y", "x", sync=Receive("c", (), (Bind("r"),)))
    assert faults(network(process("P", send), process("R", receive), channels=(PAIR,))) == []


# Broadcast.


def test_a_broadcast_needs_nobody() -> None:
    model = network(process("P", go(sync=Send("c", (), (V,)))), channels=(CAST,))
    assert outcomes(model) == [("go", "P", State((0, 0), (), (1,)))]


def test_every_combination_of_receiving_edges_is_a_step() -> None:
    append = (Assign(V, add(Binary("*", V, Const(2)), Local("r"))),)
    first = process("A", hear(update=append), hear(target="x", update=set_v(Const(9))))
    sender = process("P", go(sync=Send("c", (), (Const(3),)), update=set_v(Const(1))))
    deaf = process("D", hear(guard=FALSE), hear(source="y"))
    last = process("B", hear(select=(Select("i", 0, 1),), update=(Assign(W, Local("i")),)))
    model = network(first, sender, deaf, last, channels=(CAST,))
    assert outcomes(model) == [
        ("go", "P, A, B", State((5, 0), (), (1, 1, 0, 1))),
        ("go", "P, A, B", State((5, 1), (), (1, 1, 0, 1))),
        ("go", "P, A, B", State((9, 0), (), (0, 1, 0, 1))),
        ("go", "P, A, B", State((9, 1), (), (0, 1, 0, 1))),
    ]


def test_receivers_are_tested_in_the_state_before() -> None:
    sender = process("P", go(sync=Send("c", (), (V,)), update=set_v(Const(1))))
    model = network(sender, process("A", hear(guard=V)), channels=(CAST,))
    assert outcomes(model) == [("go", "P", State((1, 0), (), (1, 0)))]


def test_a_fault_of_a_receiver_fails_the_broadcast() -> None:
    sender = process("P", go(sync=Send("c", (), (V,))))
    model = network(sender, process("A", hear(guard=BAD)), channels=(CAST,))
    assert outcomes(model) == []
    assert faults(model) == [("go", "P", "division by zero")]


# Barriers.


def test_all_of_a_vector_move_the_first_leading_the_others_in_order() -> None:
    vectors = barrier(("C", "B", "A"), ("A", "B"))
    model = network(meet("A", 1), meet("B", 0), meet("C", 1), channels=(vectors,))
    assert outcomes(model) == [
        ("c", "A, B", State((2, 0), (), (1, 1, 0))),  # 1, then 1 * 2 + 0
        ("c", "C, A, B", State((6, 0), (), (1, 1, 1))),  # 1, then 1 * 2 + 1, then 3 * 2 + 0
    ]


def test_a_barrier_waits_for_all() -> None:
    model = network(
        meet("A", 1), meet("B", 1, guard=FALSE), meet("C", 1), channels=(barrier(("A", "B", "C")),)
    )
    assert outcomes(model) == []


def test_the_indices_of_a_meeting_must_agree() -> None:
    edge = Edge("x", "y", select=(Select("i", 0, 1),), sync=Meet("c", (Local("i"),)))
    model = network(process("A", edge), process("B", edge), channels=(barrier(("A", "B"), shape=(2,)),))
    assert labels(model) == ["c(0)", "c(1)"]


def test_the_leader_of_a_barrier_is_tested_once_all_are_ready() -> None:
    model = network(meet("A", 1, guard=BAD), meet("B", 1, source="y"), channels=(barrier(("A", "B")),))
    assert faults(model) == []
    ready = network(meet("A", 1, guard=BAD), meet("B", 1), channels=(barrier(("A", "B")),))
    assert faults(ready) == [("c", "A, B", "division by zero")]


def test_a_follower_that_cannot_meet_ends_the_tests() -> None:
    vectors = barrier(("A", "B", "C"))
    model = network(meet("A", 1), meet("B", 1, guard=FALSE), meet("C", 1, guard=BAD), channels=(vectors,))
    assert faults(model) == []
    model = network(meet("A", 1), meet("B", 1, guard=BAD), meet("C", 1, guard=FALSE), channels=(vectors,))
    assert faults(model) == [("c", "A, B, C", "division by zero")]


# Priority.


def test_only_steps_out_of_a_committed_location_exist() -> None:
    model = network(
        process("A", go("a")), at("B", COMMITTED, go("b"), go("self", target="x")), at("C", ATOMIC, go("c"))
    )
    assert labels(model) == ["b", "self"]


def test_a_stuck_committed_component_stops_everything() -> None:
    model = network(process("A", go("a"), go("bad", guard=BAD)), at("B", COMMITTED))
    assert outcomes(model) == []
    assert faults(model) == []


def test_an_atomic_component_goes_first_where_it_can() -> None:
    model = network(process("A", go("a"), go("bad", guard=BAD)), at("B", ATOMIC, go("b", guard=V)))
    assert labels(model) == ["a"]
    assert len(faults(model)) == 1
    later = State((1, 0), (), (0, 0))
    assert labels(model, later) == ["b"]
    assert faults(model, later) == []


def test_a_committed_receiver_lets_a_pair_or_broadcast_go() -> None:
    send = go("c", sync=Send("c", (), (V,)))
    for channel in (PAIR, CAST):
        model = network(process("A", send, go("a")), at("B", COMMITTED, hear()), channels=(channel,))
        assert labels(model) == ["c"]


def test_a_broadcast_that_a_committed_component_does_not_hear_waits() -> None:
    send = go("c", sync=Send("c", (), (V,)))
    model = network(process("A", send), at("B", COMMITTED, hear(guard=FALSE)), channels=(CAST,))
    assert outcomes(model) == []


def test_a_failing_broadcast_counts_those_who_might_have_heard_it() -> None:
    send = go("c", guard=BAD, sync=Send("c", (), (V,)))
    near = network(process("A", send), at("B", COMMITTED, hear(guard=FALSE)), channels=(CAST,))
    assert faults(near) == [("c", "A", "division by zero")]
    far = network(process("A", send), at("B", COMMITTED, hear(source="y")), channels=(CAST,))
    assert faults(far) == []


def test_a_failing_update_counts_those_who_moved() -> None:
    send = go("c", sync=Send("c", (), (V,)), update=set_v(Const(10)))
    model = network(process("A", send), at("B", COMMITTED, hear(guard=FALSE)), channels=(CAST,))
    assert faults(model) == []
