"""Queries in XML files and in `.q` files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.languages.timed.parse_texts import PROCESS, formula, marked, nta, query_error, read
from veristream.languages.timed.read.parse import read_system
from veristream.languages.timed.syntax import (
    Binary,
    Call,
    Deadlock,
    Expression,
    ExtremeQuery,
    LeadsToQuery,
    Member,
    Name,
    NamedType,
    Number,
    PathQuery,
    Quantified,
    Query,
    System,
    Unary,
    UnreadQuery,
)
from veristream.source import read_source

P, Q, X = Name("p"), Name("q"), Name("x")
NO_DEADLOCK: Expression = Unary("not", Deadlock())

QUERIES: list[tuple[str, Query]] = [
    ("A[] p", PathQuery("A[]", P, "A[] p")),
    ("E<> p", PathQuery("E<>", P, "E<> p")),
    ("E[] p", PathQuery("E[]", P, "E[] p")),
    ("A<> p", PathQuery("A<>", P, "A<> p")),
    ("A[]p", PathQuery("A[]", P, "A[]p")),
    ("A [ ] p", PathQuery("A[]", P, "A [ ] p")),
    ("A[] not deadlock", PathQuery("A[]", NO_DEADLOCK, "A[] not deadlock")),
    ("p --> q", LeadsToQuery(P, Q, "p --> q")),
    ("p-->q", LeadsToQuery(P, Q, "p-->q")),
    ("A == E --> q", LeadsToQuery(Binary("==", Name("A"), Name("E")), Q, "A == E --> q")),
    ("sup: x", ExtremeQuery("sup", None, (X,), "sup: x")),
    ("inf{p}: x, q", ExtremeQuery("inf", P, (X, Q), "inf{p}: x, q")),
    ("bounds{p or q}: x", ExtremeQuery("bounds", Binary("or", P, Q), (X,), "bounds{p or q}: x")),
    (
        "A[] forall (i : id_t) P(i).A imply x <= 5",
        PathQuery(
            "A[]",
            Quantified(
                "forall",
                "i",
                NamedType("id_t"),
                Binary(
                    "imply",
                    Member(Call("P", (Name("i"),)), "A"),
                    Binary("<=", X, Number(5)),
                ),
            ),
            "A[] forall (i : id_t) P(i).A imply x <= 5",
        ),
    ),
    ("  E<> /* here */ p  // done\n  and\t\\\n q ", PathQuery("E<>", Binary("and", P, Q), "E<> p and q")),
    (
        "E<> P.init && state",
        PathQuery("E<>", Binary("and", Member(Name("P"), "init"), Name("state")), "E<> P.init && state"),
    ),
]


@pytest.mark.parametrize(("text", "expected"), QUERIES)
def test_queries(text: str, expected: Query) -> None:
    assert read(nta(queries=formula(text))).queries == (expected,)


def test_comments_and_empty_queries() -> None:
    queries = (
        "<queries><query><formula/><comment>none</comment></query>"
        "<query><formula>E&lt;&gt; p</formula><comment> It\nhappens. </comment>"
        '<option key="--search-order" value="1"/><expect outcome="success" type="symbolic"/></query>'
        "<query><formula>// later</formula></query></queries>"
    )
    assert read(nta(queries=queries)).queries == (PathQuery("E<>", P, "E<> p", "It\nhappens."),)


UNSUPPORTED = [
    ("Pr[<=10](<> p)", "Pr", "statistical"),
    ("Pr[#<=10; 100]([] p) >= 0.5", "Pr", "statistical"),
    ("simulate [<=10] { x }", "simulate", "statistical"),
    ("simulate 5 [<=10] { x }", "simulate", "statistical"),
    ("E[<=10; 100](max: x)", "E", "statistical"),
    ("minE(x)[<=10]: <> p", "minE", "statistical"),
    ("maxPr[<=10]: <> p", "maxPr", "statistical"),
    ("strategy good = control: A[] p", "strategy", "strategy"),
    ('saveStrategy("file", good)', "saveStrategy", "strategy"),
    ("E<> p under good", "under", "strategy"),
    ("control: A[] p", "control", "game"),
    ("E<> control: A[] p", "control", "game"),
    ("{ x, y } control: A<> p", "control", "game"),
    ("control_t*(5): A<> p", "control_t", "game"),
    ("control: A[ p U q ]", "control", "game"),
    ("A[ p W q ]", "A", "game"),
    ("refinement: P <= Q", "refinement", "scenario"),
]


@pytest.mark.parametrize(("text", "word", "kind"), UNSUPPORTED)
def test_unsupported_queries(text: str, word: str, kind: str) -> None:
    found = read(nta(queries=formula("E<> p", text, "A[] q")))
    assert [query.text for query in found.queries] == ["E<> p", "A[] q"]
    assert found.skipped == (text,)
    wrong = query_error(nta(queries=formula(text)))
    assert wrong.message == f"`{word}` makes this a {kind} query, which is not supported"
    assert marked(wrong)[0] == text[0]


def test_queries_with_real_numbers() -> None:
    text = "P.A --> P.B and x >= 1.5"
    found = read(nta(queries=formula("E<> a1.b2 and x < 3", text)))
    assert [query.text for query in found.queries] == ["E<> a1.b2 and x < 3"]
    assert found.skipped == (text,)
    wrong = query_error(nta(queries=formula(text)))
    assert wrong.message == "`1.5` makes this a hybrid query, which is not supported"


def read_beside(folder: Path, model: str, queries: str) -> System:
    """Returns the system of a model file with a `.q` file beside it."""
    (folder / "model.xml").write_text(model, encoding="utf-8")
    (folder / "model.q").write_text(queries, encoding="utf-8")
    return read_system(read_source(folder / "model.xml"), {})


BESIDE = """//This file was generated from UPPAAL 4.0, May 2006

