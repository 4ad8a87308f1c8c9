"""The names that a Python model imports, defined for editors and type checkers.

A model begins with `from veristream.actions import *`. It is compiled from its source text and never run:
these definitions only make it a valid module, so that editors can complete names and report mistakes.
The language is described in docs/actions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any, TypeVar, overload

__all__ = [
    "Bag",
    "Enum",
    "Int",
    "Map",
    "Maybe",
    "Record",
    "Role",
    "Seq",
    "Set",
    "action",
    "after",
    "always",
    "any_of",
    "auto",
    "constant",
    "deadlock_free",
    "eventually",
    "exists",
    "leads_to",
    "one_of",
    "replace",
    "require",
    "terminal",
    "transition",
]

Function = TypeVar("Function", bound=Callable[..., Any])


class _Bounded:
    """A bounded type such as Int[0, 3]; at run time only a name."""

    def __class_getitem__(cls, bounds: Any) -> Any:
        return Any


class Int(_Bounded):
    """Int[low, high]: the whole numbers from low to high, both included."""


class Maybe(_Bounded):
    """Maybe[T]: None or a value."""


class Set(_Bounded):
    """Set[T]: a set over all values of T."""


class Seq(_Bounded):
    """Seq[T, bound]: a sequence of at most `bound` items."""


class Bag(_Bounded):
    """Bag[T, bound]: at most `bound` unordered items, such as messages in flight."""


class Map(_Bounded):
    """Map[K, V]: a value for each key."""


class Record:
    """A value with named fields."""

    def __init__(self, *values: Any, **fields: Any) -> None:
        raise TypeError("a model is compiled, not run")


class _RoleMeta(type):
    def __iter__(cls) -> Iterator[Any]:
        raise TypeError("a model is compiled, not run")

    def __getitem__(cls, number: int) -> Any:
        raise TypeError("a model is compiled, not run")

    def __len__(cls) -> int:
        raise TypeError("a model is compiled, not run")


class Role(metaclass=_RoleMeta):
    """A kind of process with `count` instances, each with its own state and actions."""

    id: int

    def __init_subclass__(cls, count: int = 1, symmetric: bool = False) -> None:
        """Accepts the options; the compiler reads them from the source text."""


@overload
def action(function: Function) -> Function: ...
@overload
def action(*, fair: str = "none") -> Callable[[Function], Function]: ...
def action(function: Any = None, *, fair: str = "none") -> Any:
    """Marks a guarded atomic step."""
    return function if function is not None else _same


def _same(function: Function) -> Function:
    return function


def _property(function: Any = None, *, fairness: str = "none") -> Any:
    return function if function is not None else _same


always = exists = eventually = leads_to = transition = _property


def terminal(function: Function) -> Function:
    """Marks a condition under which a state without steps is not a deadlock."""
    return function


def constant(default: int) -> int:
    """A constant that -D can replace."""
    return default


def deadlock_free() -> None:
    """A property: every state has a step or is terminal."""


def require(condition: bool) -> None:
    """Enables the action only in states where the condition holds."""
    raise TypeError("a model is compiled, not run")


def any_of(*values: Any) -> Any:
    """Chooses any element of a set, sequence, bag, role, enum or range."""
    raise TypeError("a model is compiled, not run")


def one_of(*values: Any) -> Any:
    """Chooses one of the given values."""
    raise TypeError("a model is compiled, not run")


def after(value: Any) -> Any:
    """The value in the state after the step."""
    raise TypeError("a model is compiled, not run")


def replace(record: Any, **fields: Any) -> Any:
    """Returns a copy of the record with some fields changed."""
    raise TypeError("a model is compiled, not run")
