"""Errors in CSP# files at the command line: location, excerpt, hint, exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from veristream.cli.app import app

WRONG = [
    ("unknown process", "P() = a -> Qq();\nQ() = b -> P();", 1, "there is no process `Qq`", "did you mean"),
    ("arity", "P(i) = a -> P(i, 1);\nQ() = P(0);", 1, "`P` takes 1 argument, not 2", "hint:"),
    ("undeclared channel", "P() =\n  c!1 -> P();", 2, "there is no channel `c`", "`channel c 0;`"),
    (
        "copies without bound",
        "P() = a -> (P() ||| P());",
        1,
        "starts new copies of itself without bound",
        "hint:",
    ),
    ("barriers without bound", "P() = a -> (P() || b -> P());", 1, "without bound", "hint:"),
    ("sequence without bound", "P() = (a -> P()); Skip;", 1, "grows without bound", "`P = a -> Skip; P`"),
    (
        "no step",
        "P() = Q();\nQ() = [true] P();",
        1,
        "refers to itself without a step",
        "put an event first",
    ),
    ("range", "var x:{0..2} = 0;\nP() = i{x = x + 1;} -> P();", 2, "3 is outside the range 0..2 of x", "^"),
    ("index", "var a[2];\nP(i) = e{a[i] = 1;} -> P(i + 1);\nQ() = P(0);", 2, "2", "^"),
    ("zero", "var x = 1;\nP() = e{x = 1 / (x - 1);} -> P();", 2, "zero", "^"),
    (
        "bad LTL",
        "P() = a -> P();\n#assert P() |= []<> (a -> ;",
        2,
        "this `(` is not closed",
        "add the missing `)`",
    ),
    ("event in LTL", "P() = start -> P();\n#assert P() |= []<> strat;", 2, "strat", "start"),
    ("alphabet", "var x = 0;\nP() = a.x -> P();\nQ() = P() || a.0 -> Stop;", 2, "alphabet", "#alphabet"),
    ("library", '#import "PAT.Math";\nP() = a -> P();', 1, "C#", "hint:"),
    ("include", '#include "nowhere.csp";\nP() = a -> P();', 1, "nowhere.csp", "hint:"),
]


@pytest.mark.parametrize(
    ("text", "line", "message", "more"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG]
)
def test_location_excerpt_hint_exit_2(
    tmp_path: Path, text: str, line: int, message: str, more: str
) -> None:
    path = tmp_path / "wrong.csp"
    path.write_text(text + "\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 2, result.output
    told = [
        part for part in result.output.splitlines() if f"wrong.csp:{line}:" in part and "error:" in part
    ]
    assert told, result.output
    assert message in result.output
    assert more in result.output
    assert f"{line} | {text.splitlines()[line - 1]}" in result.output


def test_without_assertions_the_last_process_is_checked_for_deadlocks(tmp_path: Path) -> None:
    path = tmp_path / "plain.csp"
    path.write_text("P() = a -> Stop;\nQ() = b -> P();\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["check", str(path)])
    assert result.exit_code == 1
    assert "no step is possible in the last state" in result.output


def test_properties_are_found_by_a_word_and_regardless_of_blanks(tmp_path: Path) -> None:
    path = tmp_path / "two.csp"
    path.write_text(
        "var x = 0;\n#define done x == 1;\n#define never x == 2;\nP() = a{x = 1;} -> Stop;\n"
        "#assert P() reaches done;\n#assert P() reaches never;\n#assert P() |= []!never;\n",
        encoding="utf-8",
    )
    for name, wanted in (("done", 0), ("P()reaches never", 1), ("P() |=  [] !never", 0)):
        assert CliRunner().invoke(app, ["check", str(path), "-p", name]).exit_code == wanted, name
    several = CliRunner().invoke(app, ["check", str(path), "-p", "never"])
    assert several.exit_code == 2
    assert "several properties match never" in several.output
