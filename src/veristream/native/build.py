"""Compiles loops ahead of time: Numba turns them into LLVM code, from which reference counts are removed.

Numba counts references to every array that a function is called with, also where the array is part of a
tuple, with an atomic addition each: a loop that called a function for each state spent two thirds of its
time on that. Loops own nothing, so the two functions that count become empty; then the whole is optimised
again. `guard` checks what is left.

    python -m veristream.native.build FOLDER

writes the object code of all loops, as a wheel contains it.
"""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import llvmlite.binding as binding

os.environ.setdefault("NUMBA_OPT", "1")  # the loops are optimised below, after they are put together
import numba

from veristream.native import intrinsics
from veristream.native.declared import Array, Declared, Kind, Record, Scalar, Signature, entries_of
from veristream.native.objects import generic_machine
from veristream.native.primitives import Primitive

# The code must run on every processor of this architecture, not only on the one that compiles it.
_config: Any = numba.config
_config.CPU_NAME, _config.CPU_FEATURES = "generic", ""

_WRAPPERS = ("_ZN7cpython", "cfunc.", "NRT_")
_LIBRARY = ("memcpy", "memmove", "memset")
_NO_COUNTS = """
define internal void @NRT_incref(ptr %object) alwaysinline { ret void }
define internal void @NRT_decref(ptr %object) alwaysinline { ret void }
"""


def compile_loops(module: ModuleType) -> bytes:
    """Returns the object code of the module's entries."""
    code: bytes = generic_machine().emit_object(optimised(module))
    return code


def optimised(module: ModuleType) -> Any:
    """Returns the LLVM module of the module's entries, ready for code generation."""
    entries = entries_of(module)
    linked = binding.parse_assembly(_NO_COUNTS.replace("internal ", ""))
    for entry in entries:
        assert entry.signature is not None
        linked.link_in(_code_of(_dispatcher(entry), entry.symbol, entry.signature))
    linked.verify()
    symbols = {entry.symbol for entry in entries}
    for function in linked.functions:
        if not function.is_declaration and function.name not in symbols:
            function.linkage = binding.Linkage.internal
            function.add_function_attribute("alwaysinline")  # or else its caller copies whole tuples
    options = binding.create_pipeline_tuning_options(speed_level=3)
    builder = binding.create_pass_builder(generic_machine(), options)
    builder.getModulePassManager().run(linked, builder)
    for function in linked.functions:
        known = function.name.startswith("llvm.") or function.name in _LIBRARY
        assert known or not function.is_declaration, f"a loop of {module.__name__} calls {function.name}"
    return linked


@cache
def _dispatcher(loop: Declared) -> Any:
    """Returns what Numba makes of a loop: a copy of its function, which refers to Numba's versions of other
    loops and to intrinsics where the function refers to loops and primitives. Loops do not recur."""
    function = loop.function
    names = function.__code__.co_names
    space = dict(function.__globals__)
    for name in names:
        one = space.get(name)
        if isinstance(one, Declared):
            space[name] = _dispatcher(one)
        elif isinstance(one, Primitive):
            space[name] = getattr(intrinsics, one.name)
    copy = FunctionType(function.__code__, space, function.__name__)
    copy.__qualname__, copy.__module__ = function.__qualname__, function.__module__
    return numba.njit(nogil=True)(copy)


def _code_of(dispatcher: Any, symbol: str, signature: Signature) -> Any:
    """Compiles an entry, with all that it calls, behind a function that takes its arguments from memory."""
    types = tuple(map(_type_of, signature.parameters))
    dispatcher.compile(types)
    found = dispatcher.overloads[types]
    returned = None if signature.result is None else "i8" if signature.result.is_bool else "i64"
    expected = {None: "none", "i8": "bool", "i64": "int64"}[returned]
    assert str(found.signature.return_type) == expected, f"{symbol} returns {found.signature.return_type}"
    text = _without_wrappers(found.library.get_llvm_str())
    name = found.fndesc.llvm_func_name
    parsed = binding.parse_assembly(text)
    kinds = [str(one.type) for one in parsed.get_function(name).arguments]
    return binding.parse_assembly(text + _entry(symbol, name, kinds, returned))


def _type_of(kind: Kind) -> Any:
    match kind:
        case Scalar(is_bool=is_bool):
            return numba.types.boolean if is_bool else numba.types.int64
        case Array(dtype=dtype, dimensions=dimensions):
            return numba.types.Array(numba.from_dtype(dtype), dimensions, "C")
        case Record(type=type_, fields=fields):
            return numba.types.BaseTuple.from_types(tuple(map(_type_of, fields)), type_)


def _without_wrappers(text: str) -> str:
    """Removes the functions with which Python would call the code, and those that count references."""
    kept: list[str] = []
    is_wrapper = False
    for line in text.splitlines():
        name = re.search(r'@"?([^"(]+)"?\(', line) if line.startswith("define") else None
        if name is not None:
            is_wrapper = name.group(1).startswith(_WRAPPERS)
        if not is_wrapper:
            kept.append(line)
        if line == "}":
            is_wrapper = False
    declared = [f"declare void @NRT_{name}(ptr)" for name in ("incref", "decref")]
    return "\n".join([*kept, *declared])


def _entry(symbol: str, name: str, kinds: list[str], returned: str | None) -> str:
    """Returns the LLVM code of an entry: Numba's function takes a place for its result, one for an error,
    and the arguments."""
    body = ["%result = alloca i64", "store i64 0, ptr %result", "%error = alloca ptr"]
    passed = ["ptr %result", "ptr %error"]
    for number, kind in enumerate(kinds[2:], start=1):
        body.append(f"%at{number} = getelementptr i64, ptr %words, i64 {number}")
        body.append(f"%word{number} = load i64, ptr %at{number}")
        cast = {"i64": "", "ptr": "inttoptr"}.get(kind, "trunc")
        if cast:
            body.append(f"%as{number} = {cast} i64 %word{number} to {kind}")
        passed.append(f"{kind} %{'as' if cast else 'word'}{number}")
    body.append(f'%status = call i32 @"{name}"({", ".join(passed)})')
    if returned is not None:
        body.append(f"%value = load {returned}, ptr %result")
        body.append("%wide = zext i8 %value to i64" if returned == "i8" else "%wide = add i64 %value, 0")
        body.append("store i64 %wide, ptr %words")
    lines = "\n  ".join(body)
    return f'\ndefine i32 @"{symbol}"(ptr %words) {{\n  {lines}\n  ret i32 %status\n}}\n'


def modules_with_loops() -> list[str]:
    """Returns the names of all modules of this package that declare loops."""
    root = Path(__file__).resolve().parent.parent
    found = [path for path in sorted(root.rglob("*.py")) if "\n@loop\n" in path.read_text(encoding="utf-8")]
    return [".".join(path.relative_to(root.parent).with_suffix("").parts) for path in found]


def main() -> None:
    """Writes the object code of all loops to a folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in modules_with_loops():
        module = import_module(name)
        if entries_of(module):
            (folder / f"{name}.o").write_bytes(compile_loops(module))


if __name__ == "__main__":
    main()
