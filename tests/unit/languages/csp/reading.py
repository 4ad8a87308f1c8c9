"""Shortcuts from text to resolved syntax, for the tests in this folder."""

from __future__ import annotations

import pytest

from veristream.errors import ModelError
from veristream.languages.csp.read.parse import read_specification
from veristream.languages.csp.syntax import (
    Assertion,
    Expr,
    Formula,
    Guard,
    Prefix,
    Process,
    Program,
    Satisfies,
    Specification,
)
from veristream.source import Source

WORLD = """
#define N 3; enum {red, green};
var x; var y = 1; var a[N]; var m[2][N]; var ok = false;
channel c 2; channel d 0; channel e[N] 1; channel f[2][2] 0;
#define goal x == 1;
A = a -> A; B = b -> B; C = c -> C; P(i) = p.i -> P(i);
"""
"""Declarations of every kind, as the context of the text under test."""


def read(text: str, **constants: int) -> Specification:
    return read_specification(Source("model.csp", text), constants)


def body(text: str, parameters: str = "") -> Process:
    """Reads the body of a process in the context above."""
    spec = read(f"{WORLD}\nTested({parameters}) = {text};")
    return spec.definitions[-1].body


def expression(text: str, parameters: str = "") -> Expr:
    """Reads an expression, as a guard in the context above."""
    guard = body(f"[{text}] Skip", parameters)
    assert isinstance(guard, Guard)
    return guard.condition


def program(text: str, parameters: str = "") -> Program:
    """Reads a program in the context above."""
    prefix = body(f"tau{{{text}}} -> Skip", parameters)
    assert isinstance(prefix, Prefix) and prefix.program is not None
    return prefix.program


def assertion(text: str) -> Assertion:
    """Reads an assertion in the context above."""
    return read(f"{WORLD}\n#assert {text};").assertions[0]


def formula(text: str) -> Formula:
    """Reads a formula in the context above."""
    claim = assertion(f"A |= {text}").claim
    assert isinstance(claim, Satisfies)
    return claim.formula


def error(text: str, **constants: int) -> ModelError:
    """Returns the ModelError that reading the text raises."""
    with pytest.raises(ModelError) as caught:
        read(text, **constants)
    return caught.value
