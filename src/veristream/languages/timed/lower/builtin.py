"""Predefined types, constants and functions."""

from __future__ import annotations

from collections.abc import Callable

from veristream.languages.timed import syntax
from veristream.languages.timed.lower.scope import Fixed, Scope, TypeName
from veristream.languages.timed.lower.types import Range
from veristream.languages.timed.read.expressions import BUILTIN_TYPES

ABSOLUTE = "abs"
ASSERT = "assert"
BUILTIN_FUNCTIONS = frozenset({ABSOLUTE, ASSERT})
"""Functions on integers; a model may redefine them."""

_REAL = (
    "fabs fmod fma fmax fmin fdim exp exp2 expm1 ln log log10 log2 log1p pow sqrt cbrt hypot sin cos tan"
)
_REAL += " asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc tgamma lgamma ceil floor trunc"
_REAL += " round fint ldexp ilogb logb nextafter copysign signbit fpclassify isfinite isinf isnan isnormal"
REAL_FUNCTIONS = frozenset(_REAL.split())
"""Functions on real numbers, which only statistical and hybrid models use."""


def builtin_scope(evaluate_call: Callable[[syntax.Call, Scope], int]) -> Scope:
    """Returns the outermost scope: types such as `int8_t` and their bounds, `INT8_MIN` and `INT8_MAX`.

    `evaluate_call` evaluates function calls in constants.
    """
    scope = Scope(evaluate_call=evaluate_call)
    for name in sorted(BUILTIN_TYPES):
        type_ = _range(name)
        word = name.removesuffix("_t").upper()
        scope.names[name] = TypeName(type_)
        scope.names[f"{word}_MAX"] = Fixed(type_.high, type_)
        if type_.low:
            scope.names[f"{word}_MIN"] = Fixed(type_.low, type_)
    return scope


def _range(name: str) -> Range:
    bits = int("".join(filter(str.isdigit, name)))
    if name.startswith("u"):
        return Range(0, 2**bits - 1)
    return Range(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
