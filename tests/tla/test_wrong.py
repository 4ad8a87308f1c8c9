"""Wrong specifications and configurations: one clear message each, with its place."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.tla.files import module, write
from tests.tla.specifications import KNOWN, Known
from veristream import library
from veristream.errors import ModelError
from veristream.search.limits import Limits
from veristream.verdict import Unknown

BODY = """EXTENDS Naturals
CONSTANT N
VARIABLES x, y
Init == x = 0 /\\ y = N
Next == x' = x + 1 /\\ y' = y
Spec == Init /\\ [][Next]_<<x, y>>
"""
CONFIG = "SPECIFICATION Spec\nCONSTANT N = 3\n"

WRONG = (
    ("y = N", "y = ", CONFIG, "this is no TLA+: `=`", "="),
    ("x + 1", "x + 1)", CONFIG, "this is no TLA+: `)`", ")"),
    ("x + 1", "x + z", CONFIG, "z is not defined", "z"),
    ("x + 1", "Max(x)", CONFIG, "Max is not defined", "Max(x)"),
    ("x + 1", "Init(x)", CONFIG, "Init takes 0 arguments, not 1", "Init(x)"),
    ("EXTENDS Naturals", "EXTENDS Natural", CONFIG, "there is no module Natural", "Natural"),
    ("x + 1", "x''", CONFIG, "an expression has two primes", "x'"),
    ("x + 1", "<>x", CONFIG, "a formula about runs is no value of a state", "<>x"),
    ("Spec ==", "ASSUME x = 1\nSpec ==", CONFIG, "ASSUME does not know variables", "x = 1"),
    (
        "_<<x, y>>",
        "_<<x, y>> /\\ [][x' > x]_x",
        CONFIG,
        "there are two formulas `[][A]_v` for the steps",
        "[][x' > x]_x",
    ),
    ("x + 1", "M!Op", CONFIG, "M is not defined", "M"),
    ("x + 1", "x!Op", CONFIG, "x is no instance of a module", "x"),
    ("x + 1", "\\EE z : z", CONFIG, "a quantifier over variables cannot be checked", "\\EE"),
    ("y = N", "y = x'", CONFIG, "this conjunct is about one step", "Init"),
    ("x = 0 /\\ y = N", "[]TRUE", CONFIG, "Spec has no initial condition", "Spec"),
    (
        "x + 1",
        "x + 1",
        CONFIG + "INVARIANT Next\n",
        "INVARIANT takes a condition of a state, which Next is not",
        "Next",
    ),
    (
        "x + 1",
        "x + 1",
        "INIT Next\nNEXT Next\nCONSTANT N = 3\n",
        "INIT takes a condition of a state, which Next is not",
        "Next",
    ),
    ("x + 1", "x + 1", "SPECIFICATION Spec\n", "the constant N has no value", "N"),
    ("x + 1", "x + 1", "SPECIFICATION Spek\nCONSTANT N = 3\n", "Spek is not defined", "Spek"),
    ("x + 1", "x + 1", CONFIG + "INVARIANT Nothing\n", "Nothing is not defined", "Nothing"),
    ("x + 1", "x + 1", CONFIG + "INVARIANTZ Init\n", "`INVARIANTZ` begins no statement", "INVARIANTZ"),
    ("x + 1", "x + 1", CONFIG + "CHECK_DEADLOCK MAYBE\n", "CHECK_DEADLOCK is TRUE or FALSE", "MAYBE"),
    ("x + 1", "x + 1", CONFIG + "CONSTANT M 3\n", "M has no value", "M"),
    ("x + 1", "x + 1", CONFIG + "CONSTANT M = }\n", "a value is expected here", "}"),
    ("x + 1", "x + 1", CONFIG + "CONSTANT M = {1 2}\n", "`,` or `}` is expected here", "2"),
    ("x + 1", "x + 1", CONFIG + "SPECIFICATION Init\n", "SPECIFICATION is said twice", "SPECIFICATION"),
    ("x + 1", "x + 1", CONFIG + "INIT Init Next\n", "INIT takes one name, not 2", "INIT"),
    ("x + 1", "x + 1", CONFIG + "CONSTANT ? = 1\n", "`?` means nothing in a configuration", "?"),
)


@pytest.mark.parametrize(("before", "after", "config", "message", "shown"), WRONG)
def test_what_is_wrong_is_told_before_the_search(
    before: str, after: str, config: str, message: str, shown: str, tmp_path: Path
) -> None:
    known = Known("Wrong", BODY.replace(before, after), config, (0, 0, 0))
    with pytest.raises(ModelError) as caught:
        library.check_specification(write(tmp_path, known))
    assert caught.value.message == message
    span = caught.value.span
    assert span.source.text[span.start : span.end].strip() == shown.strip()


FAULTS = (
    ("x' = x + 1 /\\ y' = y", "x' = x + 1", "nothing says which value y gets"),
    ("y = N", "y \\in Nat", "Nat has no end: it cannot be enumerated"),
    ("x = 0 /\\ y = N", "y = x /\\ x = 0", "x has no value yet when it is used"),
    ("y' = y", 'y = "a" /\\ y\' = y', 'the number 3 cannot be compared with the string "a"'),
    ("y' = y", "y' = y[1]", "3 is no function: it cannot be applied to 1"),
    ("y' = y", "y /\\ y' = y", "3 is neither TRUE nor FALSE"),
)


@pytest.mark.parametrize(("before", "after", "message"), FAULTS)
def test_what_has_no_value_ends_the_search(before: str, after: str, message: str, tmp_path: Path) -> None:
    known = Known("Faulty", BODY.replace(before, after), CONFIG, (0, 0, 0))
    (result,) = library.check_specification(write(tmp_path, known))
    assert isinstance(result.verdict, Unknown)
    assert result.verdict.fault is not None
    assert result.verdict.fault.message == message


def test_a_constant_that_nobody_declares(tmp_path: Path) -> None:
    path = write(tmp_path, Known("Wheel", BODY, CONFIG, (0, 0, 0)))
    with pytest.raises(ModelError, match="Wheel has no constant M"):
        library.check_specification(path, constants={"M": 1})


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="there is no file"):
        library.check_specification(tmp_path / "Nobody.tla")
    (tmp_path / "Empty.tla").write_text("nothing here\n")
    with pytest.raises(ModelError, match="there is no module in this file"):
        library.check_specification(tmp_path / "Empty.tla")
    (tmp_path / "Bare.tla").write_text(module("Bare", "A == 1"))
    with pytest.raises(ModelError, match="there is no file"):
        library.check_specification(tmp_path / "Bare.tla", config=tmp_path / "Nobody.cfg")


PIECES = (
    "/\\",
    "\\/",
    "'",
    "=",
    "\\in",
    "x",
    "1",
    "(",
    ")",
    "[",
    "]",
    "<<",
    ">>",
    "{",
    "}",
    "==",
    "!",
    "@",
    "~>",
    "LET",
)


@pytest.mark.parametrize("seed", range(20))
def test_mutated_texts_are_answered_or_refused(seed: int, tmp_path: Path) -> None:
    """Pieces deleted, doubled, replaced and moved: a verdict or a ModelError, nothing else."""
    chosen = random.Random(seed)
    for _ in range(25):
        known = chosen.choice(KNOWN)
        words = known.body.split(" ")
        for _ in range(chosen.randint(1, 3)):
            at = chosen.randrange(len(words))
            match chosen.randrange(4):
                case 0:
                    del words[at]
                case 1:
                    words.insert(at, words[chosen.randrange(len(words))])
                case 2:
                    words[at] = chosen.choice(PIECES)
                case _:
                    words[at], words[at - 1] = words[at - 1], words[at]
            words = words or ["x"]
        mutant = Known(known.name, " ".join(words), known.config, (0, 0, 0), modules=known.modules)
        with suppress(ModelError):
            library.check_specification(
                write(tmp_path, mutant), limits=Limits(states_max=300, seconds_max=2.0)
            )
