"""Assertions and formulas: each construct is read as the node it means."""

from __future__ import annotations

import pytest

from tests.unit.languages.csp.reading import WORLD, assertion, formula, read
from veristream.languages.csp.syntax import (
    Assertion,
    Binary,
    Claim,
    Formula,
    Global,
    Holds,
    Number,
    Occurs,
    Reaches,
    Ref,
    Refines,
    Satisfies,
    Simple,
    TemporalBinary,
    TemporalUnary,
)

GOAL = Binary("==", Global("x"), Number(1))
HOLDS, EVENT, OTHER = Holds(GOAL), Occurs("a"), Occurs("b")

CLAIMS: list[tuple[str, Ref, Claim]] = [
    ("A() deadlockfree", Ref("A"), Simple("deadlockfree")),
    ("A deadlockfree", Ref("A"), Simple("deadlockfree")),
    ("P(1) divergencefree", Ref("P", (Number(1),)), Simple("divergencefree")),
    ("P(N-1) deterministic", Ref("P", (Number(2),)), Simple("deterministic")),
    ("A nonterminating", Ref("A"), Simple("nonterminating")),
    ("A reaches goal", Ref("A"), Reaches(GOAL)),
    ("A reaches (x == 1)", Ref("A"), Reaches(GOAL)),
    ("A reaches x == 1", Ref("A"), Reaches(GOAL)),
    ("A reaches goal with min(y)", Ref("A"), Reaches(GOAL, "min", Global("y"))),
    (
        "A reaches goal with max(y - x)",
        Ref("A"),
        Reaches(GOAL, "max", Binary("-", Global("y"), Global("x"))),
    ),
    ("A refines B()", Ref("A"), Refines(Ref("B"), "T")),
    ("A() refines<F> P(1)", Ref("A"), Refines(Ref("P", (Number(1),)), "F")),
    ("A() refines <FD> B", Ref("A"), Refines(Ref("B"), "FD")),
    ("A() |= [] goal", Ref("A"), Satisfies(TemporalUnary("[]", HOLDS))),
]

FORMULAS: list[tuple[str, Formula]] = [
    ("a", EVENT),
    ("goal", HOLDS),
    ("true", Holds(Number(1))),
    ("false", Holds(Number(0))),
    ("p.1", Occurs("p", (1,))),
    ("p.1.green.N", Occurs("p", (1, 1, 3))),
    ("p.-1", Occurs("p", (-1,))),
    ("c!1", Occurs("c", (1,), "!")),
    ("c?1.green", Occurs("c", (1, 1), "?")),
    ('"c!1"', Occurs("c", (1,), "!")),
    ('"c?1.2"', Occurs("c", (1, 2), "?")),
    ('"c?N"', Occurs("c", (3,), "?")),
    ('"p.1"', Occurs("p", (1,))),
    ("d.1.2", Occurs("d", (1, 2))),
    ("d!1", Occurs("d", (1,))),
    ('"d?1.2"', Occurs("d", (1, 2))),
    ("e[1]!2", Occurs("e[1]", (2,), "!")),
    ('"f[0][N].2"', Occurs("f[0][3]", (2,))),
    ("c!", Occurs("c", (), "!")),
    ("!a", TemporalUnary("!", EVENT)),
    ("X a", TemporalUnary("X", EVENT)),
    ("[]<>a", TemporalUnary("[]", TemporalUnary("<>", EVENT))),
    ("G F a", TemporalUnary("[]", TemporalUnary("<>", EVENT))),
    ("a U b", TemporalBinary("U", EVENT, OTHER)),
    ("a R b", TemporalBinary("R", EVENT, OTHER)),
    ("a V b", TemporalBinary("R", EVENT, OTHER)),
    ("a && b", TemporalBinary("&&", EVENT, OTHER)),
    ("a /\\ b", TemporalBinary("&&", EVENT, OTHER)),
    ("a \\/ b", TemporalBinary("||", EVENT, OTHER)),
    ("a <-> b", TemporalBinary("<->", EVENT, OTHER)),
    ("!a U b", TemporalBinary("U", TemporalUnary("!", EVENT), OTHER)),
    ("[]a U b", TemporalBinary("U", TemporalUnary("[]", EVENT), OTHER)),
    ("a U !b", TemporalBinary("U", EVENT, TemporalUnary("!", OTHER))),
    ("a U b U goal", TemporalBinary("U", TemporalBinary("U", EVENT, OTHER), HOLDS)),
    ("a && b U goal", TemporalBinary("&&", EVENT, TemporalBinary("U", OTHER, HOLDS))),
    ("a -> b && goal", TemporalBinary("&&", TemporalBinary("->", EVENT, OTHER), HOLDS)),
    ("a || b -> goal", TemporalBinary("->", TemporalBinary("||", EVENT, OTHER), HOLDS)),
    ("a -> (b -> goal)", TemporalBinary("->", EVENT, TemporalBinary("->", OTHER, HOLDS))),
    ("[](a -> <>b)", TemporalUnary("[]", TemporalBinary("->", EVENT, TemporalUnary("<>", OTHER)))),
]


@pytest.mark.parametrize(("text", "process", "claim"), CLAIMS, ids=[text for text, _, _ in CLAIMS])
def test_claims(text: str, process: Ref, claim: Claim) -> None:
    assert assertion(text) == Assertion(process, claim, text)


@pytest.mark.parametrize(("text", "meant"), FORMULAS, ids=[text for text, _ in FORMULAS])
def test_formulas(text: str, meant: Formula) -> None:
    assert formula(text) == meant


def test_blanks_in_the_text_of_an_assertion_are_collapsed() -> None:
    spec = read(f"{WORLD}\n#assert   A()  |=\n\t[] ( a ->\r\n <> b )  ;\n#assert A // why\n deadlockfree;")
    assert [claim.text for claim in spec.assertions] == ["A() |= [] ( a -> <> b )", "A deadlockfree"]


def test_conditions_may_be_defined_after_their_use() -> None:
    spec = read('#assert P reaches late; P = a -> P; #define late x == 1; var x; #assert P |= []"a";')
    assert spec.assertions[0].claim == Reaches(GOAL)
