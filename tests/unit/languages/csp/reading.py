"""Short ways from a text to the syntax it is read as."""

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
"""Some of everything, for one process to be read in."""


def read(text: str, **constants: int) -> Specification:
    """The specification of a text."""
    return read_specification(Source("model.csp", text), constants)


def body(text: str, parameters: str = "") -> Process:
    """The process that a text stands for, in the world above."""
    spec = read(f"{WORLD}\nTested({parameters}) = {text};")
    return spec.definitions[-1].body


def expression(text: str, parameters: str = "") -> Expr:
    """The expression that a text stands for, as a guard in the world above."""
    guard = body(f"[{text}] Skip", parameters)
    assert isinstance(guard, Guard)
    return guard.condition


def program(text: str, parameters: str = "") -> Program:
    """The program that a text stands for, in the world above."""
    prefix = body(f"tau{{{text}}} -> Skip", parameters)
    assert isinstance(prefix, Prefix) and prefix.program is not None
    return prefix.program


def assertion(text: str) -> Assertion:
    """The assertion that a text stands for, in the world above."""
    return read(f"{WORLD}\n#assert {text};").assertions[0]


def formula(text: str) -> Formula:
    """The formula that a text stands for, in the world above."""
    claim = assertion(f"A |= {text}").claim
    assert isinstance(claim, Satisfies)
    return claim.formula


def error(text: str, **constants: int) -> ModelError:
    """The error of a wrong text."""
    with pytest.raises(ModelError) as caught:
        read(text, **constants)
    return caught.value
