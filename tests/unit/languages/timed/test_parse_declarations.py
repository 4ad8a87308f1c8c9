"""Declarations, types, parameters and statements."""

from __future__ import annotations

import pytest

from tests.unit.languages.timed.parse_texts import declarations, error, marked, read, statements
from veristream.languages.timed.syntax import (
    Assignment,
    Binary,
    Block,
    Call,
    ChannelPriority,
    ChannelType,
    Declaration,
    Evaluate,
    For,
    ForEach,
    Function,
    If,
    Increment,
    Index,
    InitialList,
    IntType,
    Name,
    NamedType,
    Nothing,
    Number,
    Parameter,
    PlainType,
    Return,
    ScalarType,
    Statement,
    StructField,
    StructType,
    Type,
    TypeDefinition,
    Unary,
    Variable,
    While,
)

INT, BOOL, CLOCK, VOID, CHAN = (
    IntType(),
    PlainType("bool"),
    PlainType("clock"),
    PlainType("void"),
    ChannelType(),
)
X, Y, N = (Name(name) for name in "xyN")

DECLARED: list[tuple[str, tuple[Declaration, ...]]] = [
    ("", ()),
    (";;", ()),
    ("int x;", (Variable("x", INT),)),
    ("int x, y = 2;", (Variable("x", INT), Variable("y", INT, initial=Number(2)))),
    ("int x := 0;", (Variable("x", INT, initial=Number(0)),)),
    ("int[-1, N] x;", (Variable("x", IntType(Unary("-", Number(1)), N)),)),
    ("bool x = true;", (Variable("x", BOOL, initial=Number(1)),)),
    ("clock x, y[3];", (Variable("x", CLOCK), Variable("y", CLOCK, (Number(3),)))),
    ("const int N = 3;", (Variable("N", INT, initial=Number(3), constant=True),)),
    ("meta bool x;", (Variable("x", BOOL, meta=True),)),
    ("int x[N][2];", (Variable("x", INT, (N, Number(2))),)),
    ("int x[int[0, 3]];", (Variable("x", INT, (IntType(Number(0), Number(3)),)),)),
    ("chan x[bool];", (Variable("x", CHAN, (BOOL,)),)),
    ("scalar[3] x;", (Variable("x", ScalarType(Number(3))),)),
    ("T x;", (Variable("x", NamedType("T")),)),
    ("const T N = 1;", (Variable("N", NamedType("T"), initial=Number(1), constant=True),)),
    ("chan x;", (Variable("x", CHAN),)),
    ("urgent chan x;", (Variable("x", ChannelType(urgent=True)),)),
    ("broadcast chan x;", (Variable("x", ChannelType(broadcast=True)),)),
    ("urgent broadcast chan x;", (Variable("x", ChannelType(True, True)),)),
    ("broadcast urgent chan x;", (Variable("x", ChannelType(True, True)),)),
    ("urgent T x;", (Variable("x", NamedType("T", urgent=True)),)),
    (
        "int x[2][2] = { {1, 2}, {N, 4} };",
        (
            Variable(
                "x",
                INT,
                (Number(2), Number(2)),
                InitialList(
                    (
                        (None, InitialList(((None, Number(1)), (None, Number(2))))),
                        (None, InitialList(((None, N), (None, Number(4))))),
                    )
                ),
            ),
        ),
    ),
    (
        "T x = { y: 1, 2 };",
        (Variable("x", NamedType("T"), initial=InitialList((("y", Number(1)), (None, Number(2))))),),
    ),
    (
        "struct { int x, y[2]; bool z; } s;",
        (
            Variable(
                "s",
                StructType(
                    (
                        StructField("x", INT),
                        StructField("y", INT, (Number(2),)),
                        StructField("z", BOOL),
                    )
                ),
            ),
        ),
    ),
    (
        "typedef int[0, 3] T, S[2];",
        (
            TypeDefinition("T", IntType(Number(0), Number(3))),
            TypeDefinition("S", IntType(Number(0), Number(3)), (Number(2),)),
        ),
    ),
    ("typedef const int[0, 3] T;", (TypeDefinition("T", IntType(Number(0), Number(3))),)),
    ("typedef struct { meta int x; } T;", (TypeDefinition("T", StructType((StructField("x", INT),))),)),
    (
        "chan priority x, y[0] < default < z[N][1];",
        (
            ChannelPriority(
                (
                    (X, Index(Y, Number(0))),
                    (Name("default"),),
                    (Index(Index(Name("z"), N), Number(1)),),
                )
            ),
        ),
    ),
    # Constants in the syntax of UPPAAL 3.
    ("const N 5;", (Variable("N", INT, initial=Number(5), constant=True),)),
    (
        "const x -5, y (N + 1);",
        (
            Variable("x", INT, initial=Unary("-", Number(5)), constant=True),
            Variable("y", INT, initial=Binary("+", N, Number(1)), constant=True),
        ),
    ),
    (
        "const x[2] {1, 2};",
        (
            Variable(
                "x",
                INT,
                (Number(2),),
                InitialList(((None, Number(1)), (None, Number(2)))),
                constant=True,
            ),
        ),
    ),
    ("/* one */ int x; // two\n/* int y;\n */ int z;", (Variable("x", INT), Variable("z", INT))),
]


