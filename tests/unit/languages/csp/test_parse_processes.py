"""Processes: each construct is read as the node it means."""

from __future__ import annotations

import pytest

from tests.unit.languages.csp.reading import body, read
from veristream.languages.csp.syntax import (
    Assert,
    Assign,
    Atomic,
    Binary,
    Binder,
    Bound,
    Case,
    Choice,
    Conditional,
    Copies,
    Domain,
    Event,
    Events,
    Global,
    Guard,
    Hide,
    Index,
    Input,
    Interrupt,
    Number,
    Output,
    Parallel,
    Prefix,
    Process,
    Ref,
    Replicated,
    Sequence,
    Skip,
    Stop,
)

A, B, C = Ref("A"), Ref("B"), Ref("C")
X, Y, AN_I = Global("x"), Global("y"), Bound("i")
ONE, TWO = Number(1), Number(2)
TO_TWO = Index("k", Domain(Number(0), TWO))
X_IS_1 = Binary("==", X, ONE)
SET_X = (Assign(X, ONE),)


def prefix(name: str, then: Process, *arguments: int) -> Prefix:
    return Prefix(Event(name, tuple(Number(value) for value in arguments)), None, then)


TERMS: list[tuple[str, Process]] = [
    ("Skip", Skip()),
    ("Skip()", Skip()),
    ("Stop", Stop()),
    ("Stop ( )", Stop()),
    ("A", A),
    ("A()", A),
    ("((A))", A),
    ("P(1+1)", Ref("P", (TWO,))),
    ("P(x)", Ref("P", (X,))),
    ("P(true)", Ref("P", (ONE,))),
    ("t -> A", prefix("t", A)),
    ("t -> u -> A", prefix("t", prefix("u", A))),
    ("t.1.x -> A", Prefix(Event("t", (ONE, X)), None, A)),
    ("t.(x+1) -> A", Prefix(Event("t", (Binary("+", X, ONE),)), None, A)),
    ("t.(x+1)%N -> A", Prefix(Event("t", (Binary("%", Binary("+", X, ONE), Number(3)),)), None, A)),
    ("t.a[x].green -> A", Prefix(Event("t", (Global("a", (X,)), ONE)), None, A)),
    ("t.-1 -> A", prefix("t", A, -1)),
    ("t{x = 1} -> A", Prefix(Event("t"), SET_X, A)),
    ("t.1{x = 1;} -> A", Prefix(Event("t", (ONE,)), SET_X, A)),
    ("t{} -> A", Prefix(Event("t"), (), A)),
    ("{x = 1} -> A", Prefix(None, SET_X, A)),
    ("tau -> A", Prefix(None, None, A)),
    ("tau{x = 1;} -> A", Prefix(None, SET_X, A)),
    ("(t, u.1) -> A", Choice("general", (prefix("t", A), prefix("u", A, 1)))),
    ("(t) -> A", prefix("t", A)),
    ("atomic{t -> A}", Atomic(prefix("t", A))),
    ("t -> atomic{A}; B", Sequence(prefix("t", Atomic(A)), B)),
    ("assert(x == 1)", Assert(X_IS_1)),
    ("[x == 1] A", Guard(X_IS_1, A)),
    ("[x == 1][ok] A", Guard(X_IS_1, Guard(Global("ok"), A))),
    ("t -> [x == 1] u -> A", prefix("t", Guard(X_IS_1, prefix("u", A)))),
]

CHANNELS: list[tuple[str, Process]] = [
    ("c!1 -> A", Output("c", (), (ONE,), None, A)),
    ("c!1.x.(y+1) -> A", Output("c", (), (ONE, X, Binary("+", Y, ONE)), None, A)),
    ("c!x{x = 1} -> A", Output("c", (), (X,), SET_X, A)),
    ("c! -> A", Output("c", (), (), None, A)),
    ("c!{x = 1} -> A", Output("c", (), (), SET_X, A)),
    ("c!-1 -> A", Output("c", (), (Number(-1),), None, A)),
    ("e[x]!y -> A", Output("e", (X,), (Y,), None, A)),
    ("f[0][x+1]!y -> A", Output("f", (Number(0), Binary("+", X, ONE)), (Y,), None, A)),
    ("c? -> A", Input("c", (), (), None, None, A)),
    ("c?v -> P(v)", Input("c", (), (Binder("v"),), None, None, Ref("P", (Bound("v"),)))),
    ("c?v.w -> A", Input("c", (), (Binder("v"), Binder("w")), None, None, A)),
    ("c?1.v -> A", Input("c", (), (ONE, Binder("v")), None, None, A)),
    ("c?-1 -> A", Input("c", (), (Number(-1),), None, None, A)),
    ("c?green.N -> A", Input("c", (), (ONE, Number(3)), None, None, A)),
    ("c?(x) -> A", Input("c", (), (X,), None, None, A)),
    ("c?goal -> A", Input("c", (), (X_IS_1,), None, None, A)),
    ("c?x -> P(x)", Input("c", (), (Binder("x"),), None, None, Ref("P", (Bound("x"),)))),
    ("c?[v > 1]v -> A", Input("c", (), (Binder("v"),), Binary(">", Bound("v"), ONE), None, A)),
    (
        "c?v{x = v} -> A",
        Input("c", (), (Binder("v"),), None, (Assign(X, Bound("v")),), A),
    ),
    (
        "c?v -> c?v.w -> A",
        Input(
            "c", (), (Binder("v"),), None, None, Input("c", (), (Bound("v"), Binder("w")), None, None, A)
        ),
    ),
    (
        "e[2]?[v == 1]v.2{x = 1} -> A",
        Input("e", (TWO,), (Binder("v"), TWO), Binary("==", Bound("v"), ONE), SET_X, A),
    ),
    ("d.1 -> A", prefix("d", A, 1)),
]

