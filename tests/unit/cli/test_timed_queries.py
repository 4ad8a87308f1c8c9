"""Queries that are wrong: each has a verdict of its own, and the others are answered."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import veristream as vs
from tests.unit.cli.conftest import Run

MODEL = """clock x; int n, m;
int low() { return n - 1; }
int again(int k) { return k > 0 ? again(k - 1) : 0; }
int beyond() { int k = 2; int a[k]; return a[0]; }
int outside() { int a[3]; a[7] = 1; return a[0]; }
process P() {
  state A { x <= 4 }, B;
  init A;
  trans A -> B { guard x >= 2; assign n = 1; };
}
system P;
"""
RIGHT = ("E<> P.B", "A[] n <= 1", "E<> n == 2", "sup: n")
WORDS = ["holds", "holds", "violated", "holds"]
DEEP = "A[] " + "(" * 3000 + "n == 0" + ")" * 3000
PARTS = "E<> " + " and ".join(f"(x == {i} or x > {i + 20})" for i in range(13))

WRONG = {
    "unknown name": ("A[] k > 0", "unknown name `k`", 4),
    "unknown location": ("A[] not P.C", "unknown location or variable `C`", 8),
    "unknown process": ("E<> Q.A", "unknown name `Q`", 4),
    "breaks off": ("A[] n ==", "unexpected end of text", 6),
    "unbalanced": ("E<> (n == 1", "this `(` is not closed", 4),
    "no quantifier": ("n == 1", "unexpected end of text", 5),
    "clock as a number": ("A<> x", "expected a number, found a clock", 4),
    "side effect": ("A[] n++ < 3", "side effects are not allowed here", 4),
    "assignment": ("A[] n = 1", "a condition cannot assign", 4),
    "not constant": ("E<> forall (i : int[0, n]) i == n", "`n` is not a constant", 23),
    "deadlock of runs": ("A<> deadlock", "`deadlock` in a property of whole runs is not supported", 0),
    "clock in a term": ("E<> n + (x > 1) > 0", "clocks can only be added and subtracted", None),
    "too many parts": (PARTS, "the condition has more than ", 4),
    "overflow": ("A[] n * 2147483647 * 2147483647 * 2147483647 > 0", "this may reach ", 4),
    "function that calls itself": ("A[] again(3) == 0", "function `again` calls itself", None),
    "function that is wrong": ("A[] beyond() == 0", "`k` is not a constant", None),
    "statistical": ("Pr[<=10](<> P.B)", None, None),
    "strange character": ("A[] n @ 1", "unexpected character `@`", 6),
    "nested": (DEEP, None, None),
}


def ask(folder: Path, *queries: str) -> Path:
    path = folder / "m.xta"
    path.write_text(MODEL, encoding="utf-8")
    path.with_suffix(".q").write_text("\n".join(queries) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", [name for name, (_, message, _) in WRONG.items() if message is not None])
def test_the_others_are_answered(name: str, tmp_path: Path) -> None:
    query, message, column = WRONG[name]
    results = vs.check(ask(tmp_path, *RIGHT[:2], query, *RIGHT[2:]))
    words = [vs.verdict.word(one.verdict) for one in results]
    assert words == [*WORDS[:2], "error", *WORDS[2:]]
    assert [one.property for one in results] == [*RIGHT[:2], query, *RIGHT[2:]]
    verdict = results[2].verdict
    assert isinstance(verdict, vs.Invalid)
    assert verdict.reason.startswith(str(message))
    if column is not None:
        assert (verdict.span.line, verdict.span.column) == (3, column + 1)


def test_every_query_is_wrong(tmp_path: Path) -> None:
    asked = [query for query, message, _ in WRONG.values() if message is not None]
    results = vs.check(ask(tmp_path, *asked))
    assert [one.property for one in results] == asked
    assert all(isinstance(one.verdict, vs.Invalid) for one in results)


def test_all_statistical(tmp_path: Path) -> None:
    results = vs.check(ask(tmp_path, "Pr[<=10](<> P.B)", "simulate [<=10] { x }"))
    assert [one.verdict.reason for one in results] == [
        "`Pr` makes this a statistical query, which is not supported",
        "`simulate` makes this a statistical query, which is not supported",
    ]


def test_nesting(tmp_path: Path) -> None:
    """A query that is too deep for the reader is one that is wrong."""
    first, deep, last = vs.check(ask(tmp_path, RIGHT[0], DEEP, RIGHT[1]))
    assert isinstance(first.verdict, vs.Holds) and isinstance(last.verdict, vs.Holds)
    assert isinstance(deep.verdict, vs.Holds | vs.Invalid)


def test_text(run: Run, tmp_path: Path) -> None:
    path = ask(tmp_path, "E<> P.B", "A[] not P.C", "A[] n == 0")
    done = run("check", path)
    assert done.exit_code == 2
    rows = done.stdout.splitlines()[2:5]
    assert [row.split("  ")[1] for row in rows] == ["E<> P.B", "A[] not P.C", "A[] n == 0"]
    assert [
        bool(re.search(rf"  {word}  ", row))
        for word, row in zip(("holds", "error", "violated"), rows, strict=True)
    ] == [True] * 3
    assert "  A[] not P.C: unknown location or variable `C`\n" in done.stdout
    assert done.stderr.splitlines() == [
        f"{path.with_suffix('.q')}:2:9: error: unknown location or variable `C`",
        "2 | A[] not P.C",
        "  |         ^^^",
        "hint: `P` has A, B",
    ]


def test_json(run: Run, tmp_path: Path) -> None:
    path = ask(tmp_path, "E<> P.B", "A[] k > 0")
    done = run("check", path, "--json")
    assert done.exit_code == 2
    first, wrong = json.loads(done.stdout)["results"]
    assert (first["verdict"], "place" in first, "hint" in first) == ("holds", False, False)
    assert {key: wrong[key] for key in ("property", "kind", "verdict", "reason", "trace", "states")} == {
        "property": "A[] k > 0",
        "kind": "always",
        "verdict": "error",
        "reason": "unknown name `k`",
        "trace": None,
        "states": 0,
    }
    assert wrong["place"] == f"{path.with_suffix('.q')}:2:5"
    assert wrong["hint"] == "declare it first"


def test_page(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    run("check", ask(tmp_path, "E<> P.B", "A[] k > 0"), "--html", page)
    text = page.read_text(encoding="utf-8")
    assert '<span class="bad">error</span>' in text
    assert "A[] k &gt; 0: unknown name `k`" in text


def test_exit_codes(run: Run, tmp_path: Path) -> None:
    path = ask(tmp_path, "E<> P.B", "A[] k > 0", "A[] n == 0")
    assert run("check", path, "-p", "E<> P.B").exit_code == 0
    assert run("check", path, "-p", "A[] n == 0").exit_code == 1
    assert run("check", path, "-p", "A[] k > 0").exit_code == 2
    assert run("check", path, "-p", "k > 0", "-p", "n == 0").exit_code == 2
    assert run("simulate", path).exit_code == 0  # it needs no query


def test_a_wrong_model_has_no_verdicts(run: Run, tmp_path: Path) -> None:
    path = ask(tmp_path, "E<> P.B", "A[] k > 0")
    path.write_text(MODEL.replace("assign n = 1", "assign k = 1"), encoding="utf-8")
    done = run("check", path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"{path}:9:" in done.stderr and done.stderr.count("error:") == 1


def test_queries_share_functions(tmp_path: Path) -> None:
    """What a rejected query has called is still there for another one."""
    results = vs.check(
        ask(tmp_path, "A[] low() < k", "A[] low() < 1", "A[] low() + again(1) < 1", "E<> low() == 0")
    )
    assert [vs.verdict.word(one.verdict) for one in results] == ["error", "holds", "error", "holds"]


def test_a_query_that_fails_when_it_is_evaluated(tmp_path: Path) -> None:
    """It is undecided; the others, which share its search otherwise, are not."""
    results = vs.check(ask(tmp_path, *RIGHT[:2], "A[] outside() == 0", "A[] 3 / n > 0", *RIGHT[2:]))
    words = [vs.verdict.word(one.verdict) for one in results]
    assert words == [*WORDS[:2], "unknown", "unknown", *WORDS[2:]]
    assert [one.verdict.reason for one in results][2:4] == [
        "a property cannot be evaluated: index 7 is outside 0..2 of a",
        "a property cannot be evaluated: division by zero",
    ]


def test_all_queries_fail_with_the_model(tmp_path: Path) -> None:
    path = ask(tmp_path, *RIGHT[:2], "A[] outside() == 0")
    path.write_text(MODEL.replace("assign n = 1", "assign n = 1 / m"), encoding="utf-8")
    words = [vs.verdict.word(one.verdict) for one in vs.check(path)]
    assert words == ["unknown", "unknown", "unknown"]
