"""Automata compared with an evaluator that follows the definition of LTL word by word."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies_ltl import PROPOSITIONS, Letter, Word, formulas, read_formula, words
from veristream.errors import ModelError
from veristream.ir.expr import Binary, Const, Load
from veristream.ir.property import (
    BinaryTemporal,
    Formula,
    Holds,
    Occurs,
    Silent,
    TemporalBinary,
    TemporalUnary,
)
from veristream.search.runs.buchi import Automaton, translate
from veristream.search.runs.formula import normalise, number, propositions

Node = tuple[int, int]
"""A position of a lasso and a state of an automaton."""


# --- the oracle ---


def evaluate(formula: Formula, word: Word) -> bool:
    """Whether the word satisfies the formula."""
    return truths(formula, word)[0]


def truths(formula: Formula, word: Word) -> list[bool]:
    """The formula's truth at each position of the lasso."""
    letters = word[0] + word[1]
    size = len(letters)
    after = [*range(1, size), len(word[0])]
    match formula:
        case Holds(condition=Const(value=value)):
            return [bool(value)] * size
        case TemporalUnary(op=op, operand=operand):
            of = truths(operand, word)
            match op:
                case "!":
                    return [not value for value in of]
                case "X":
                    return [of[after[i]] for i in range(size)]
                case "<>":
                    return fixpoint(False, lambda old, i: of[i] or old[after[i]], size)
                case "[]":
                    return fixpoint(True, lambda old, i: of[i] and old[after[i]], size)
        case TemporalBinary(op=op, left=left, right=right):
            one, two = truths(left, word), truths(right, word)
            match op:
                case "&&":
                    return [x and y for x, y in zip(one, two, strict=True)]
                case "||":
                    return [x or y for x, y in zip(one, two, strict=True)]
                case "->":
                    return [not x or y for x, y in zip(one, two, strict=True)]
                case "<->":
                    return [x == y for x, y in zip(one, two, strict=True)]
                case "U":
                    return fixpoint(False, lambda old, i: two[i] or (one[i] and old[after[i]]), size)
                case "R":
                    return fixpoint(True, lambda old, i: two[i] and (one[i] or old[after[i]]), size)
    return [formula in letter for letter in letters]


def fixpoint(start: bool, step: Callable[[list[bool], int], bool], size: int) -> list[bool]:
    """The limit of applying the step at every position, from all `start`."""
    values = [start] * size
    while True:
        following = [step(values, i) for i in range(size)]
        if following == values:
            return values
        values = following


def encode(letter: Letter, automaton: Automaton) -> int:
    """The letter as the number that the search passes to the automaton."""
    state_mask = sum(1 << i for i, p in enumerate(automaton.states) if p in letter)
    action_mask = sum(1 << i for i, p in enumerate(automaton.actions) if p in letter)
    return state_mask | action_mask << 32


def accepts(automaton: Automaton, word: Word) -> bool:
    """Whether the automaton has an accepting run over the word (Emerson and Lei's fixpoint)."""
    shown = [encode(letter, automaton) for letter in word[0] + word[1]]
    size = len(shown)
    steps = []
    for place, state in product(range(size), range(automaton.state_count)):
        following = place + 1 if place + 1 < size else len(word[0])
        for t in range(automaton.first[state], automaton.first[state + 1]):
            if shown[place] & automaton.positive[t] == automaton.positive[t] and not (
                shown[place] & automaton.negative[t]
            ):
                target = (following, automaton.target[t])
                steps.append(((place, state), target, automaton.acceptance[t]))
    alive = set(product(range(size), range(automaton.state_count)))
    while True:
        before = len(alive)
        inside = [step for step in steps if step[0] in alive and step[1] in alive]
        alive &= {source for source, _, _ in inside}
        for bit in range(automaton.acceptance_count):
            alive &= can_reach({s for s, _, marks in inside if marks >> bit & 1}, inside)
        if len(alive) == before:
            return (0, automaton.initial) in alive


def can_reach(goals: set[Node], steps: list[tuple[Node, Node, int]]) -> set[Node]:
    """The nodes with a path to a goal."""
    found = set(goals)
    while True:
        more = {source for source, target, _ in steps if target in found} - found
        if not more:
            return found
        found |= more


def short_words(names: str) -> list[Word]:
    """All lassos of 2 propositions with a stem of at most one letter and a cycle of at most two."""
    chosen = [PROPOSITIONS[name] for name in names.split()]
    every = [
        frozenset(p for p, holds in zip(chosen, row, strict=True) if holds)
        for row in product((False, True), repeat=len(chosen))
    ]
    beginnings: list[tuple[Letter, ...]] = [(), *((letter,) for letter in every)]
    cycles: list[tuple[Letter, ...]] = [(x,) for x in every] + [(x, y) for x in every for y in every]
    return list(product(beginnings, cycles))


