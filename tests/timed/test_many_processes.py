"""Systems of hundreds and thousands of processes: they are read and checked, or refused with the reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import veristream as vs
from tests.unit.languages.timed.lower_texts import network
from veristream.errors import ModelError
from veristream.ir.expr import TRUE
from veristream.ir.property import Always, Property, Reachable
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.verdict import Holds, word


def chain(count: int) -> str:
    """Returns processes that move one after the other: `count` + 1 states."""
    return (
        f"typedef int[1,{count}] id_t; int[0,{count}] done;"
        "process P(const id_t i) { state A, B; init A;"
        "trans A -> B { guard done == i - 1; assign done = i; }; } system P;"
    )


def ask(folder: Path, text: str, *queries: str) -> list[vs.Result]:
    path = folder / "m.xta"
    path.write_text(text, encoding="utf-8")
    path.with_suffix(".q").write_text("\n".join(queries), encoding="utf-8")
    return list(vs.check(path))


NAMES = [f"P({i})" for i in range(1, 401)]
LONG = (
    "E<> forall (i : id_t) P(i).B",
    "A[] (sum (i : id_t) P(i).B) == done",
    "E<> " + " and ".join(f"{name}.B" for name in NAMES),
    "A[] " + " or ".join(f"{name}.A" for name in NAMES) + " || done == 400",
    "A[] " + " + ".join(f"{name}.B" for name in NAMES) + " == done",
    "E<> (sum (i : id_t) P(i).B) > 400",
)


def test_hundreds_of_processes(tmp_path: Path) -> None:
    goal, last = ask(tmp_path, chain(400), LONG[0], LONG[-1])
    assert word(last.verdict) == "violated"
    assert (last.effort.states, last.effort.transitions) == (401, 400)
    assert isinstance(goal.verdict, Holds)
    assert goal.verdict.trace is not None
    assert len(goal.verdict.trace.steps) == 401


@pytest.mark.long
def test_queries_on_all_of_them(tmp_path: Path) -> None:
    """A chain of `and`, `or` or `+` may be as long as one likes."""
    results = ask(tmp_path, chain(400), *LONG)
    assert [word(one.verdict) for one in results] == [*["holds"] * 5, "violated"]


def test_thousands_of_processes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "m.xta"
    path.write_text(chain(2000), encoding="utf-8")
    names = " and ".join(f"P({i}).B" for i in range(1, 2001))
    path.with_suffix(".q").write_text(f"E<> forall (i : id_t) P(i).B\nE<> {names}\n", encoding="utf-8")
    model = vs.load(path)
    assert len(model.components) == 2000
    assert model.rejected == ()
    assert [type(one.claim) for one in model.properties] == [Reachable, Reachable]


def test_a_broadcast_to_hundreds(tmp_path: Path) -> None:
    """All receive at once, each at its only edge: one step."""
    text = (
        "typedef int[1,80] id_t; broadcast chan go; int n;"
        "process S() { state A, B; init A; trans A -> B { sync go!; }; }"
        "process P(const id_t i) { state A, B; init A; trans A -> B { sync go?; assign n = n + 1; }; }"
        "system S, P;"
    )
    results = ask(tmp_path, text, "E<> forall (i : id_t) P(i).B and n == 80", "A[] S.B imply n == 80")
    assert [word(one.verdict) for one in results] == ["holds", "holds"]
    assert (results[1].effort.states, results[1].effort.transitions) == (2, 1)


def test_too_much_code_is_refused() -> None:
    """Each of 230 processes can send to each of the others."""
    text = (
        "typedef int[1,230] id_t; chan c;"
        "process P(const id_t i) { state A; init A; trans A -> A { sync c!; }, A -> A { sync c?; }; }"
        "system P;"
    )
    with pytest.raises(ModelError) as refused:
        check(network(text), [Property("p", Always(TRUE))], Limits())
    assert refused.value.message == (
        f"the model has {230 * 229:,} ways for its processes to move, which is too much code"
    )
    assert "use fewer processes" in refused.value.hint


@pytest.mark.parametrize("opening", ["(", "!(", "n == 0 imply (", "n == 0 ? true : ("])
def test_deep_nesting_is_refused_or_read(opening: str, tmp_path: Path) -> None:
    """What Python cannot follow is an error of that query, at whatever stage; the others are answered."""
    for depth in (40, 300, 2000):
        deep = "A[] " + opening * depth + "n == 0" + ")" * depth
        text = "int n; process P() { state A; init A; } system P;"
        first, asked, last = ask(tmp_path, text, "A[] n == 0", deep, "E<> P.A")
        assert (word(first.verdict), word(last.verdict)) == ("holds", "holds")
        assert word(asked.verdict) in ("holds", "error")
        if word(asked.verdict) == "error":
            reason = asked.verdict.reason
            assert "nested too deeply" in reason or "more than 62 different conditions" in reason
        assert depth > 40 or word(asked.verdict) == "holds"


CLEARS = """
from veristream.kernel.code.objects import Object, compile_text
text = '''
declare ptr @memset(ptr, i32, i64)
define i64 @"clear"(ptr %row) {
  %done = call ptr @memset(ptr %row, i32 0, i64 4096)
  ret i64 7
}
'''
print(Object(compile_text(text)).address("clear") > 0)
"""


def test_code_that_calls_memset_is_loaded() -> None:
    """LLVM calls it for long rows; without writable data, the loader ended the process."""
    done = subprocess.run([sys.executable, "-c", CLEARS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
