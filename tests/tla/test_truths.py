"""What expressions are worth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tla.files import module
from tests.tla.truths import DEFINITIONS, TRUTHS
from veristream import library
from veristream.verdict import Holds, Unknown, Violated


@pytest.mark.parametrize("formula", TRUTHS)
def test_a_truth(formula: str, tmp_path: Path) -> None:
    path = tmp_path / "truth.tla"
    path.write_text(module("truth", f"{DEFINITIONS}ASSUME {formula}\n"))
    (result,) = library.check_specification(path)
    assert result.verdict == Holds()


def test_all_falsehoods_are_told(tmp_path: Path) -> None:
    """A check that would call everything true is worth nothing."""
    path = tmp_path / "falsehood.tla"
    assumptions = "".join(f"ASSUME ~({formula})\n" for formula in TRUTHS)
    path.write_text(module("falsehood", DEFINITIONS + assumptions))
    results = library.check_specification(path)
    assert len(results) == len(TRUTHS)
    assert all(isinstance(one.verdict, Violated) for one in results)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("1 \\div 0 = 1", "1 is divided by 0"),
        ('1 = "a"', 'the number 1 cannot be compared with the string "a"'),
        ('"a" \\in {1}', 'the string "a" cannot be compared with the number 1'),
        ("Head(<<>>) = 1", "Head of the empty sequence"),
        ("f[4] = 1", "4 is not in the domain of <<1, 4, 9>>"),
        ("r.nobody = 1", '"nobody" is not in the domain of [age |-> 7, name |-> "anna"]'),
        ("\\E x \\in Nat : x = 1", "Nat has no end: it cannot be enumerated"),
        ("Cardinality(Int) = 1", "Int has no end: it cannot be enumerated"),
        ("(CHOOSE x \\in {1} : x = 2) = 1", "no element of {1} satisfies the condition of CHOOSE"),
        ("(CHOOSE x : x = 2) = 2", "an unbounded CHOOSE cannot be evaluated"),
        ("\\A x : x = x", "a quantifier without a set cannot be evaluated"),
        ("(CASE 1 = 2 -> TRUE)", "no arm of CASE applies, and there is no OTHER"),
        ("1 /\\ TRUE", "1 is neither TRUE nor FALSE"),
        ("1 \\in 2", "2 is no set: nothing is an element of it"),
        ("3[1] = 1", "3 is no function: it cannot be applied to 1"),
        ('1 + "a" = 2', '"a" is no number'),
        ('Assert(1 = 2, "so it goes")', "Assert: so it goes"),
        ("{1, {}} = {}", "cannot be compared with"),
        ("\\E <<a, b>> \\in {<<1>>} : a = b", "<<1>> is no tuple of 2 values"),
        ("SubSeq(<<1>>, 1, 2) = <<>>", "SubSeq from 1 to 2 of <<1>>"),
    ],
)
def test_what_has_no_value_is_told_with_its_place(formula: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "nonsense.tla"
    path.write_text(module("nonsense", f"{DEFINITIONS}ASSUME {formula}\n"))
    (result,) = library.check_specification(path)
    assert isinstance(result.verdict, Unknown)
    fault = result.verdict.fault
    assert fault is not None
    assert message in fault.message
    assert fault.span.source.name == str(path)
    assert "ASSUME" in fault.span.excerpt()


def test_numbers_and_booleans_inside_of_sets_are_not_told_apart(tmp_path: Path) -> None:
    """A known difference from TLC, which stops here; `docs/tla.md` says so."""
    path = tmp_path / "alike.tla"
    path.write_text(module("alike", "EXTENDS Naturals\nASSUME {0} = {FALSE}\n"))
    (result,) = library.check_specification(path)
    assert result.verdict == Holds()