@pytest.mark.parametrize(("text", "expected"), DECLARED)
def test_declarations(text: str, expected: tuple[Declaration, ...]) -> None:
    assert declarations(text) == expected


def shape_of(text: str) -> tuple[object, ...]:
    """Returns the shape of the last declared variable."""
    last = declarations(text)[-1]
    assert isinstance(last, Variable)
    return last.shape


def test_a_name_in_a_shape_is_a_type_if_declared() -> None:
    assert shape_of("typedef int[0, 3] T; int x[T];") == (NamedType("T"),)
    assert shape_of("const int T = 3; int x[T];") == (Name("T"),)
    assert shape_of("int x[uint8_t];") == (NamedType("uint8_t"),)
    assert shape_of("typedef int[0, 3] T; int x[T - 1];") == (Binary("-", Name("T"), Number(1)),)


def test_types_have_scopes() -> None:
    inside = "void f() { typedef int[0, 1] T; int y[T]; } void g() { int y[T]; }"
    shapes = [
        [local.shape for local in function.body.declarations if isinstance(local, Variable)]
        for function in declarations(inside)
        if isinstance(function, Function)
    ]
    assert shapes == [[(NamedType("T"),)], [(Name("T"),)]]
    hidden = "typedef int[0, 1] T; void f(int T) { int y[T]; }"
    function = declarations(hidden)[1]
    assert isinstance(function, Function)
    assert function.body.declarations == (Variable("y", INT, (Name("T"),)),)


PARAMETERS: list[tuple[str, tuple[Parameter, ...]]] = [
    ("", ()),
    ("int x", (Parameter("x", INT),)),
    ("int &x", (Parameter("x", INT, reference=True),)),
    ("int& x, T y", (Parameter("x", INT, reference=True), Parameter("y", NamedType("T")))),
    ("const int x", (Parameter("x", INT, constant=True),)),
    ("const T x", (Parameter("x", NamedType("T"), constant=True),)),
    ("const T &x", (Parameter("x", NamedType("T"), reference=True, constant=True),)),
    ("T &x[N]", (Parameter("x", NamedType("T"), (N,), reference=True),)),
    ("urgent chan &x", (Parameter("x", ChannelType(urgent=True), reference=True),)),
    # The syntax of UPPAAL 3: all but constants by reference, and one type for all names up to `;`.
    (
        "clock x, y; const N; int[0, 1] i",
        (
            Parameter("x", CLOCK, reference=True),
            Parameter("y", CLOCK, reference=True),
            Parameter("N", INT, constant=True),
            Parameter("i", IntType(Number(0), Number(1)), reference=True),
        ),
    ),
    (
        "const x, y[2]",
        (Parameter("x", INT, constant=True), Parameter("y", INT, (Number(2),), constant=True)),
    ),
]


