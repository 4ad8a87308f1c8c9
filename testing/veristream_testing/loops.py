"""Reads the compiled code of search loops for what makes them slow, without a clock.

An innermost loop must not count references, allocate, or call anything but kernels: a function that is not
inlined is passed all arrays of its tuples, one by one, for each state.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FUNCTION = re.compile(r'^define [^@]*@"?([^"(]+)"?\(')
_CALL = re.compile(r'\bcall [^@\n]*@"?([^"(]+)"?\(')


@dataclass(frozen=True, slots=True)
class Burden:
    """A call in compiled code that costs time for each state."""

    function: str
    callee: str

    @property
    def reason(self) -> str:
        """What is wrong with the call."""
        if self.callee in ("NRT_incref", "NRT_decref"):
            return "counts references"
        if self.callee.startswith("NRT_"):
            return "allocates"
        return "is not inlined"


def burdens_of(code: str) -> set[Burden]:
    """The calls of a module in LLVM's text form, except for LLVM's intrinsics and calls through an address.

    The functions with which Python calls the code run once for many states, and do not count.
    """
    found: set[Burden] = set()
    function = ""
    for line in code.splitlines():
        begins = _FUNCTION.match(line)
        if begins:
            function = begins.group(1)
        call = _CALL.search(line)
        if call and not call.group(1).startswith("llvm.") and not _serves_python(function):
            found.add(Burden(function, call.group(1)))
    return found


def _serves_python(function: str) -> bool:
    return function.startswith(("_ZN7cpython", "cfunc.", "NRT_"))
