"""Broadcasts that a component can receive in many ways: more than a word has bits, or one per channel."""

from __future__ import annotations

import pytest

from tests.unit.languages.timed.lower_texts import error, marked, network
from veristream.ir.expr import TRUE
from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import Always, Property
from veristream.search.engine import check
from veristream.search.limits import Limits

SENDER = "process S(const int i) { state A, B; init A; trans A -> B { sync a[i]!; }; }"
ALONE = "process S() { state A, B; init A; trans A -> B { sync a!; }; }"


def receiver(labels: str, kind: str = "") -> str:
    return f"process R() {{ state A; {kind} init A; trans A -> A {{ {labels} }}; }}"


def array(size: str, labels: str, senders: tuple[int, ...], more: str = "") -> str:
    """Returns a model in which senders use elements of the channel array `a`, and `R` receives."""
    made = " ".join(f"S{number} = S({number});" for number in senders)
    line = ", ".join(f"S{number}" for number in senders)
    return (
        f"broadcast chan a[{size}]; int last, other; {more} {SENDER} {receiver(labels)} {made} "
        f"system {line}, R;"
    )


def alone(labels: str, receivers: str = "R", more: str = "") -> str:
    """Returns a model with one sender on the channel `a`."""
    return f"broadcast chan a; int last, other; {more} {ALONE} {receiver(labels)} system S, {receivers};"


FOUND = {
    # Each sender's number is received, so `last` is the number of the sender that moved last.
    "index": (array("100", "select e : int[0,99]; sync a[e]?; assign last = e;", (99, 70)), 5, 4),
    "index of a type": (
        array("id_t", "select e : id_t; sync a[e]?; assign last = e;", (99, 70), "").replace(
            "broadcast", "typedef int[0,99] id_t; broadcast", 1
        ),
        5,
        4,
    ),
    "index from 1": (
        array("int[1,100]", "select e : int[1,100]; sync a[e]?; assign last = e;", (100,)),
        2,
        1,
    ),
    "index from 40": (
        array("int[40,139]", "select e : int[40,139]; sync a[e]?; assign last = e;", (139,)),
        2,
        1,
    ),
    # 7 is received by nobody; 4 is: A, B of S4 and S7 with `last` 0 or 4.
    "fewer than the channels": (
        array("9", "select e : int[3,5]; sync a[e]?; assign last = e;", (4, 7)),
        4,
        4,
    ),
    # The guard rejects 99.
    "index with a guard": (
        array("100", "select e : int[0,99]; guard e < 99; sync a[e]?; assign last = e;", (99, 70)),
        4,
        4,
    ),
    "computed index": (
        array("100", "select e : int[0,99]; sync a[99 - e]?; assign last = e;", (99, 70)),
        5,
        4,
    ),
    # Besides the index there is a choice of 70 values: 1 + 70 states.
    "index and choice": (
        array("100", "select e : int[0,99], f : int[1,70]; sync a[e]?; assign last = e, other = f;", (9,)),
        71,
        70,
    ),
    "64 choices": (alone("select e : int[1,64]; sync a?; assign last = e;"), 65, 64),
    "65 choices": (alone("select e : int[1,65]; sync a?; assign last = e;"), 66, 65),
    "three words": (alone("select e : int[1,150]; sync a?; assign last = e;"), 151, 150),
    # Only 2 and 130 pass: the words between them are empty.
    "empty words": (
        alone("select e : int[1,150]; guard e == 2 || e == 130; sync a?; assign last = e;"),
        3,
        2,
    ),
    # No value passes, so the sender moves alone.
    "no choice passes": (alone("select e : int[1,150]; guard e > 150; sync a?; assign last = e;"), 2, 1),
    # Both receivers choose one of 70 values: 4,900 combinations of `last` (the second one's) and `other`.
    "two receivers": (
        alone(
            "select e : int[1,70]; sync a?; assign last = e, other = other + 70 * last + e;", "R, Q"
        ).replace("system S", "Q = R(); system S"),
        4901,
        4900,
    ),
    # A committed location: only the sender's step to B is possible, and it takes the receiver along.
    "committed receiver": (
        alone("select e : int[1,70]; sync a?; assign last = e;").replace(
            "state A;  init", "state A; commit A; init"
        ),
        71,
        70,
    ),
}


def explored(model: Network) -> tuple[int, int]:
    """Returns the numbers of states and steps that the interpreter finds."""
    interpreter = Interpreter(model)
    seen, waiting, steps = {interpreter.initial()}, [interpreter.initial()], 0
    while waiting:
        for taken in interpreter.steps(waiting.pop()):
            steps += 1
            if taken.state not in seen:
                seen.add(taken.state)
                waiting.append(taken.state)
    return len(seen), steps


@pytest.mark.parametrize("name", FOUND)
def test_counts(name: str) -> None:
    text, states, transitions = FOUND[name]
    model = network(text)
    (result,) = check(model, [Property("all", Always(TRUE))], Limits())
    assert (result.effort.states, result.effort.transitions) == (states, transitions)
    assert explored(model) == (states, transitions)


def test_a_clock_guard_for_each_selected_channel() -> None:
    text = array(
        "100", "select e : int[0,99]; guard x > 2; sync a[e]?; assign last = e;", (99, 70), "clock x;"
    )
    edges = list(network(text).components[-1].edges)
    assert len(edges) == 200  # for each channel one that receives, and one that stays as x <= 2
    assert all(len(one.clock_guard) == 1 for one in edges)


def test_too_many_ways() -> None:
    assert network(alone("select e : int[1,4096]; sync a?;"))
    wrong = error(alone("select e : int[1,4097]; sync a?;"))
    assert wrong.message == "`R` has 4097 ways to take part in `a`"
    assert "select e : int[1,4097]" in marked(wrong)
    assert wrong.hint == "the limit is 4096; select fewer values, or let them be indices of the channel"
