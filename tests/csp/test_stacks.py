"""Recursion before a `;` that data bounds: what waits is a stack in the state.

The counts are also those of the oracle, which rewrites terms and has no stacks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import veristream as vs
from tests.csp import oracle
from tests.csp.oracle_claims import judge
from tests.csp.strategies import DEFINITIONS, Maker
from tests.csp.test_parity import compare
from tests.csp.test_verdicts import CLAIMS, answers
from tests.csp.texts import counts, network_of, read
from veristream.errors import ModelError
from veristream.ir.network import Network
from veristream.ir.text.printer import print_network
from veristream.ir.text.read import read_network
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower import automata
from veristream.languages.csp.lower.network import lower, read_models
from veristream.source import Source
from veristream.verdict import Holds, Unknown, Violated, word
from veristream_testing.states import explore

UP, DONE = "[n < 3] a{n = n + 1;} ->", "[] [n >= 3] Skip"

STACKS = {
    # P(); P();P(); ...: 4 states as n grows to 3, then three taus to P(), and the end.
    "twice": (f"var n = 0; P() = {UP} (P(); P()) {DONE};", (8, 7)),
    # After three times a, P() ends with a tau; then three times b, and the end.
    "an event behind it": (f"var n = 0; P() = {UP} (P(); b -> Skip) {DONE};", (9, 8)),
    # The same: what follows b is Skip, so that the next Q() follows at once.
    "a reference behind it": (
        f"var n = 0; Q() = b -> Skip; P() = {UP} (P(); Q()) {DONE};",
        (9, 8),
    ),
    # 2^k stacks at n = k: 511. From each of the 256 highest a tau, then b or c: 256 + 128 + ... + 1 (Skip),
    # and the end. Steps: 510 up, 256 taus, each of the 510 above Skip goes one down, and the end.
    "two kinds": (
        """var n = 0; P() = [n < 8] a{n = n + 1;} -> (P(); b -> Skip)
        [] [n < 8] d{n = n + 1;} -> (P(); c -> Skip) [] [n >= 8] Skip;""",
        (1023, 1277),
    ),
    # a and c alternate three times; a tau, then d and b alternate; the end: 7 + 6 + 1 + 1 states.
    "mutual": (
        f"var n = 0; P() = {UP} (Q(); b -> Skip) {DONE}; Q() = c -> (P(); d -> Skip);",
        (15, 14),
    ),
    "parameter": (
        f"var n = 0; P() = Q(0); Q(i) = {UP} (Q(i + 1); e.i -> Skip) {DONE};",
        (9, 8),
    ),
    "value of a variable": (
        "var n = 0; P() = Q(7); Q(i) = [n < 3] a{n = n + 1;} -> (Q(n); e.i.n -> Skip) [] [n >= 3] Skip;",
        (9, 8),
    ),
    "towers": (
        """var n = 0; M(i, a, b) = [i > 0] t.i -> (M(i - 1, a, 3 - a - b); m.a.b{n = n + 1;} -> Skip;
        M(i - 1, 3 - a - b, b)) [] [i == 0] Skip; P() = M(5, 0, 2);""",
        (95, 94),
    ),
    # 80 times a up, and b down: higher than terms may be nested.
    "high": (
        "P() = Q(80); Q(i) = [i > 0] a.i -> (Q(i - 1); b.i -> Skip) [] [i == 0] z -> Skip;",
        (163, 162),
    ),
    "a message kept": (
        f"""var n = 0; channel c 1; P() = c!n -> c?x -> {UP} (P(); e.x -> Skip) {DONE};""",
        (17, 16),
    ),
    "a buffer bounds it": (
        "channel c 3; P() = [!call(cfull, c)] c!1 -> (P(); c?x -> Skip) [] [call(cfull, c)] Skip;",
        (9, 8),
    ),
    "rendezvous": (
        """var n = 0; channel c 0; Q(i) = [n < 4] c?x -> d{n = n + 1;} -> (Q(x); e.x.i -> Skip)
        [] [n >= 4] Skip; R(i) = c!i -> R((i + 1) % 3); P() = Q(0) ||| R(0);""",
        (14, 13),
    ),
    "nested": (
        f"""var n = 0; Q() = {UP} ((Q(); b -> Skip); (c -> Skip; Q())) {DONE};
        P() = Q(); d -> (Q() <> Skip);""",
        (18, 18),
    ),
    "in a choice": (
        """var n = 0; Q() = [n < 4] a{n = n + 1;} -> (Q(); c -> Skip; Q()) [] [n >= 4] Skip;
        P() = (Q(); e -> P()) [] x -> Stop;""",
        (17, 17),
    ),
    "goes down again": (
        "var n = 0; P() = [n < 4] a{n = n + 1;} -> (P(); b{n = n - 1;} -> Skip) [] [n > 2] Skip;",
        (11, 11),
    ),
    "stops": (
        """var n = 0; Q() = [n < 4] a{n = n + 1;} -> (Q(); c{n = n - 1;} -> Stop) [] [n >= 2] Skip;
        P() = x -> (Q() ||| (b -> Skip));""",
        (23, 32),
    ),
    "beside another": (
        f"var n = 0; Q() = {UP} (Q(); Q()) {DONE}; P() = Q() ||| (b -> Skip);",
        (15, 20),
    ),
    "started with something behind it": (
        """var n = 0; Q() = [n < 4] a{n = n + 1;} -> (Q(); c -> Skip; d -> Skip) [] [n >= 4] Skip;
        P() = (Q(); e -> Skip) ||| (b -> Skip);""",
        (31, 44),
    ),
    "two of them": (
        f"var n = 0; Q(i) = {UP} (Q(i); b.i -> Skip) {DONE}; P() = Q(0) ||| Q(1);",
        (37, 53),
    ),
    "synchronised": (
        f"""var n = 0; Q() = {UP} (Q(); (c -> Skip interrupt (x -> Skip))) {DONE};
        P() = Q() || (c -> c -> Skip);""",
        (19, 25),
    ),
    "hidden": (
        "var n = 0; Q() = [n < 3] a{n = n + 1;} -> (Q(); Q()) [] [n >= 3] c -> Skip; P() = Q() \\ {c};",
        (9, 8),
    ),
    "interrupted": (
        f"var n = 0; Q() = {UP} (Q(); c -> Skip) {DONE}; P() = Q() interrupt (x -> Skip);",
        (16, 20),
    ),
    "started anew": (
        """var n = 0; S() = [n < 2] s{n = n + 1;} -> ((Q(); z -> Skip) ||| (y -> Skip));
        Q() = [n < 5] a{n = n + 1;} -> (Q(); b -> Skip) [] [n > 3] Skip;
        P() = S() interrupt (r{n = 0;} -> P());""",
        (35, 82),
    ),
    "atomic": (
        """var n = 0; Q() = [n < 3] atomic{a{n = n + 1;} -> (b -> Skip)}; Q()
        [] [n < 3] d{n = n + 1;} -> (Q(); Q()) [] [n >= 3] Skip; P() = Q() ||| (k -> Skip);""",
        (9, 8),
    ),
}


@pytest.mark.parametrize(("text", "expected"), STACKS.values(), ids=STACKS)
def test_states_and_steps_are_those_of_the_oracle(text: str, expected: tuple[int, int]) -> None:
    assert counts(text) == expected


def test_skip_in_between_makes_no_other_state() -> None:
    # n goes from 0 to 3; then one tau leads to Skip, and the end.
    assert counts(f"var n = 0; P() = {UP} (P(); Skip) {DONE};") == (6, 5)
    # The term grows in PAT, but P(); Skip; Skip does what P(); Skip does: n = 0, 1, 0, 1, ...
    network = network_of("var n = 0; P() = [n < 2] a{n = 1 - n;} -> (P(); Skip);")
    found = explore(network, 10)
    assert (len(found.states), found.transitions, found.complete) == (3, 3, True)


def test_stacks_have_a_text_form() -> None:
    network = network_of(STACKS["parameter"][0].replace("Skip)", "c -> Stop)"))
    names = [enum.members for enum in network.enums]
    assert names == [("-", "e.0 -> c -> Stop", "e.$0 -> c -> Stop")]
    text = print_network(network)
    assert read_network(Source("m.net", text), {}) == network


# --- Bounds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ["P() = a -> (P(); b -> Skip);", "var n = 0; P() = a{n = 1 - n;} -> (P(); P()) [] b -> Skip;"],
)
def test_what_nothing_can_bound_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match="grows without bound"):
        network_of(text)


def read_at(text: str, stack_max: int) -> Network:
    (network,) = read_models(Source("m.csp", text), {}, (), stack_max)
    return network


def tower(height: int) -> str:
    return f"""var n = 0;