OPERATORS: list[tuple[str, Process]] = [
    ("A ||| B ||| C", Parallel(True, (A, B, C))),
    ("A || B || C", Parallel(False, (A, B, C))),
    ("A [] B [] C", Choice("general", (A, B, C))),
    ("A [*] B [*] C", Choice("external", (A, B, C))),
    ("A <> B <> C", Choice("internal", (A, B, C))),
    ("A; B; C", Sequence(Sequence(A, B), C)),
    ("A interrupt B interrupt C", Interrupt(Interrupt(A, B), C)),
    ("A ||| (B ||| C)", Parallel(True, (A, Parallel(True, (B, C))))),
    ("A || B ||| C", Parallel(True, (Parallel(False, (A, B)), C))),
    ("A ||| B || C", Parallel(True, (A, Parallel(False, (B, C))))),
    ("A [] B || C", Parallel(False, (Choice("general", (A, B)), C))),
    ("A [] B <> C", Choice("general", (A, Choice("internal", (B, C))))),
    ("A <> B [*] C", Choice("internal", (A, Choice("external", (B, C))))),
    ("A [*] B interrupt C", Choice("external", (A, Interrupt(B, C)))),
    ("A interrupt B; C", Interrupt(A, Sequence(B, C))),
    ("t -> A; B", Sequence(prefix("t", A), B)),
    ("t -> (A; B)", prefix("t", Sequence(A, B))),
    ("t -> A [] u -> B", Choice("general", (prefix("t", A), prefix("u", B)))),
    ("[x == 1] t -> A [] u -> B", Choice("general", (Guard(X_IS_1, prefix("t", A)), prefix("u", B)))),
    ("A \\ {t}", Hide(A, (Events(Event("t")),))),
    ("t -> A \\ {t}", Hide(prefix("t", A), (Events(Event("t")),))),
    ("A; B \\ {t}", Hide(Sequence(A, B), (Events(Event("t")),))),
    ("A [] B \\{t}", Choice("general", (A, Hide(B, (Events(Event("t")),))))),
    ("A \\ {t} \\ {u}", Hide(Hide(A, (Events(Event("t")),)), (Events(Event("u")),))),
    ("A \\ {}", Hide(A, ())),
    (
        "A \\ {t.0, u, k:{0..2}@v.k}",
        Hide(
            A,
            (
                Events(Event("t", (Number(0),))),
                Events(Event("u")),
                Events(Event("v", (Bound("k"),)), (TO_TWO,)),
            ),
        ),
    ),
]

INDEXED: list[tuple[str, Process]] = [
    ("|||k:{0..N-1}@P(k)", Replicated("interleave", (TO_TWO,), Ref("P", (Bound("k"),)))),
    ("|| k:{0..2} @ A", Replicated("parallel", (TO_TWO,), A)),
    ("[]k:{0..2}@A", Replicated("general", (TO_TWO,), A)),
    ("[*]k:{0..2}@A", Replicated("external", (TO_TWO,), A)),
    ("<>k:{0..2}@A", Replicated("internal", (TO_TWO,), A)),
    (";k:{0..2}@A", Replicated("sequence", (TO_TWO,), A)),
    (
        "||k:{0..2};l:{1,3}@A",
        Replicated("parallel", (TO_TWO, Index("l", Domain(values=(ONE, Number(3))))), A),
    ),
    ("|||k:{i..i+1}@A", Replicated("interleave", (Index("k", Domain(AN_I, Binary("+", AN_I, ONE))),), A)),
    ("|||k:{0..2}@(A ||| B)", Replicated("interleave", (TO_TWO,), Parallel(True, (A, B)))),
    ("|||k:{0..2}@A ||| B", Replicated("interleave", (TO_TWO,), Parallel(True, (A, B)))),
    ("(|||k:{0..2}@A) ||| B", Parallel(True, (Replicated("interleave", (TO_TWO,), A), B))),
    ("A ||| []k:{0..2}@B", Parallel(True, (A, Replicated("general", (TO_TWO,), B)))),
    ("A; (;k:{0..2}@B)", Sequence(A, Replicated("sequence", (TO_TWO,), B))),
    ("A; ;k:{0..2}@B", Sequence(A, Replicated("sequence", (TO_TWO,), B))),
    ("|||{5}@A", Copies(Number(5), A)),
    ("|||{N}@ t -> Skip", Copies(Number(3), prefix("t", Skip()))),
    ("|||{..}@A", Copies(None, A)),
    ("A ||| {x = 1} -> B", Parallel(True, (A, Prefix(None, SET_X, B)))),
]

