"""Code that never runs may write what no range foresaw: ranges that are inferred are never a user's error.

A comment after each text derives its states and steps.
"""

from __future__ import annotations

import pytest

from tests.csp.texts import counts, network_of
from veristream.errors import ModelError
from veristream.languages.csp.lower.network import read_models
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.source import Source
from veristream.verdict import Holds, Unknown, Violated

DEAD = {
    # P() with its b forever.
    "scalar": ("var x = 0; P() = [x == 1] a{x = 2;} -> P() [] b -> P();", (1, 1)),
    "hidden": ("hvar x = 0; P() = [x > 3] a{x = -4;} -> P() [] b -> P();", (1, 1)),
    "truth": ("var x = false; P() = [x] a{x = 7;} -> P() [] b -> P();", (1, 1)),
    "element": ("var x = 0; var a[3]; P() = [x == 1] a{a[1] = 7;} -> P() [] b -> P();", (1, 1)),
    "row": ("var x = 0; var a[2][2]; P() = [x > 1] a{a[1][0] = -7;} -> P() [] b -> P();", (1, 1)),
    "increment": ("var x = 0; P() = [x == 1] a{x++;} -> P() [] b -> P();", (1, 1)),
    "sum": ("var x = 0; P() = [x == 1] a{x = 3 + 4 * 5;} -> P() [] b -> P();", (1, 1)),
    "chained": ("var x = 0; var y = 0; P() = [x == 1] a{x = y = 9;} -> P() [] b -> P();", (1, 1)),
    "local": ("var x = 0; P() = [x == 1] a{var l = 8; x = l;} -> P() [] b -> P();", (1, 1)),
    "silent": ("var x = 0; P() = [x == 1] {x = 2;} -> P() [] b -> P();", (1, 1)),
    # The program runs, the branch or the loop in it does not: P() with a and b.
    "if": ("var x = 0; var y = 0; P() = a{if (x == 1) {y = 5;}} -> P() [] b -> P();", (1, 2)),
    "while": (
        "var x = 0; var y = 0; P() = a{while (x == 1) {y = 5; x = x + 3;}} -> P() [] b -> P();",
        (1, 2),
    ),
    # y becomes 1 once: two values of y, each with a and b.
    "else": (
        "var x = 0; var y = 0; P() = a{if (x == 1) {y = 5;} else {y = 1;}} -> P() [] b -> P();",
        (2, 4),
    ),
    # Messages: the buffer stays empty; or holds 0, 1 or 2 messages of the value 1.
    "message": ("var x = 0; channel c 2; P() = [x == 1] c!9 -> P() [] b -> P();", (1, 1)),
    "second field": (
        "var x = 0; channel c 2; P() = c!1.0 -> P() [] [x == 1] c!1.9 -> P() [] b -> P();",
        (3, 5),
    ),
    "channel of an array": (
        "var x = 0; channel c[2] 1; P() = [x == 1] c[1]!-3 -> P() [] b -> P();",
        (1, 1),
    ),
    # S() -c.1-> the same with x = 3 forever. The first state is the reference S().
    "rendezvous": (
        """channel c 0; var x = 0; Q() = [x == 1] c!9 -> Q() [] c!1 -> Q();
        R() = c?y{x = y + 2;} -> R(); P() = Q() ||| R();""",
        (2, 2),
    ),
    # P(0), P(1), ..., P(99), each with one b; a is impossible.
    "argument": (
        "var x = 0; Q(i) = [x == 1] a -> Q(500) [] b.i -> Q((i + 1) % 100); P() = Q(0);",
        (101, 101),
    ),
    # Conditions of parameters decide which elements a program touches: P(2) writes nothing.
    # Three independent Q(i), each done or not: 8 states, the end after all three; 12 steps and the end.
    "index": (
        "var a[3]; Q(i) = e.i{if (i < 2) {a[i + 1] = 1;}} -> Skip; P() = |||i:{0..2}@Q(i);",
        (9, 13),
    ),
    "index of a loop": (
        """var a[3]; Q(i) = e.i{while (i < 2 && a[i + 1] == 0) {a[i + 1] = 1;}} -> Skip;
        P() = |||i:{0..2}@Q(i);""",
        (9, 13),
    ),
}


@pytest.mark.parametrize(("text", "expected"), DEAD.values(), ids=DEAD)
def test_code_that_never_runs_is_no_error(text: str, expected: tuple[int, int]) -> None:
    assert counts(text) == expected


def test_ranges_are_inferred_through_chains_of_any_length() -> None:
    # The value 7 needs one round of the inference for each variable of the chain.
    length = 60
    variables = "".join(f"var x{at} = 0; " for at in range(length))
    steps = [
        f"[k == {at}] e{at}{{x{at} = x{at - 1}; k = {at + 1};}} -> P()" for at in range(length - 1, 0, -1)
    ]
    text = f"var k = 0; {variables}P() = {' [] '.join(steps)} [] [k == 0] e0{{x0 = 7; k = 1;}} -> P();"
    assert counts(text) == (length + 1, length)
    last = network_of(text).variables[-1]
    assert (last.name, last.type.low, last.type.high) == (f"x{length - 1}", 0, 7)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("var x:{0..2} = 0; P() = [x == 1] a{x = 5;} -> P();", "5 is outside the range 0..2 of `x`"),
        ("hvar x:{0..2} = 0; P() = [x == 1] a{x = 5;} -> P();", "5 is outside the range 0..2 of `x`"),
        (
            "var x:{1..} = 1; P() = [x == 0] a{x = 0;} -> P();",
            "0 is outside the range 1..2147483647 of `x`",
        ),
        ("var x = 0; P() = [x == 1] a{x = 3000000000;} -> P();", "3000000000 is outside the range"),
        ("var a[3]; P() = a{a[3] = 1;} -> P();", "index 3 is outside 0..2 of `a`"),
    ],
)
def test_what_the_user_declared_stays_an_error(text: str, message: str) -> None:
    with pytest.raises(ModelError) as raised:
        network_of(text)
    assert message in str(raised.value)


def verdict_of(text: str) -> Holds | Violated | Unknown:
    (network,) = read_models(Source("m.csp", text), {})
    (result,) = check(network, network.properties, Limits())
    return result.verdict


def test_products_of_inferred_ranges_may_be_larger_than_a_word() -> None:
    # x: 2, 64; then x * x * x alone has 2^18, and the product leaves 32 bits.
    text = "var x = 2; P() = [x < 100] a{x = x * x * x * x * x * x;} -> P(); #assert P() "
    assert isinstance(verdict_of(text + "reaches big; #define big x == 64;"), Holds)
    found = verdict_of(text + "reaches huge; #define huge x > 64;")
    assert isinstance(found, Unknown)
    assert "outside the range" in found.reason


@pytest.mark.parametrize(
    "goal", ["x * x * x * x == 16", "-(x * x * x * x) == -16", "x * x * x * x * 0 == 1"]
)
def test_a_goal_may_multiply_inferred_ranges(goal: str) -> None:
    # x: 2, 4, 16, 256. Only the first satisfies the first two goals; 256 to the power of 4 is 2^32.
    text = (
        f"var x = 2; P() = [x < 99] a{{x = x * x;}} -> P(); #define goal {goal}; #assert P() reaches goal;"
    )
    assert isinstance(verdict_of(text), Violated if goal.endswith("0 == 1") else Holds)