@pytest.mark.parametrize(("text", "expected"), PARAMETERS)
def test_parameters(text: str, expected: tuple[Parameter, ...]) -> None:
    assert declarations(f"void f({text}) {{ }}") == (Function("f", VOID, expected, Block((), ())),)
    system = read(f"process P({text}) {{ state A; init A; }} Q({text}) = P(); system P;")
    assert system.templates[0].parameters == expected
    assert system.instantiations[0].parameters == expected


@pytest.mark.parametrize("result", [INT, BOOL, VOID, NamedType("T"), IntType(Number(0), Number(1))])
def test_results(result: Type) -> None:
    words = {"NamedType": "T", "PlainType": getattr(result, "kind", ""), "IntType": "int"}
    text = "int[0, 1]" if result == IntType(Number(0), Number(1)) else words[type(result).__name__]
    assert declarations(f"{text} f() {{ return x; }}") == (
        Function("f", result, (), Block((), (Return(X),))),
    )


STEP = Evaluate(Increment("++", X, False))
STATEMENTS: list[tuple[str, Statement]] = [
    (";", Nothing()),
    ("x++;", STEP),
    ("x = 1;", Evaluate(Assignment("=", X, Number(1)))),
    ("f(x);", Evaluate(Call("f", (X,)))),
    ("return;", Return()),
    ("return x;", Return(X)),
    ("{ }", Block((), ())),
    ("{ int y; x++; }", Block((Variable("y", INT),), (STEP,))),
    ("while (x) x++;", While(X, STEP)),
    ("do x++; while (x);", While(X, STEP, body_first=True)),
    ("if (x) x++;", If(X, STEP)),
    ("if (x) x++; else ;", If(X, STEP, Nothing())),
    ("if (x) if (y) x++; else ;", If(X, If(Y, STEP, Nothing()))),
    ("if (x) { if (y) x++; } else ;", If(X, Block((), (If(Y, STEP),)), Nothing())),
    ("if (x) ; else if (y) x++;", If(X, Nothing(), If(Y, STEP))),
    ("for (i : T) x++;", ForEach("i", NamedType("T"), STEP)),
    ("for (i : int[0, N]) { }", ForEach("i", IntType(Number(0), N), Block((), ()))),
    ("for (;;) x++;", For((), None, (), STEP)),
    (
        "for (i = 0, y = 1; i < N; i++, y--) x++;",
        For(
            (Assignment("=", Name("i"), Number(0)), Assignment("=", Y, Number(1))),
            Binary("<", Name("i"), N),
            (Increment("++", Name("i"), False), Increment("--", Y, False)),
            STEP,
        ),
    ),
]


@pytest.mark.parametrize(("text", "expected"), STATEMENTS)
def test_statements(text: str, expected: Statement) -> None:
    assert statements(text) == (expected,)


def test_declarations_of_a_body() -> None:
    (found,) = declarations("int f() { typedef int[0, 1] T; T x = 1, y; clock c; return x; }")
    local = (
        TypeDefinition("T", IntType(Number(0), Number(1))),
        Variable("x", NamedType("T"), initial=Number(1)),
        Variable("y", NamedType("T")),
        Variable("c", CLOCK),
    )
    assert found == Function("f", INT, (), Block(local, (Return(X),)))


def test_overridden_constants() -> None:
    text = "const int N = 3, M = N; const K 1; int x = N; process P() { state A; init A; } system P;"
    found = read(text, {"N": 7, "K": -2}).declarations
    assert [item.initial for item in found if isinstance(item, Variable)] == [
        Number(7),
        N,
        Number(-2),
        N,
    ]
    wrong = error(text, {"x": 1})
    assert wrong.message == "the model has no constant `x` to set"
    assert wrong.hint == "the constants are: `N`, `M`, `K`"


def test_positions_of_declarations() -> None:
    text = "int x;\n  int[0, 2] abc[3] = 4; process P() { state A; init A; } system P;"
    found = read(text).declarations[1]
    assert text[found.span.start : found.span.end] == "abc[3] = 4"
    assert (found.span.line, found.span.column) == (2, 13)
    assert marked(error("int x = (1; system P;")) == "("
