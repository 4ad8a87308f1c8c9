"""Whole arrays as arguments of processes and as messages.

An array is passed by value, element by element. A comment before each text derives its states and steps.
"""

from __future__ import annotations

import pytest

from tests.csp.texts import counts, network_of, read
from veristream.errors import ModelError
from veristream.ir.oracle.interpret import Interpreter
from veristream.languages.csp.lower.network import read_models
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.source import Source
from veristream.verdict import Violated

ARRAYS = {
    # P() -e.3-> Stop: Q([3, 1, 2]) reads its first element.
    "constant": ("Q(x) = e.x[0] -> Stop; P() = Q([3, 1, 2]);", (2, 1)),
    # The values of a are read when Q takes its step: P() -s-> Q(a) -e.7-> Stop.
    "global": ("var a = [5, 6]; Q(x) = e.x[1] -> Stop; P() = s{a[1] = 7;} -> Q(a);", (3, 2)),
    # The copy keeps the old value: s sets a[0] after Q(a) has taken a step. P() k s e.5.
    "by value": ("var a = [5, 6]; Q(x) = k -> s{a[0] = 9;} -> e.x[0] -> Stop; P() = Q(a);", (4, 3)),
    # The index is known only at run time: i = 0, 1, 2, then x[i] would be outside, but i < 3 fails.
    "index": ("var i = 0; Q(x) = [i < 3] e.x[i]{i = i + 1;} -> Q(x); P() = Q([4, 4, 2]);", (4, 3)),
    # x[x[i]] for i = 0, 1, 2.
    "nested index": (
        "var i = 0; Q(x) = [i < 3] e.x[x[i]]{i = i + 1;} -> Q(x); P() = Q([1, 2, 0]);",
        (4, 3),
    ),
    # Q passes its array on to R, which passes its elements in another order: 3 rotations.
    "passed on": ("P() = Q([1, 2, 3]); Q(x) = e.x[0] -> R(x); R(y) = f -> Q([y[1], y[2], y[0]]);", (7, 7)),
    # c!1.2 and c?1.2 by turns, with a.2 between: P(), full, e.2 -> P().
    "buffer": ("channel c 1; var a = [1, 2]; P() = c!a -> c?x -> e.x[1] -> P();", (3, 3)),
    # One step c.1.2, then e.1 and s (which changes a) in any order; then deadlock.
    "rendezvous": (
        """channel c 0; var a = [1, 2]; Q() = c!a -> s{a[0] = 8;} -> Stop; R() = c?x -> e.x[0] -> Stop;
        P() = Q() ||| R();""",
        (5, 5),
    ),
    # A number and an array in one message.
    "two fields": ("channel c 1; var a = [1, 2]; P() = c!7.a -> c?n.x -> e.n.x[0] -> P();", (3, 3)),
    "literal": ("channel c 1; P() = c![4, 5(2)] -> c?x -> e.x[2] -> P();", (3, 3)),
    # The received array is copied to a and sent on. Five places; the first two once more with a = [0, 0].
    "received and sent on": (
        "channel c 1; channel d 1; var a[2]; P() = c![1, 2] -> c?x{a = x;} -> d!x -> d?y -> e.y[1] -> P();",
        (7, 7),
    ),
    # The guard compares an element of the message: only the second message is taken.
    "condition": (
        "channel c 1; P() = c![1, 2] -> c?[x[0] == 2]x -> Stop [] d -> c![2, 2] -> c?[x[0] == 2]x -> Stop;",
        (5, 4),
    ),
    # A matrix: x[1][0] is its third element.
    "two dimensions": (
        "var m[2][2]; Q(x) = e.x[1][0] -> f.x[3] -> Stop; P() = s{m[1][0] = 4; m[1][1] = 5;} -> Q(m);",
        (4, 3),
    ),
    # Two processes with an array each.
    "replicated": ("Q(i, x) = e.i.x[i] -> Skip; P() = |||i:{0..1}@Q(i, [6, 7]);", (5, 5)),
    "in a program": (
        """var s = 0; Q(x) = e{var k = 0; while (k < 3) {s = s + x[k]; k = k + 1;}} -> [s == 6] f -> Stop;
        P() = Q([1, 2, 3]);""",
        (3, 2),
    ),
}


@pytest.mark.parametrize(("text", "expected"), ARRAYS.values(), ids=ARRAYS)
def test_arrays_are_passed_and_sent(text: str, expected: tuple[int, int]) -> None:
    assert counts(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "Q(x) = e.x[0] -> Stop; P() = Q([1, 2]) ||| Q([1, 2, 3]);",
            "3 elements, but one of 2 is expected",
        ),
        (
            "Q(x) = e.x[0] -> Stop; P() = Q([1, 2]) ||| Q(1);",
            "an array of 2 elements is passed here elsewhere",
        ),
        ("Q(x) = e.x[2] -> Stop; P() = Q([1, 2]);", "index 2 is outside 0..1 of `x`"),
        ("Q(x) = e.x -> Stop; P() = Q([1, 2]);", "`x` is an array"),
        ("Q(x) = e.x[0][1] -> Stop; P() = Q([1, 2]);", "`x` takes 1 indices, not 2"),
        ("Q(x) = e{x[0] = 1;} -> Stop; P() = Q([1, 2]);", "is a parameter or received value"),
        ("channel c 1; P() = c![1, 2] -> c!3 -> Stop;", "an array of 2 elements is passed here elsewhere"),
        ("var a[3]; channel c 1; P() = c![1, 2] -> c?x{a = x;} -> Stop;", "`a` has 3 elements"),
        ("var a[3]; P() = e.a -> Stop;", "`a` is an array"),
        ("P() = e.[1, 2] -> Stop;", "unexpected"),
    ],
)
def test_what_is_wrong_with_an_array(text: str, message: str) -> None:
    with pytest.raises(ModelError) as raised:
        read(text)
    assert message in str(raised.value)


def test_an_index_outside_of_an_array_is_a_run_time_error() -> None:
    network = network_of("var i = 2; Q(x) = e.x[i] -> Stop; P() = Q([1, 2]);")
    interpreter = Interpreter(network)
    (failure,) = interpreter.expand(interpreter.initial()).failures
    assert failure.fault.message == "an index is outside of the array"


def test_an_assertion_passes_an_array() -> None:
    text = "Q(x) = e.x[0] -> Q([x[1], x[0]]); #assert Q([3, 5]) |= [] !e.5; #assert Q([3, 5]) deadlockfree;"
    (network,) = read_models(Source("m.csp", text), {})
    first, second = check(network, network.properties, Limits())
    assert isinstance(first.verdict, Violated)
    assert (second.effort.states, second.effort.transitions) == (2, 2)
