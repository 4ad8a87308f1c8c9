"""Loops as they are declared: functions, how Python calls them, and which others they call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np


@dataclass(frozen=True, slots=True)
class Scalar:
    """A 64-bit integer or a truth value."""

    is_bool: bool


@dataclass(frozen=True, slots=True)
class Array:
    """A contiguous array."""

    dtype: np.dtype[Any]
    dimensions: int


@dataclass(frozen=True, slots=True)
class Record:
    """A named tuple."""

    type: type
    fields: tuple[Kind, ...]


Kind = Scalar | Array | Record
"""How a parameter is passed."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How a loop is called from Python; `result` is None for a loop that returns nothing."""

    parameters: tuple[Kind, ...]
    result: Scalar | None


class Declared:
    """A function that is to run as native code."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__name__, self.__qualname__ = function.__name__, function.__qualname__
        self.__module__, self.__doc__ = function.__module__, function.__doc__

    @cached_property
    def signature(self) -> Signature | None:
        """How Python calls the loop; None if a parameter has no annotation."""
        hints = get_type_hints(self.function, include_extras=True)
        code = self.function.__code__
        names = code.co_varnames[: code.co_argcount]
        if "return" not in hints or any(name not in hints for name in names):
            return None
        result = None if hints["return"] is type(None) else kind_of(hints["return"])
        assert result is None or isinstance(result, Scalar), f"{self.__qualname__} returns no scalar"
        return Signature(tuple(kind_of(hints[name]) for name in names), result)

    @property
    def symbol(self) -> str:
        """The name of the loop in object code."""
        return f"{self.__module__}.{self.__name__}".replace(".", "_")


@cache
def kind_of(annotation: Any) -> Kind:
    """How a value of the annotated type is passed; raises TypeError for other types."""
    if annotation is int or annotation is bool:
        return Scalar(annotation is bool)
    dimensions = 1
    if get_origin(annotation) is Annotated:
        annotation, dimensions = get_args(annotation)
    if get_origin(annotation) is np.ndarray:
        (element,) = get_args(get_args(annotation)[1])
        return Array(np.dtype(element), dimensions)
    if hasattr(annotation, "_fields"):
        hints = get_type_hints(annotation, include_extras=True)
        return Record(annotation, tuple(kind_of(hints[name]) for name in annotation._fields))
    raise TypeError(f"a loop takes no {annotation}")


def entries_of(module: ModuleType) -> list[Declared]:
    """Returns the module's own loops that Python can call."""
    loops = [one for one in vars(module).values() if isinstance(one, Declared)]
    own = [one for one in loops if one.__module__ == module.__name__]
    return [one for one in own if one.signature is not None]


def reachable(entries: list[Declared]) -> list[Declared]:
    """Returns the loops and all loops that they call."""
    found = dict.fromkeys(entries)
    waiting = list(entries)
    while waiting:
        loop = waiting.pop()
        for name in loop.function.__code__.co_names:
            other = loop.function.__globals__.get(name)
            if isinstance(other, Declared) and other not in found:
                found[other] = None
                waiting.append(other)
    return list(found)
