"""An asserted process that is a composition: the state at its start is the state to which it returns.

A comment before each text derives its states and steps.
"""

from __future__ import annotations

import pytest

import veristream as vs
from tests.csp.texts import counts, network_of
from veristream.ir.oracle.interpret import Interpreter
from veristream.languages.csp.lower.network import read_models
from veristream.report.messages import movers
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.source import Source

PARTS = """A() = a -> A(); B() = b -> d -> B(); C(i) = c.i -> C(1 - i); Two() = |||{2}@B();
R() = (A() ||| B()) interrupt (k -> R()); RR() = Two() interrupt (k -> RR());
"""

BEGINNINGS = {
    # B() has two places.
    "interleaving": (f"{PARTS} P() = A() ||| B();", (), (2, 4)),
    # Both do a together; the second then does e alone.
    "parallel": (f"{PARTS} E() = a -> e -> E(); P() = A() || E();", (), (2, 2)),
    # Two places of each B(), counted: 0, 1 or 2 of them at the second place; 1 + 2 + 1 steps.
    "bag": (f"{PARTS} P() = |||{{2}}@B();", (), (3, 4)),
    # Two places of each C(i), which differ at the start.
    "replicated": (f"{PARTS} P() = |||x:{{0..1}}@C(x);", (), (4, 8)),
    # Three branches: 1 * 2 * 2 places, each with three steps.
    "nested": (f"{PARTS} P() = (A() ||| B()) ||| C(0);", (), (4, 12)),
    # `||` within `|||` stays a branch: A() || B() shares nothing and has 2 places, C(0) 2.
    "a composition as a branch": (f"{PARTS} P() = (A() || B()) ||| C(0);", (), (4, 12)),
    "arguments": (f"{PARTS} P(i, n) = |||x:{{0..n}}@C(i);", (1, 1), (3, 4)),
    # A reference to a composition is not one itself: P(), then the two places of B().
    "a reference": (f"{PARTS} P() = S(); S() = A() ||| B();", (), (3, 6)),
    # The hidden composition is not one itself either.
    "hidden": (f"{PARTS} P() = (A() ||| B()) \\ {{a}};", (), (3, 6)),
    # After k, A() ||| B() is the same term as at the start. Both places of B() with a, its own step, k; R()
    # with the a and b of its composition and k. Each with the two places of C(0), whose step leads on.
    "killed and forked again": (
        f"{PARTS} P() = ((A() ||| B()) interrupt (k -> R())) ||| C(0);",
        (),
        (6, 24),
    ),
    # The same with a bag of two B(): three states of it and RR(), twice; their 4 + 3 and 1 + 1 steps, and
    # those of C(0).
    "killed and counted again": (
        f"{PARTS} P() = ((|||{{2}}@B()) interrupt (k -> RR())) ||| C(0);",
        (),
        (8, 26),
    ),
    # All branches end at once; the rest is one state after that.
    "termination": ("P() = (a -> Skip) ||| (b -> Skip);", (), (5, 5)),
    # 100 places of Q(i), whose argument is kept in a slot and starts with 7.
    "slots": ("Q(i) = a.i -> Q((i + 1) % 100); P() = Q(7) ||| Q(9);", (), (10_000, 20_000)),
}


@pytest.mark.parametrize(("text", "arguments", "expected"), BEGINNINGS.values(), ids=BEGINNINGS)
def test_a_composition_is_one_state_with_its_start(
    text: str, arguments: tuple[int, ...], expected: tuple[int, int]
) -> None:
    assert counts(text, "P", *arguments) == expected


@pytest.mark.parametrize(
    "name", ["bag", "nested", "killed and forked again", "killed and counted again", "slots"]
)
def test_native_code_begins_there_too(name: str) -> None:
    text, _, (states, steps) = BEGINNINGS[name]
    (network,) = read_models(Source("m.csp", text + " #assert P() deadlockfree;"), {})
    (result,) = check(network, network.properties, Limits(reduction=False))
    assert isinstance(result.verdict, vs.Holds)
    assert (result.effort.states, result.effort.transitions) == (states, steps)


def test_an_argument_out_of_range_is_an_error_of_the_first_step() -> None:
    network = network_of(f"{PARTS} P(i:{{0..1}}) = C(i) ||| A();", "P", 7)
    interpreter = Interpreter(network)
    expansion = interpreter.expand(interpreter.initial())
    assert not expansion.steps
    assert expansion.failures


def test_the_first_step_is_a_step_of_its_branch() -> None:
    text = f"{PARTS} P() = A() ||| B(); #define no 1 == 2; #assert P() |= [] !b;"
    (network,) = read_models(Source("m.csp", text), {})
    (result,) = check(network, network.properties, Limits())
    assert isinstance(result.verdict, vs.Violated)
    assert result.verdict.trace is not None
    assert movers(result.verdict.trace.steps[1]) == ["B"]