P() = [n < {height}] a{{n = n + 1;}} -> (P(); b -> Skip) [] [n == {height}] Skip;
#define top n == {height};
#assert P() reaches top;
#assert P() deadlockfree;
"""


@pytest.mark.parametrize("height", [6, 7])
def test_a_stack_as_high_as_the_limit_is_decided(height: int) -> None:
    with patch.object(automata, "INLINE_MAX", -1):  # stacks at once: these terms are small
        results = vs.check(read_at(tower(height), 7))
    assert [(type(one.verdict), one.effort.states) for one in results] == [
        (Holds, height + 1),
        (Holds, 2 * height + 3),
    ]


def test_a_stack_above_the_limit_is_a_run_time_error_with_its_place() -> None:
    with patch.object(automata, "INLINE_MAX", -1):
        top, stuck = vs.check(read_at(tower(8), 7))
    for result in (top, stuck):
        assert isinstance(result.verdict, Unknown)
        assert result.verdict.fault is not None and result.verdict.trace is not None
        assert result.verdict.fault.message == "more than 7 processes wait behind `;` (--max-stack)"
        assert result.verdict.fault.span.place == "m.csp:2:15"
        assert len(result.verdict.trace.steps) == 8, "the start and seven steps"


def test_a_recursion_without_end_is_found_by_the_search() -> None:
    text = "var n = 0; P() = [n < 2] a{n = 1 - n;} -> (P(); b -> Skip); #assert P() deadlockfree;"
    (result,) = vs.check(read_at(text, 100))
    assert isinstance(result.verdict, Unknown) and result.verdict.fault is not None
    assert "more than 100 processes wait" in result.verdict.fault.message


def test_what_waits_at_the_start_must_fit() -> None:
    text = f"""var n = 0; Q() = {UP} (Q(); Q()) {DONE};
    P() = (;x:{{0..8}}@(e.x -> Skip)) ||| Q(); #assert P() deadlockfree;"""
    with patch.object(automata, "INLINE_MAX", -1):
        # 10 states of e.0 to e.8 beside 7 of Q(), and the end; 9 * 7 + 10 * 6 steps, and the end.
        assert counts(text) == (71, 124)
        with pytest.raises(ModelError, match="more than 7 processes wait behind `;`") as raised:
            read_at(text, 7)
    assert raised.value.hint == "raise the limit: --max-stack 8"


