"""The decorator of search loops: Python functions that run as native code.

A loop uses integers, arrays, named tuples of both and the `primitives`; it allocates nothing, and its
caller owns all memory. Loops call each other freely. Python can call a loop whose parameters are all
annotated: with `int`, `bool`, `NDArray[...]` of one dimension, `Annotated[NDArray[...], n]` of n
dimensions, or a named tuple of these. The annotation of what it returns is `int`, `bool` or `None`.

`build` compiles loops with Numba; `library` finds what was compiled before, so that a process needs Numba
only for loops that changed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cached_property
from operator import index
from typing import Any, TypeVar, cast

from veristream.native.declared import Array, Declared, Kind, Record, Scalar
from veristream.native.library import address_of

Function = TypeVar("Function", bound=Callable[..., Any])


class Loop(Declared):
    """A function that Python calls as native code."""

    @cached_property
    def _native(self) -> Callable[..., Any]:
        # Calls through a CFUNCTYPE release the GIL.
        return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(address_of(self))

    def __call__(self, *arguments: Any) -> Any:
        """Calls the native code; raises TypeError for arguments that it does not take."""
        signature = self.signature
        if signature is None:
            raise TypeError(
                f"the parameters of {self.__qualname__} must be annotated to call it from Python"
            )
        if len(arguments) != len(signature.parameters):
            raise TypeError(f"{self.__qualname__} takes {len(signature.parameters)} arguments")
        words: list[int] = [0]  # the result
        for kind, argument in zip(signature.parameters, arguments, strict=True):
            _flatten(kind, argument, words)
        buffer = (ctypes.c_int64 * len(words))(*words)
        if self._native(buffer) != 0:
            raise ArithmeticError(f"the native loop {self.__qualname__} failed")
        if signature.result is None:
            return None
        return bool(buffer[0]) if signature.result.is_bool else buffer[0]


def loop(function: Function) -> Function:
    """Makes a loop of a function; it is compiled, or loaded, when Python first calls it."""
    return cast(Function, Loop(function))


def _flatten(kind: Kind, value: Any, words: list[int]) -> None:
    """Appends the words of a value, in the order in which Numba passes them."""
    match kind:
        case Scalar():
            words.append(index(value))
        case Array(dtype=dtype, dimensions=dimensions):
            if value.dtype != dtype or value.ndim != dimensions or not value.flags.c_contiguous:
                raise TypeError(f"expected a contiguous array of {dtype} with {dimensions} dimensions")
            # The two zeros stand for the owner of the memory: nobody that native code knows.
            words += (0, 0, value.size, value.itemsize, value.ctypes.data, *value.shape, *value.strides)
        case Record(fields=fields):
            for field, part in zip(fields, value, strict=True):
                _flatten(field, part, words)