CONDITIONS: list[tuple[str, Process]] = [
    ("if (x == 1) {A}", Conditional(X_IS_1, A, Skip())),
    ("if (x == 1) {A} else {B}", Conditional(X_IS_1, A, B)),
    ("if (x == 1) {A} else if (ok) {B}", Conditional(X_IS_1, A, Conditional(Global("ok"), B, Skip()))),
    ("ifa (x == 1) {A} else {B}", Conditional(X_IS_1, A, B, atomic=True)),
    (
        "ifa (x == 1) {A} else ifa (ok) {B}",
        Conditional(X_IS_1, A, Conditional(Global("ok"), B, Skip(), True), True),
    ),
    ("ifb (x == 1) {A}", Guard(X_IS_1, A)),
    ("if (x == 1) {{x = 1} -> A}; B", Sequence(Conditional(X_IS_1, Prefix(None, SET_X, A), Skip()), B)),
    ("t -> if (x == 1) {A} else {B}", prefix("t", Conditional(X_IS_1, A, B))),
    ("if (goal) {A}", Conditional(X_IS_1, A, Skip())),
    ("case { x == 1: A default: B }", Case(((X_IS_1, A),), B)),
    (
        "case { x == 1: t -> A ok: B; C }",
        Case(((X_IS_1, prefix("t", A)), (Global("ok"), Sequence(B, C))), Skip()),
    ),
    ("case { x == 1: A() (x == 1): B }", Case(((X_IS_1, A), (X_IS_1, B)), Skip())),
]


@pytest.mark.parametrize(("text", "meant"), TERMS, ids=[text for text, _ in TERMS])
def test_terms(text: str, meant: Process) -> None:
    assert body(text) == meant


@pytest.mark.parametrize(("text", "meant"), CHANNELS, ids=[text for text, _ in CHANNELS])
def test_channels(text: str, meant: Process) -> None:
    assert body(text) == meant


@pytest.mark.parametrize(("text", "meant"), OPERATORS, ids=[text for text, _ in OPERATORS])
def test_operators(text: str, meant: Process) -> None:
    assert body(text) == meant


@pytest.mark.parametrize(("text", "meant"), INDEXED, ids=[text for text, _ in INDEXED])
def test_indexed(text: str, meant: Process) -> None:
    assert body(text, "i") == meant


@pytest.mark.parametrize(("text", "meant"), CONDITIONS, ids=[text for text, _ in CONDITIONS])
def test_conditions(text: str, meant: Process) -> None:
    assert body(text) == meant


def test_case_with_a_negated_condition_after_a_name() -> None:
    negated = read("var b = true; A = a -> A; T = case { b: A !b: A };").definitions[-1].body
    assert isinstance(negated, Case)
    assert [show for _, show in negated.branches] == [A, A]


def test_an_input_matches_a_name_that_is_already_bound() -> None:
    demanding = body("c?i.v -> A", "i")
    assert demanding == Input("c", (), (AN_I, Binder("v")), None, None, A)


def test_the_scope_of_an_input_ends_with_its_chain() -> None:
    both = body("(c?v -> P(v)) [] (c?v -> P(v))")
    one = Input("c", (), (Binder("v"),), None, None, Ref("P", (Bound("v"),)))
    assert both == Choice("general", (one, one))


def test_a_long_chain_is_read() -> None:
    process = body("t -> " * 1500 + "A")
    count = 0
    while isinstance(process, Prefix):
        process, count = process.then, count + 1
    assert (count, process) == (1500, A)


def test_a_semicolon_ends_a_definition_or_joins_processes() -> None:
    spec = read("P = a -> Skip; Q; R(1);\nQ = b -> Skip;\nR(i) = Skip; case { i == 1: Q }; P;\nvar x;")
    assert [definition.name for definition in spec.definitions] == ["P", "Q", "R"]
    assert spec.definitions[0].body == Sequence(Sequence(prefix("a", Skip()), Ref("Q")), Ref("R", (ONE,)))


def test_spans_cover_the_source_text() -> None:
    text = "P = a.1 -> b -> Skip;\nQ = P() ||| P();"
    first, second = read(text).definitions

    def covered(span: object) -> str:
        return text[span.start : span.end]  # type: ignore[attr-defined]

    assert isinstance(first.body, Prefix) and first.body.event is not None
    assert covered(first.span) == "P"
    assert covered(first.body.span) == "a.1 -> b -> Skip"
    assert covered(first.body.event.span) == "a.1"
    assert covered(second.body.span) == "P() ||| P()"
    assert isinstance(second.body, Parallel)
    assert covered(second.body.branches[1].span) == "P()"
    assert second.body.branches[1].span.line == 2