/*
No two at once.
*/
A[] not deadlock

//NO_QUERY

/* Sooner
or later. */
p --> \\
  q
E<> p /* inside */ and q // at the end
/* last \\/* of all *\\/ */ E[] x
"""


def test_a_query_file(tmp_path: Path) -> None:
    found = read_beside(tmp_path, nta(), BESIDE)
    assert found.queries == (
        PathQuery("A[]", NO_DEADLOCK, "A[] not deadlock", "No two at once."),
        LeadsToQuery(P, Q, "p --> q", "NO_QUERY\nSooner\nor later."),
        PathQuery("E<>", Binary("and", P, Q), "E<> p and q"),
        PathQuery("E[]", X, "E[] x", "last /* of all */"),
    )
    spans = [query.span for query in found.queries]
    assert [span.line for span in spans] == [6, 12, 14, 15]
    assert [Path(span.source.name).name for span in spans] == ["model.q"] * 4
    assert BESIDE[spans[1].start : spans[1].end] == "p --> \\\n  q"


def test_a_query_file_for_xta(tmp_path: Path) -> None:
    assert [query.text for query in read_beside(tmp_path, PROCESS, "E<> p\n\nA[] q").queries] == [
        "E<> p",
        "A[] q",
    ]


def test_own_queries_come_first(tmp_path: Path) -> None:
    own = read_beside(tmp_path, nta(queries=formula("E<> p")), "A[] q")
    assert [query.text for query in own.queries] == ["E<> p"]
    empty = read_beside(tmp_path, nta(queries=formula("")), "A[] q")
    assert [query.text for query in empty.queries] == ["A[] q"]


def test_an_error_in_a_query_file(tmp_path: Path) -> None:
    first, wrong, last = read_beside(tmp_path, nta(), "E<> p\nA[] p q\nE[] p\n").queries
    assert (first.text, last.text) == ("E<> p", "E[] p")
    assert isinstance(wrong, UnreadQuery)
    assert (wrong.text, wrong.message) == ("A[] p q", "unexpected `q`")
    assert (Path(wrong.span.source.name).name, wrong.span.line, wrong.span.column) == ("model.q", 2, 7)


def test_a_query_file_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "model.q").write_bytes(b"A[] \xff\xfe")
    (tmp_path / "model.xml").write_text(nta(), encoding="utf-8")
    with pytest.raises(Exception, match="cannot read the queries") as caught:
        read_system(read_source(tmp_path / "model.xml"), {})
    assert caught.value.hint == "make it a readable UTF-8 file"  # type: ignore[attr-defined]
