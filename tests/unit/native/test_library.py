"""Where the code of loops comes from, and how Python calls it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from veristream.errors import EnvironmentFailure
from veristream.native import library
from veristream.native.declared import Array, Declared, Record, Scalar, kind_of, reachable
from veristream.native.library import digest_of
from veristream.native.loop import loop
from veristream.native.primitives import load_word

SCALE = 3


class Pair(NamedTuple):
    words: NDArray[np.int64]
    scale: int


@loop
def _scaled(pair, k):  # type: ignore[no-untyped-def]
    return pair.words[k] * pair.scale * SCALE


@loop
def total(pair: Pair, table: Annotated[NDArray[np.int32], 2], doubled: bool) -> int:
    result = 0
    for k in range(pair.words.size):
        result += _scaled(pair, k)
    for row in range(table.shape[0]):
        for column in range(table.shape[1]):
            result += table[row, column]
    return 2 * result if doubled else result


@loop
def is_set(address: int) -> bool:
    return load_word(address) != 0


@loop
def fill(words: NDArray[np.int64], value: int) -> None:
    for k in range(words.size):
        words[k] = value


@loop
def divide(a: int, b: int) -> int:
    return a // b


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path))


def test_python_calls_a_loop_with_arrays_tuples_and_truth_values() -> None:
    pair = Pair(np.array([1, 2, 3], np.int64), 5)
    table = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert total(pair, table, False) == 6 * 5 * SCALE + 15
    assert total(pair, table, True) == 2 * (6 * 5 * SCALE + 15)
    words = np.array([0, -1], np.int64)
    assert [is_set(words.ctypes.data + 8 * k) for k in range(2)] == [False, True]
    assert fill(words, -7) is None  # type: ignore[func-returns-value]
    assert words.tolist() == [-7, -7]


def test_an_argument_of_another_type_is_refused() -> None:
    pair = Pair(np.zeros(2, np.int64), 1)
    with pytest.raises(TypeError, match="expected a contiguous array of int32 with 2 dimensions"):
        total(pair, np.zeros((2, 2), np.int64), False)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected a contiguous array"):
        total(pair, np.zeros((2, 4), np.int32)[:, ::2], False)
    with pytest.raises(TypeError):
        total(Pair(np.zeros(2, np.int64), 1.5), np.zeros((2, 2), np.int32), False)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes 3 arguments"):
        total(pair)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="must be annotated"):
        _scaled(pair, 0)


def test_a_loop_that_fails_raises() -> None:
    assert divide(7, 2) == 3
    with pytest.raises(ArithmeticError, match="the native loop divide failed"):
        divide(7, 0)


def test_annotations_say_how_arguments_are_passed() -> None:
    assert kind_of(int) == Scalar(False) and kind_of(bool) == Scalar(True)
    assert kind_of(NDArray[np.uint16]) == Array(np.dtype(np.uint16), 1)
    assert kind_of(Pair) == Record(Pair, (Array(np.dtype(np.int64), 1), Scalar(False)))
    with pytest.raises(TypeError, match="a loop takes no"):
        kind_of(str)


def test_the_digest_covers_called_loops_and_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules[__name__]
    before = digest_of(module)
    assert {one.__name__ for one in reachable([_loop("total")])} == {"total", "_scaled"}
    monkeypatch.setitem(globals(), "SCALE", 4)
    assert digest_of(module) != before
    monkeypatch.undo()
    assert digest_of(module) == before

    @loop
    def _scaled(pair, k):  # type: ignore[no-untyped-def]
        return pair.words[k] * pair.scale + SCALE

    monkeypatch.setitem(globals(), "_scaled", _scaled)
    assert digest_of(module) != before


def _loop(name: str) -> Declared:
    found = globals()[name]
    assert isinstance(found, Declared)
    return found


def test_a_cached_module_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = sys.modules[__name__]
    code = library._cached(module)
    (entry,) = (tmp_path / "loops").glob("*.o")
    monkeypatch.delitem(sys.modules, "veristream.native.build")
    monkeypatch.setitem(sys.modules, "numba", None)  # type: ignore[arg-type]
    assert library._cached(module) == code
    entry.write_bytes(entry.read_bytes()[:-1])
    with pytest.raises(EnvironmentFailure, match="not compiled yet, and numba is not installed"):
        library._cached(module)


def test_a_cache_that_cannot_be_written_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path / "file"))
    assert library._cached(sys.modules[__name__])[:4] == b"\x7fELF"


def test_a_process_whose_loops_are_compiled_needs_no_numba() -> None:
    script = (
        "import sys, numpy as np\n"
        "from veristream.search.reach.visited import fingerprint\n"
        "row = np.array([1, 2], np.int64)\n"
        "print(fingerprint(row.ctypes.data, 2), 'numba' in sys.modules)\n"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True) for _ in range(2)
    ]
    (first, compiled), (second, cached) = (run.stdout.split() for run in runs)
    assert first == second
    assert (compiled, cached) == ("True", "False"), [run.stderr for run in runs]