def random_words(seed: int, count: int) -> list[Word]:
    """Lassos over all propositions, with up to four letters in the stem and in the cycle."""
    chance = random.Random(seed)

    def draw(length: int) -> tuple[Letter, ...]:
        return tuple(
            frozenset(p for p in PROPOSITIONS.values() if chance.random() < 0.5) for _ in range(length)
        )

    return [(draw(chance.randint(0, 4)), draw(chance.randint(1, 4))) for _ in range(count)]


SHORT_WORDS = short_words("p q")
RANDOM_WORDS = random_words(seed=7, count=300)


def assert_same(formula: Formula, some_words: list[Word]) -> None:
    automaton = translate(formula)
    assert_well_formed(automaton)
    for word in some_words:
        assert accepts(automaton, word) == evaluate(formula, word), word


def assert_well_formed(automaton: Automaton) -> None:
    count = len(automaton.target)
    assert len(automaton.first) == automaton.state_count + 1
    assert automaton.first[0] == 0
    assert automaton.first[-1] == count
    assert list(automaton.first) == sorted(automaton.first)
    for column in (automaton.positive, automaton.negative, automaton.acceptance):
        assert len(column) == count
    assert 0 <= automaton.initial < automaton.state_count
    assert all(0 <= target < automaton.state_count for target in automaton.target)
    assert all(mark >> automaton.acceptance_count == 0 for mark in automaton.acceptance)
    pairs = zip(automaton.positive, automaton.negative, strict=True)
    assert all(positive & negative == 0 for positive, negative in pairs)


# --- the oracle itself, on words with an obvious answer ---

P, Q = PROPOSITIONS["p"], PROPOSITIONS["q"]
NONE: Letter = frozenset()


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("<>q", ((frozenset({P}),), (NONE, frozenset({Q}))), True),
        ("[]<>q", ((), (NONE, frozenset({Q}))), True),
        ("<>[]q", ((), (NONE, frozenset({Q}))), False),
        ("p U q", ((frozenset({P}), NONE), (frozenset({Q}),)), False),
        ("p U q", ((frozenset({P}), frozenset({P})), (frozenset({Q}),)), True),
        ("p U q", ((), (frozenset({P}),)), False),
        ("q R p", ((), (frozenset({P}),)), True),
        ("q R p", ((frozenset({P, Q}),), (NONE,)), True),
        ("q R p", ((frozenset({P}), frozenset({Q})), (NONE,)), False),
        ("X q", ((NONE,), (frozenset({Q}), NONE)), True),
    ],
)
def test_oracle(text: str, word: Word, expected: bool) -> None:
    assert evaluate(read_formula(text), word) == expected
    assert accepts(translate(read_formula(text)), word) == expected


# --- the patterns of Dwyer, Avrunin and Corbett (ICSE 1999), and other classics ---

PATTERNS = [
    # absence: globally, before, after, between, after-until
    "[]!p",
    "<>a -> (!p U a)",
    "[](q -> []!p)",
    "[]((q && !a && <>a) -> (!p U a))",
    "[]((q && !a) -> (!p W a))",
    # existence
    "<>p",
    "!a W (p && !a)",
    "[]!q || <>(q && <>p)",
    "[]((q && !a) -> (!a W (p && !a)))",
    "[]((q && !a) -> (!a U (p && !a)))",
    # at most two occurrences
    "!p W (p W (!p W (p W []!p)))",
    "<>a -> ((!p && !a) U (a || ((p && !a) U (a || ((!p && !a) U (a || ((p && !a) U (a || (!p U a)))))))))",
    "<>q -> (!q U (q && (!p W (p W (!p W (p W []!p))))))",
    # universality
    "[]p",
    "<>a -> (p U a)",
    "[](q -> []p)",
    "[]((q && !a && <>a) -> (p U a))",
    "[]((q && !a) -> (p W a))",
    # precedence
    "!p W q",
    "<>a -> (!p U (q || a))",
    "[]!q || <>(q && (!p W a))",
    "[]((q && !a && <>a) -> (!p U (tau || a)))",
    "[]((q && !a) -> (!p W (tau || a)))",
    # response
    "[](p -> <>q)",
    "<>a -> ((p -> (!a U (q && !a))) U a)",
    "[](q -> [](p -> <>a))",
    "[]((q && !a && <>a) -> ((p -> (!a U (tau && !a))) U a))",
    "[]((q && !a) -> ((p -> (!a U (tau && !a))) W a))",
    # chains
    "<>p -> (!p U (q && !p && X(!p U a)))",
    "<>a -> (!p U (a || (q && !p && X(!p U tau))))",
    "([]!q) || (!q U (q && <>p -> (!p U (tau && !p && X(!p U a)))))",
    "[](p -> <>(q && X<>a))",
    "[](p && X<>q -> X(<>(q && <>a)))",
    "[](p -> <>(q && !tau && X(!tau U a)))",
    # fairness, stability, and what simplifiers get wrong
    "[]<>p",
    "<>[]p",
    "[]<>p -> []<>q",
    "<>[]p -> []<>q",
    "([]<>p && []<>q) -> []<>a",
    "([]<>p && []<>q && []<>tau) -> []<>a",
    "([]<>p && []<>q) -> [](a -> <>tau)",
    "([]<>p -> []<>q) && ([]<>a -> []<>tau)",
    "<>[]p || <>[]q || []<>a",
    "p U (q U a)",
    "(p U q) U a",
    "p R (q R a)",
    "(p U q) R (a U tau)",
    "[](p <-> X q)",
    "[](p -> X X X q)",
    "<>(p && X(!p && X p))",
    "[](p || []q) <-> []p || []q",
    "(p U q) && (!q U p)",
    "[](p U q)",
    "<>(p R q)",
    "X []<>p",
    "[]<>(p && X q)",
    "<>[](p || X q)",
    "(X p) U (X q)",
    "p W q <-> q R (p || q)",
]


