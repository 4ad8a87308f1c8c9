"""Temporal formulas and words for tests: read from text, or drawn at random.

The propositions are `p` and `q` of states, `a` and `tau` of actions. A word is a lasso: a beginning
and a part that repeats forever, each a sequence of letters; a letter is the set of the propositions
that hold.
"""

from __future__ import annotations

import re
from typing import get_args

from hypothesis import strategies as st

from veristream.ir.expr import FALSE, TRUE, Load
from veristream.ir.property import (
    BinaryTemporal,
    Formula,
    Holds,
    Occurs,
    Silent,
    TemporalBinary,
    TemporalUnary,
    UnaryTemporal,
)

Letter = frozenset[Formula]
Word = tuple[tuple[Letter, ...], tuple[Letter, ...]]

PROPOSITIONS: dict[str, Formula] = {
    "p": Holds(Load("p")),
    "q": Holds(Load("q")),
    "a": Occurs("a"),
    "tau": Silent(),
}
_CONSTANTS: dict[str, Formula] = {"true": Holds(TRUE), "false": Holds(FALSE)}
_LEVELS = (("<->",), ("->",), ("||",), ("&&",), ("U", "R", "W"))
_TOKEN = re.compile(r"\s*(<->|->|\|\||&&|\[\]|<>|[!XURW()]|[a-z]+)")


def read_formula(text: str) -> Formula:
    """Reads Spin's notation; binary operators associate to the right, and W is weak until."""
    tokens = _TOKEN.findall(text)
    assert "".join(tokens) == "".join(text.split()), text
    formula = _read_level(tokens, 0)
    assert not tokens, text
    return formula


def _read_level(tokens: list[str], level: int) -> Formula:
    if level == len(_LEVELS):
        return _read_operand(tokens)
    left = _read_level(tokens, level + 1)
    if not tokens or tokens[0] not in _LEVELS[level]:
        return left
    op = tokens.pop(0)
    right = _read_level(tokens, level)
    if op == "W":
        return TemporalBinary("||", TemporalUnary("[]", left), TemporalBinary("U", left, right))
    return TemporalBinary(next(known for known in get_args(BinaryTemporal) if known == op), left, right)


def _read_operand(tokens: list[str]) -> Formula:
    token = tokens.pop(0)
    if token == "(":
        inner = _read_level(tokens, 0)
        assert tokens.pop(0) == ")"
        return inner
    unary = [known for known in get_args(UnaryTemporal) if known == token]
    if unary:
        return TemporalUnary(unary[0], _read_operand(tokens))
    return (PROPOSITIONS | _CONSTANTS)[token]


def formulas(depth: int, names: str = "p q a") -> st.SearchStrategy[Formula]:
    """Formulas of at most the depth over the named propositions."""
    leaves = [PROPOSITIONS[name] for name in names.split()]
    formula: st.SearchStrategy[Formula] = st.sampled_from([*leaves, *leaves, *_CONSTANTS.values()])
    for _ in range(depth):
        formula = st.one_of(
            st.sampled_from(leaves),
            st.builds(TemporalUnary, st.sampled_from(get_args(UnaryTemporal)), formula),
            st.builds(TemporalBinary, st.sampled_from(get_args(BinaryTemporal)), formula, formula),
        )
    return formula


def letters(names: str = "p q a") -> st.SearchStrategy[Letter]:
    """Sets of the named propositions."""
    return st.frozensets(st.sampled_from([PROPOSITIONS[name] for name in names.split()]))


def words(names: str = "p q a", length_max: int = 3) -> st.SearchStrategy[Word]:
    """Lassos whose beginning and cycle have at most the length."""
    part = st.lists(letters(names), max_size=length_max).map(tuple)
    cycle = st.lists(letters(names), min_size=1, max_size=length_max).map(tuple)
    return st.tuples(part, cycle)
