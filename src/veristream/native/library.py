"""Where the code of loops comes from: the installed package, the cache on disk, or else the compiler.

A wheel contains the object code of all loops, one file for each module that declares some. In a checkout it
is compiled when a module's loops are first called, and cached under a digest of the loops themselves.
"""

from __future__ import annotations

import fcntl
import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

from veristream.cache import cache_directory, read_entry, write_entry
from veristream.errors import EnvironmentFailure
from veristream.native.declared import Declared, entries_of, kind_of, reachable
from veristream.native.objects import load_object
from veristream.native.primitives import Primitive

SHIPPED = "compiled"
"""The folder of this package with the object code of a wheel."""


def address_of(loop: Declared) -> int:
    """Returns the address of `f(words) -> status`: it reads the loop's arguments from `words[1:]`, writes
    what the loop returns to `words[0]`, and returns 0 unless the loop failed."""
    return int(_load(loop.__module__).get_function_address(loop.symbol))


@cache
def _load(name: str) -> Any:
    return load_object(_shipped(name) or _cached(sys.modules[name]))


def _shipped(name: str) -> bytes | None:
    shipped = files("veristream.native") / SHIPPED / f"{name}.o"
    return shipped.read_bytes() if shipped.is_file() else None


def _cached(module: ModuleType) -> bytes:
    path = cache_directory("loops") / f"{digest_of(module)}.o"
    code = read_entry(path)
    if code is None:
        with _alone(path):
            code = read_entry(path)  # another process may have compiled it meanwhile
            if code is None:
                code = _compile(module)
                write_entry(path, code)
    return code


def _compile(module: ModuleType) -> bytes:
    try:
        from veristream.native.build import compile_loops
    except ModuleNotFoundError as error:
        raise EnvironmentFailure(
            f"the search loops of this checkout are not compiled yet, and {error.name} is not installed",
            "install it with: pip install 'veristream[loops]'",
        ) from None
    return compile_loops(module)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lets one process at a time compile an entry, since each would compile the same; without a lock if the
    folder cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = (path.parent / "lock").open("w")
    except OSError:
        yield
        return
    with lock:
        # A byte of the file stands for each entry, so that others are compiled at the same time.
        fcntl.lockf(lock, fcntl.LOCK_EX, 1, int(path.stem[:7], 16))
        yield


def digest_of(module: ModuleType) -> str:
    """Returns a digest of the code of all loops that the module's entries consist of."""
    digest = hashlib.sha256()
    for source in ("build.py", "intrinsics.py", "declared.py"):
        digest.update((files("veristream.native") / source).read_bytes())
    digest.update(repr((sys.version_info[:2], sys.platform)).encode())
    for loop in reachable(entries_of(module)):
        code = loop.function.__code__
        shape = (loop.__qualname__, code.co_code, code.co_consts, code.co_names, code.co_varnames)
        digest.update(repr((shape, loop.signature, _constants(loop))).encode())
    return digest.hexdigest()[:40]


def _constants(loop: Declared) -> list[tuple[str, object]]:
    """Returns what the loop uses of its module besides loops: numbers, and the shapes of named tuples."""
    used = {name: loop.function.__globals__.get(name) for name in loop.function.__code__.co_names}
    return [
        (name, kind_of(one) if isinstance(one, type) and hasattr(one, "_fields") else one)
        for name, one in used.items()
        if one is not None and not isinstance(one, Declared | Primitive | ModuleType)
    ]