@pytest.mark.parametrize("text", PATTERNS)
@pytest.mark.parametrize("shape", ["%s", "!(%s)"])
def test_pattern(text: str, shape: str) -> None:
    assert_same(read_formula(shape % text), SHORT_WORDS + RANDOM_WORDS)


@settings(max_examples=400, deadline=None)
@given(formulas(depth=4), st.lists(words(), min_size=5, max_size=15))
def test_random_formula(formula: Formula, some_words: list[Word]) -> None:
    assert_same(formula, some_words)
    assert_same(TemporalUnary("!", formula), some_words)


@settings(max_examples=200, deadline=None)
@given(formulas(depth=3, names="p q"))
def test_random_formula_on_all_short_words(formula: Formula) -> None:
    assert_same(formula, SHORT_WORDS)


# --- sizes ---


@pytest.mark.parametrize(
    ("text", "state_count", "transition_count", "acceptance_count"),
    [
        ("true", 1, 1, 0),
        ("[]p", 1, 1, 0),
        ("<>p", 2, 3, 1),
        ("p U q", 2, 3, 1),
        ("[]<>p", 1, 2, 1),
        ("<>[]p", 2, 3, 1),
        ("![](p -> <>q)", 2, 3, 1),
        ("[](p -> <>q)", 2, 5, 1),
        ("[]<>p && []<>q", 1, 4, 2),
        ("[]<>p || []<>q", 1, 3, 1),
        ("!(([]<>p && []<>q && []<>tau) -> []<>a)", 2, 10, 3),
        ("[][]p", 1, 1, 0),
        ("<><>p", 2, 3, 1),
        ("<>[]<>p", 1, 2, 1),
        ("[]<>[]p", 2, 3, 1),
        ("X []<>p", 1, 2, 1),
        ("[]p && []q", 1, 1, 0),
        ("<>p || <>q", 2, 4, 1),
    ],
)
def test_size(text: str, state_count: int, transition_count: int, acceptance_count: int) -> None:
    automaton = translate(read_formula(text))
    sizes = (automaton.state_count, len(automaton.target), automaton.acceptance_count)
    assert sizes == (state_count, transition_count, acceptance_count)


@pytest.mark.parametrize(
    "text",
    [
        "false",
        "p && !p",
        "[]p && <>!p",
        "X p && X !p",
        "(p U q) && []!q",
        "[]<>p && <>[]!p",
        "[](p -> X !p) && [](!p -> X p) && <>(p && X p)",
    ],
)
def test_empty_language_is_one_state_without_transitions(text: str) -> None:
    automaton = translate(read_formula(text))
    assert (automaton.state_count, automaton.target, automaton.first) == (1, (), (0, 0))


def test_always_p_in_full() -> None:
    automaton = translate(read_formula("[](p && !a)"))
    assert automaton == Automaton(
        state_count=1,
        initial=0,
        first=(0, 1),
        positive=(1,),
        negative=(1 << 32,),
        target=(0,),
        acceptance=(0,),
        acceptance_count=0,
        recurrent=(True,),
        states=(Holds(Load("p")),),
        actions=(Occurs("a"),),
    )


def proposition(place: int) -> Formula:
    return Holds(Binary("==", Load("x"), Const(place)))


def join(op: BinaryTemporal, parts: list[Formula]) -> Formula:
    whole = parts[0]
    for part in parts[1:]:
        whole = TemporalBinary(op, whole, part)
    return whole


def again(part: Formula) -> Formula:
    return TemporalUnary("[]", TemporalUnary("<>", part))