# --- Verdicts ---------------------------------------------------------------------------------------

ASKED = f"""
var n = 0;
P() = {UP} (P(); b -> Skip) {DONE};
H() = P() \\ {{b}};
S() = a -> S() [] b -> S();
U(i) = [i < 3] a -> U(i + 1) [] [i == 3] D(3);
D(i) = [i > 0] b -> D(i - 1) [] [i == 0] Skip;
V(i) = [i < 2] a -> V(i + 1) [] [i == 2] D(2);
K() = [n < 3] a{{n = n + 1;}} -> (K(); K()) [] [n >= 1] b -> Skip;
#define top n == 3;
#assert P() deadlockfree;
#assert P() nonterminating;
#assert P() deterministic;
#assert P() divergencefree;
#assert P() reaches top;
#assert P() |= <> b;
#assert P() |= [] (a -> <> b);
#assert P() |= [] !b;
#assert P() refines S();
#assert P() refines U(0);
#assert P() refines V(0);
#assert U(0) refines P();
#assert U(0) refines<F> P();
#assert H() refines S();
#assert H() refines<FD> P();
#assert K() deterministic;
#assert K() |= <> top;
#assert K() refines P();
#assert K() refines<FD> S();
"""


def test_verdicts_are_those_of_the_oracle() -> None:
    spec = read(ASKED)
    found = {
        one.property: one
        for network in read_models(Source("m.csp", ASKED), {})
        for one in vs.check(network)
    }
    expected = {one.text: judge(spec, one)[0] for one in spec.assertions}
    assert {name: word(one.verdict) == "holds" for name, one in found.items()} == expected
    assert sum(expected.values()) == 10 and len(expected) == 19
    refused = found["P() refines V(0)"].verdict
    assert isinstance(refused, Violated) and refused.trace is not None


