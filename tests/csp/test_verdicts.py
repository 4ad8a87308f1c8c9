"""The product's verdicts against the oracle's: random specifications, assertions of every kind.

State counts differ if PAT writes terms alike that are different components in our Networks, or vice versa;
then the verdict of `deterministic` may differ too. See `test_parity`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import Literal
from unittest.mock import patch

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.csp import oracle
from tests.csp.oracle_claims import judge, optimum
from tests.csp.strategies import specifications
from tests.csp.test_parity import compare
from veristream.errors import ModelError
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower import automata, slots
from veristream.languages.csp.lower.network import _with_properties
from veristream.languages.stacks import STACK_MAX
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.verdict import Holds, Result, word

LIMIT = 150
TEMPORAL_MAX = 4
"""The oracle guesses the truth of every temporal subformula: 2 to the power of this at each position."""

WHOLE = csp.Ref("P0")
OTHERS = (csp.Ref("P2"), csp.Ref("P1", (csp.Number(0),)), csp.Ref("P3", (csp.Number(1),)))
EVENTS = (
    csp.Occurs("a"),
    csp.Occurs("b"),
    csp.Occurs("c", (0,)),
    csp.Occurs("q", (1,), "!"),
    csp.Occurs("r", (1,)),
)
UNARY: tuple[Literal["!", "X", "[]", "<>"], ...] = ("!", "X", "[]", "<>")
BINARY: tuple[Literal["&&", "||", "->", "<->", "U", "R"], ...] = ("&&", "||", "->", "<->", "U", "R")
GLOBALS = st.sampled_from((csp.Global("x"), csp.Global("y")))
NUMBERS = st.builds(csp.Number, st.integers(0, 2))
CONDITIONS = st.builds(
    csp.Binary, st.sampled_from(("==", "!=", "<", "<=")), GLOBALS, st.one_of(NUMBERS, GLOBALS)
)


@st.composite
def formulas(draw: st.DrawFn, depth: int) -> csp.Formula:
    """Draws a formula with operators nested at most `depth` deep."""
    kind = draw(st.sampled_from(("unary", "unary", "binary", "event", "condition"))) if depth else "event"
    match kind:
        case "unary":
            return csp.TemporalUnary(draw(st.sampled_from(UNARY)), draw(formulas(depth - 1)))
        case "binary":
            left, right = draw(formulas(depth - 1)), draw(formulas(depth - 1))
            return csp.TemporalBinary(draw(st.sampled_from(BINARY)), left, right)
        case "event" if draw(st.booleans()):
            return draw(st.sampled_from(EVENTS))
        case _:
            return csp.Holds(draw(CONDITIONS))


def temporal_parts(formula: csp.Formula) -> int:
    match formula:
        case csp.TemporalUnary(op, operand):
            return (op != "!") + temporal_parts(operand)
        case csp.TemporalBinary(op, left, right):
            return (op in ("U", "R")) + temporal_parts(left) + temporal_parts(right)
    return 0


SATISFIES = st.builds(csp.Satisfies, formulas(3).filter(lambda one: temporal_parts(one) <= TEMPORAL_MAX))
CLAIMS: st.SearchStrategy[csp.Claim] = st.one_of(
    st.builds(
        csp.Simple, st.sampled_from(("deadlockfree", "divergencefree", "deterministic", "nonterminating"))
    ),
    st.builds(csp.Reaches, CONDITIONS),
    st.builds(
        csp.Reaches,
        CONDITIONS,
        st.sampled_from(("min", "max")),
        st.builds(csp.Binary, st.sampled_from(("+", "-")), GLOBALS, st.one_of(NUMBERS, GLOBALS)),
    ),
    SATISFIES,
    SATISFIES,
    st.builds(csp.Refines, st.sampled_from(OTHERS), st.sampled_from(("T", "F", "FD"))),
)


@st.composite
def questions(draw: st.DrawFn) -> csp.Specification:
    """Draws a specification with two or three different assertions."""
    spec = draw(specifications())
    claims = draw(st.lists(CLAIMS, min_size=2, max_size=3, unique=True))
    process = draw(st.sampled_from((WHOLE, WHOLE, *OTHERS)))
    asked = tuple(csp.Assertion(process, claim, str(at)) for at, claim in enumerate(claims))
    return replace(spec, assertions=asked)


@dataclass(frozen=True, slots=True)
class Answer:
    """One assertion with the results of the product and the oracle."""

    assertion: csp.Assertion
    result: Result
    holds: bool
    best: int | None

    def agree(self) -> bool:
        """Whether the verdicts, and the extreme values if there are any, are equal."""
        if word(self.result.verdict) != ("holds" if self.holds else "violated"):
            return False
        return self.best is None or self.best == best_of(self.result)


def best_of(result: Result) -> int | None:
    """Returns the extreme value of the result."""
    assert isinstance(result.verdict, Holds)
    found = re.search(r"-?\d+$", result.verdict.reason)
    return int(found[0]) if found else None


def answers(spec: csp.Specification) -> list[Answer] | None:
    """Returns the assertions with both results; None if the model is too large or fails at run time."""
    processes = {WHOLE: None} | {one.process: None for one in spec.assertions}
    named = [one.claim.specification for one in spec.assertions if isinstance(one.claim, csp.Refines)]
    same: dict[csp.Ref, bool] = {}
    with patch.object(automata, "LOCATIONS_MAX", LIMIT), patch.object(slots, "NESTING_MAX", 8):
        try:
            for process in (*processes, *named):
                counts = compare(spec, process, LIMIT)
                if counts is None:
                    return None
                same[process] = counts
            network = _with_properties(spec, spec.assertions[0].process, {}, STACK_MAX)
        except (ModelError, RecursionError, oracle.OracleFault):
            return None
    results = check(network, network.properties, Limits())
    found = []
    for assertion, result in zip(spec.assertions, results, strict=True):
        if assertion.claim == csp.Simple("deterministic") and not same[assertion.process]:
            continue
        holds, _ = judge(spec, assertion)
        best = None
        if isinstance(assertion.claim, csp.Reaches):
            best = optimum(oracle.graph(spec, assertion.process), assertion.claim)
        found.append(Answer(assertion, result, holds, best))
    return found


def test_verdicts_are_those_of_the_oracle() -> None:
    compared: Counter[tuple[str, bool]] = Counter()

    @settings(max_examples=80, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(questions())
    def ask(spec: csp.Specification) -> None:
        for answer in answers(spec) or ():
            assert answer.agree(), (answer, spec)
            compared[type(answer.assertion.claim).__name__, answer.holds] += 1

    ask()
    kinds = ("Simple", "Reaches", "Satisfies", "Refines")
    assert all(compared[kind, holds] >= 2 for kind in kinds for holds in (True, False)), compared