def response(cause: Formula, effect: Formula) -> Formula:
    return TemporalUnary("[]", TemporalBinary("->", cause, TemporalUnary("<>", effect)))


@pytest.mark.parametrize(
    "formula",
    [
        TemporalUnary(
            "!",
            TemporalBinary(
                "->",
                join("&&", [again(proposition(i)) for i in range(8)]),
                response(proposition(8), proposition(9)),
            ),
        ),
        TemporalUnary(
            "!", join("&&", [response(proposition(2 * i), proposition(2 * i + 1)) for i in range(5)])
        ),
        join("&&", [response(proposition(2 * i), proposition(2 * i + 1)) for i in range(5)]),
        TemporalUnary(
            "!",
            TemporalBinary(
                "->",
                join(
                    "&&",
                    [
                        TemporalBinary("->", again(proposition(2 * i)), again(proposition(2 * i + 1)))
                        for i in range(3)
                    ],
                ),
                response(proposition(6), proposition(7)),
            ),
        ),
        join("U", [proposition(i) for i in range(8)]),
    ],
    ids=["fair-premises", "not-responses", "responses", "strong-premises", "untils"],
)
def test_usual_sizes_are_quick(formula: Formula) -> None:
    start = time.process_time()
    translate(formula)
    assert time.process_time() - start < 2.0  # it takes a tenth of that; an explosion takes minutes


# --- the numbering ---


def test_propositions_come_in_the_order_of_their_first_appearance() -> None:
    formula = read_formula("[](tau -> q) && (p U (q || a)) && true")
    assert propositions(formula) == (Silent(), Q, P, Occurs("a"))
    numbering = number(formula)
    assert numbering.states == (Q, P)
    assert numbering.actions == (Silent(), Occurs("a"))
    assert numbering.bits() == {Q: 0, P: 1, Silent(): 32, Occurs("a"): 33}


def test_automaton_numbers_as_the_formula_does() -> None:
    automaton = translate(read_formula("tau && q && !p && X a"))
    assert automaton.states == (Q, P)
    assert automaton.actions == (Silent(), Occurs("a"))
    first = slice(automaton.first[automaton.initial], automaton.first[automaton.initial + 1])
    assert automaton.positive[first] == (1 | 1 << 32,)
    assert automaton.negative[first] == (2,)


def test_too_many_conditions() -> None:
    translate(join("||", [proposition(i) for i in range(32)]))
    with pytest.raises(ModelError, match="33 different conditions"):
        translate(join("||", [proposition(i) for i in range(33)]))


def test_too_many_actions() -> None:
    translate(join("||", [Occurs(f"a{i}") for i in range(31)]))
    with pytest.raises(ModelError, match="32 different actions"):
        translate(join("||", [*(Occurs(f"a{i}") for i in range(31)), Silent()]))


# --- the normal form ---


@pytest.mark.parametrize(
    ("text", "simpler"),
    [
        ("[][]p", "[]p"),
        ("<><>p", "<>p"),
        ("<>[]<>p", "[]<>p"),
        ("[]<>[]p", "<>[]p"),
        ("X []<>p", "[]<>p"),
        ("p && p", "p"),
        ("p && true", "p"),
        ("p || true", "true"),
        ("p && !p", "false"),
        ("[]p && <>!p", "false"),
        ("p && (p || q)", "p"),
        ("p || (p && q)", "p"),
        ("p && (!p || q)", "p && q"),
        ("X p && X q", "X(p && q)"),
        ("X p || X q", "X(p || q)"),
        ("[]p && []q", "[](p && q)"),
        ("<>p || <>q", "<>(p || q)"),
        ("<>[]p && <>[]q", "<>[](p && q)"),
        ("[]<>p || []<>q", "[]<>(p || q)"),
        ("[]p && p", "[]p"),
        ("<>p && p", "p"),
        ("p U (p U q)", "p U q"),
        ("(p U q) U q", "p U q"),
        ("true U q", "<>q"),
        ("false R q", "[]q"),
        ("<>(p U q)", "<>q"),
        ("[](p R q)", "[]q"),
        ("p U <>q", "<>q"),
        ("p U false", "false"),
        ("(p || q) U q", "p U q"),
        ("(X p) U (X q)", "X(p U q)"),
        ("p U (q && []<>a)", "(p U q) && []<>a"),
        ("!(p -> <>q)", "p && []!q"),
        ("!(p U q)", "!p R !q"),
        ("(p -> q) && (q -> p)", "(!p || q) && (p || !q)"),
    ],
)
def test_simplification(text: str, simpler: str) -> None:
    numbering = number(read_formula("p && q && a"))
    one, other = (normalise(read_formula(t), numbering) for t in (text, simpler))
    assert one == other