# --- At random --------------------------------------------------------------------------------------


class Growing(Maker):
    """Lets processes refer to themselves and earlier ones before a `;` too."""

    def process(self, here: int, depth: int, tail: bool) -> csp.Process:
        if tail and depth and self.chance(2):
            first = self.process(here, depth - 1, True)
            return csp.Sequence(first, self.process(here, depth - 1, True))
        return super().process(here, depth, tail)


@st.composite
def growing(draw: st.DrawFn) -> csp.Specification:
    """Draws a specification in which each start of a body counts in n, up to 4."""
    definitions = []
    n = csp.Global("n")
    count = (csp.Assign(n, csp.Binary("+", n, csp.Number(1))),)
    for number in range(DEFINITIONS):
        maker = Growing(draw, ("i",) if number % 2 else ())
        parameters = (csp.Parameter("i"),) if number % 2 else ()
        body = csp.Prefix(csp.Event(f"s{number}"), count, maker.process(number, 2, True))
        goes_on = csp.Guard(csp.Binary("<", n, csp.Number(4)), body)
        ends = csp.Guard(csp.Binary(">=", n, csp.Number(4)), csp.Skip())
        definitions.append(csp.Definition(f"P{number}", parameters, csp.Choice("general", (goes_on, ends))))
    variables = tuple(csp.Variable(name, low=0, high=4) for name in ("x", "y", "n"))
    channels = (csp.Channel("r", 0), csp.Channel("q", 1))
    return csp.Specification(variables, channels, tuple(definitions), ())


def test_random_stacks_have_the_states_of_the_oracle() -> None:
    compared: list[bool | None] = []
    stacked = 0

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(growing())
    def ask(spec: csp.Specification) -> None:
        nonlocal stacked
        try:
            compared.append(compare(spec, csp.Ref("P0"), 300))
            names = [one.name for part in lower(spec, csp.Ref("P0")).components for one in part.variables]
            stacked += compared[-1] is True and any(name.endswith(".stack") for name in names)
        except (ModelError, RecursionError, oracle.OracleFault):
            compared.append(None)

    with patch.object(automata, "INLINE_MAX", -1):
        ask()
    assert len(compared) - compared.count(None) >= 45 and stacked >= 8
    assert False not in compared


def test_random_verdicts_about_stacks_are_those_of_the_oracle() -> None:
    compared: Counter[bool] = Counter()

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(growing(), st.lists(CLAIMS, min_size=2, max_size=3, unique=True))
    def ask(spec: csp.Specification, claims: list[csp.Claim]) -> None:
        asked = tuple(csp.Assertion(csp.Ref("P0"), claim, str(at)) for at, claim in enumerate(claims))
        spec = replace(spec, assertions=asked)
        found = answers(spec) or []
        for answer in found:
            assert answer.agree(), (answer, spec)
        if found:
            names = [one.name for part in lower(spec, csp.Ref("P0")).components for one in part.variables]
            if any(name.endswith(".stack") for name in names):
                compared.update(answer.holds for answer in found)

    with patch.object(automata, "INLINE_MAX", -1):
        ask()
    assert min(compared[True], compared[False]) >= 5, compared
