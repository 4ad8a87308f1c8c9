"""Expressions: every operator, and precedence."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.languages.timed.parse_texts import PROCESS, declarations, expression, read
from veristream.languages.timed.syntax import (
    Assignment,
    Binary,
    Call,
    Expression,
    Increment,
    Index,
    IntType,
    Member,
    Name,
    NamedType,
    Number,
    ProcessCall,
    Quantified,
    Ternary,
    Unary,
    Variable,
)

A, B, C, D = (Name(name) for name in "abcd")

# The precedence table of UPPAAL's manual, tightest first, with our normalised spelling.
TABLE = [
    [("*", "*"), ("/", "/"), ("%", "%")],
    [("+", "+"), ("-", "-")],
    [("<<", "<<"), (">>", ">>")],
    [("<?", "<?"), (">?", ">?")],
    [("<", "<"), ("<=", "<="), (">", ">"), (">=", ">=")],
    [("==", "=="), ("!=", "!=")],
    [("&", "&")],
    [("^", "^")],
    [("|", "|")],
    [("&&", "and"), ("and", "and")],
    [("||", "or"), ("or", "or"), ("imply", "imply")],
]
OPERATORS = [(level, *pair) for level, pairs in enumerate(TABLE) for pair in pairs]


@pytest.mark.parametrize(("first", "second"), list(product(OPERATORS, OPERATORS)))
def test_two_operators(first: tuple[int, str, str], second: tuple[int, str, str]) -> None:
    level, sign, op = first
    level_2, sign_2, op_2 = second
    left = Binary(op_2, Binary(op, A, B), C)  # type: ignore[arg-type]
    right = Binary(op, A, Binary(op_2, B, C))  # type: ignore[arg-type]
    assert expression(f"a {sign} b {sign_2} c") == (left if level <= level_2 else right)


SINGLE = [
    ("12", Number(12)),
    ("true", Number(1)),
    ("false", Number(0)),
    ("-a", Unary("-", A)),
    ("+a", Unary("+", A)),
    ("!a", Unary("not", A)),
    ("not a", Unary("not", A)),
    ("not not a", Unary("not", Unary("not", A))),
    ("a++", Increment("++", A, False)),
    ("a--", Increment("--", A, False)),
    ("++a", Increment("++", A, True)),
    ("--a", Increment("--", A, True)),
    ("a[b][c]", Index(Index(A, B), C)),
    ("a.x", Member(A, "x")),
    ("a[b].x[c]", Index(Member(Index(A, B), "x"), C)),
    ("f()", Call("f", ())),
    ("f(a, b + c)", Call("f", (A, Binary("+", B, C)))),
    ("P(1).x", Member(Call("P", (Number(1),)), "x")),
    ("P(1).f(a, b)", ProcessCall(Call("P", (Number(1),)), Call("f", (A, B)))),
    ("a.f()", ProcessCall(A, Call("f", ()))),
    ("(a)", A),
    ("a ? b : c", Ternary(A, B, C)),
    ("a = b", Assignment("=", A, B)),
    ("a := b", Assignment("=", A, B)),
    ("forall (i : T) a", Quantified("forall", "i", NamedType("T"), A)),
    ("exists (i : int[0, 3]) a", Quantified("exists", "i", IntType(Number(0), Number(3)), A)),
    ("sum (i : T) a", Quantified("sum", "i", NamedType("T"), A)),
    ("a xor b", Binary("!=", Unary("not", A), Unary("not", B))),
    ("größe_1", Name("größe_1")),
]


@pytest.mark.parametrize(("text", "expected"), SINGLE)
def test_each_construct(text: str, expected: Expression) -> None:
    assert expression(text) == expected


@pytest.mark.parametrize("op", ["+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="])
def test_changes(op: str) -> None:
    assert expression(f"a {op} b + c") == Assignment(op, A, Binary("+", B, C))  # type: ignore[arg-type]


MIXED = [
    # Signs and negation, `not` included, bind tighter than all binary operators.
    ("-a * b", Binary("*", Unary("-", A), B)),
    ("a - -b", Binary("-", A, Unary("-", B))),
    ("a - - b", Binary("-", A, Unary("-", B))),
    ("not a == b", Binary("==", Unary("not", A), B)),
    ("not a and b", Binary("and", Unary("not", A), B)),
    ("-a[b]", Unary("-", Index(A, B))),
    ("-a++", Unary("-", Increment("++", A, False))),
    ("a++ + ++b", Binary("+", Increment("++", A, False), Increment("++", B, True))),
    # Assignments and `?:` are right-associative.
    ("a = b = c", Assignment("=", A, Assignment("=", B, C))),
    ("a ? b : c ? d : a", Ternary(A, B, Ternary(C, D, A))),
    ("a ? b ? c : d : a", Ternary(A, Ternary(B, C, D), A)),
    ("a or b ? c : d", Ternary(Binary("or", A, B), C, D)),
    ("a = b ? c : d", Assignment("=", A, Ternary(B, C, D))),
    ("a ? b : c = d", Ternary(A, B, Assignment("=", C, D))),
    ("a ? b = c : d", Ternary(A, Assignment("=", B, C), D)),
    # So is `**`, which binds tighter than `*` and looser than a sign.
    ("a ** b ** c", Binary("**", A, Binary("**", B, C))),
    ("a * b ** c", Binary("*", A, Binary("**", B, C))),
    ("a ** b * c", Binary("*", Binary("**", A, B), C)),
    ("-a ** b", Binary("**", Unary("-", A), B)),
    # A quantifier extends to the end, wherever it starts.
    (
        "a and forall (i : T) b or c",
        Binary("and", A, Quantified("forall", "i", NamedType("T"), Binary("or", B, C))),
    ),
    (
        "(forall (i : T) b) or c",
        Binary("or", Quantified("forall", "i", NamedType("T"), B), C),
    ),
    (
        "not exists (i : T) b and c",
        Unary("not", Quantified("exists", "i", NamedType("T"), Binary("and", B, C))),
    ),
    (
        "forall (i : T) exists (j : T) a ? b : c",
        Quantified(
            "forall", "i", NamedType("T"), Quantified("exists", "j", NamedType("T"), Ternary(A, B, C))
        ),
    ),
    ("a imply b imply c", Binary("imply", Binary("imply", A, B), C)),
    ("a or b imply c or d", Binary("or", Binary("imply", Binary("or", A, B), C), D)),
    ("a < b == c < d", Binary("==", Binary("<", A, B), Binary("<", C, D))),
]


@pytest.mark.parametrize(("text", "expected"), MIXED)
def test_mixed(text: str, expected: Expression) -> None:
    assert expression(text) == expected


def test_span_of_each_part() -> None:
    text = f"int x = a + (b *\n  c[d]); {PROCESS}"
    (found,) = read(text).declarations
    assert isinstance(found, Variable)
    total = found.initial
    assert isinstance(total, Binary) and isinstance(total.right, Binary)
    parts = [total, total.left, total.right, total.right.left, total.right.right]
    assert [text[part.span.start : part.span.end] for part in parts] == [
        "a + (b *\n  c[d])",
        "a",
        "(b *\n  c[d])",
        "b",
        "c[d]",
    ]
    assert (total.right.right.span.line, total.right.right.span.column) == (2, 3)


# Printed with all parentheses, or with as few as possible, a tree parses to itself.


def trees() -> st.SearchStrategy[Expression]:
    """Generates expressions of binary operators, signs and conditionals."""
    names = st.sampled_from([A, B, C, D])
    ops = st.sampled_from(sorted({op for _, _, op in OPERATORS}))
    return st.recursive(
        names,
        lambda inner: st.one_of(
            st.builds(Binary, ops, inner, inner),
            st.builds(Unary, st.sampled_from(["-", "not"]), inner),
            st.builds(Ternary, inner, inner, inner),
            st.builds(Assignment, st.just("="), inner, inner),
        ),
        max_leaves=12,
    )


LEVEL = {op: level for level, _, op in OPERATORS}
LOOSEST = len(TABLE)


def write(tree: Expression, spare: bool, loosest: int = LOOSEST) -> str:
    """Prints the tree; with `spare`, only with the necessary parentheses."""
    match tree:
        case Name(name):
            return name
        case Unary(op, operand):
            level, text = -1, f"{op} {write(operand, spare, -1)}"
        case Binary(op, left, right):
            level = LEVEL[op]
            text = f"{write(left, spare, level)} {op} {write(right, spare, level - 1)}"
        case Ternary(condition, then, otherwise):
            level = LOOSEST
            text = (
                f"{write(condition, spare, LOOSEST - 1)} ? {write(then, spare)} : {write(otherwise, spare)}"
            )
        case Assignment(op, target, value):
            level = LOOSEST
            text = f"{write(target, spare, LOOSEST - 1)} {op} {write(value, spare)}"
        case _:
            raise AssertionError(tree)
    return text if spare and level <= loosest else f"({text})"


@settings(max_examples=60, deadline=None)
@given(tree=trees(), spare=st.booleans())
def test_printed_trees_parse_to_themselves(tree: Expression, spare: bool) -> None:
    assert expression(write(tree, spare)) == tree


def test_names_that_are_keywords_elsewhere() -> None:
    found = declarations("int deadlock, sup, E, U, priority, gantt, progress, random;")
    assert [item.name for item in found if isinstance(item, Variable)] == [
        *("deadlock", "sup", "E", "U", "priority", "gantt", "progress", "random"),
    ]
