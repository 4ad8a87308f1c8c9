"""No search loop counts references, allocates, or calls a function that should have been inlined."""

from __future__ import annotations

from importlib import import_module

import numba
import numpy as np
import pytest

from tests.unit.native import slow_loop
from veristream.native.build import _dispatcher, _type_of, modules_with_loops, optimised
from veristream.native.declared import entries_of
from veristream_testing.loops import Burden, burdens_of

pytestmark = pytest.mark.xdist_group("loops")


@pytest.mark.long
@pytest.mark.parametrize("name", modules_with_loops())
def test_the_compiled_code_calls_only_kernels(name: str) -> None:
    code = str(optimised(import_module(name)))
    assert burdens_of(code) == set()
    assert all(
        f"@{name.replace('.', '_')}_{one.__name__}(" in code for one in entries_of(import_module(name))
    )


def test_the_innermost_loop_of_reachability_calls_only_kernels() -> None:
    assert burdens_of(str(optimised(import_module("veristream.search.reach.expand")))) == set()


def test_what_numba_alone_makes_of_the_loop_is_refused() -> None:
    """So the loop was compiled when it became three times slower."""
    entries = entries_of(import_module("veristream.search.reach.expand"))
    (expand,) = (one for one in entries if one.__name__ == "expand")
    assert expand.signature is not None
    types = tuple(map(_type_of, expand.signature.parameters))
    dispatcher = _dispatcher(expand)
    dispatcher.compile(types)
    code = dispatcher.inspect_llvm(types)
    found = burdens_of(code)
    assert {burden.reason for burden in found} == {"counts references", "is not inlined"}
    assert any("keep" in burden.callee for burden in found)


def test_the_mistake_that_made_the_search_slow_is_refused() -> None:
    """Tuples of arrays that a function of its own takes, for each state."""
    words = np.zeros(1, np.int64)
    work, own = slow_loop.Work(*[words] * 3), slow_loop.Own(*[words] * 5)
    types = tuple(map(numba.typeof, (work, own, 0)))
    slow_loop.look_up.compile(types)
    found = burdens_of(slow_loop.look_up.inspect_llvm(types))
    innermost = [burden for burden in found if "look_up" in burden.function]
    assert {burden.reason for burden in innermost} == {"counts references", "is not inlined"}
    assert any("keep" in burden.callee for burden in innermost)


def test_burdens_are_named() -> None:
    code = "\n".join(
        [
            'define i32 @"search"(ptr %words) {',
            "  call void @NRT_incref(ptr %a)",
            "  %b = call ptr @NRT_MemInfo_alloc_aligned(i64 8, i32 32)",
            '  %c = tail call fastcc i32 @"keep"(i64 %x)',
            "  call void @llvm.prefetch.p0(ptr %a, i32 1, i32 3, i32 1)",
            "  %d = call i64 %kernel(i64 %x)",
            "}",
            'define ptr @"cfunc.search"(ptr %words) {',
            "  call void @NRT_decref(ptr %a)",
            "}",
        ]
    )
    found = {(burden.callee, burden.reason) for burden in burdens_of(code)}
    assert found == {
        ("NRT_incref", "counts references"),
        ("NRT_MemInfo_alloc_aligned", "allocates"),
        ("keep", "is not inlined"),
    }
    assert Burden("search", "keep") in burdens_of(code)
