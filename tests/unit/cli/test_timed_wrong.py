"""What a user sees of a timed model that is wrong: the place, the excerpt, a hint, exit 2, at once."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run


@dataclass(frozen=True, slots=True)
class Wrong:
    """A model with its queries, where the error is, its message and the hint."""

    text: str
    place: str
    message: str
    hint: str
    query: str | None = "A[] true"
    arguments: tuple[str, ...] = ()
    suffix: str = ".xta"


def process(
    declared: str = "",
    place: str = "state s;",
    init: str = "init s;",
    edge: str = "",
    system: str = "system P;",
    parameters: str = "",
) -> str:
    """A model of one process: declarations in line 1, its locations in line 3, its edge in line 5."""
    trans = f"trans s -> s {{ {edge} }};" if edge else ""
    return f"{declared}\nprocess P({parameters}) {{\n{place}\n{init}\n{trans}\n}}\n{system}\n"


NO_ENTITIES = "remove the declarations; `&lt;`, `&gt;`, `&amp;`, `&quot;` and `&apos;` need none"
HYBRID = "the rate of a clock, written with `'`, is a statistical or hybrid construct"
WRONG = {
    "unknown channel": Wrong(
        process(edge="sync go!;"), "m.xta:5:21", "unknown name `go`", "declare it first"
    ),
    "clock difference assigned": Wrong(
        process("clock x, y; int n;", edge="assign n = x - y;"),
        "m.xta:5:27",
        "a clock's value cannot be assigned",
        "only numbers can: `x = 0`",
    ),
    "initial invariant with a lower bound": Wrong(
        process("clock x;", place="state s { x >= 2 };"),
        "m.xta:1:1",
        "the clock invariants of the initial locations do not hold at first",
        "all clocks begin at 0",
    ),
    "initial invariant with a difference": Wrong(
        process("clock x, y;", place="state s { x - y >= 2 };"),
        "m.xta:1:1",
        "the clock invariants of the initial locations do not hold at first",
        "all clocks begin at 0",
    ),
    "invariant that is not convex": Wrong(
        process("clock x, y;", place="state s { x <= 2 || y <= 3 };"),
        "m.xta:3:11",
        "this condition on clocks is not convex",
        "make an edge, or a location, for each of the cases",
    ),
    "guard that is not convex": Wrong(
        process("clock x;", edge="guard x != 2;"),
        "m.xta:5:22",
        "this condition on clocks is not convex",
        "write two edges, one with `<` and one with `>`",
    ),
    "clock guard on an urgent channel": Wrong(
        process("clock x; urgent chan c;", edge="guard x > 2; sync c!;"),
        "m.xta:5:22",
        "a clock guard on the urgent channel `c`",
        "test clocks on another edge, or make the channel not urgent",
    ),
    "no initial location": Wrong(
        process(init=""),
        "m.xta:2:9",
        "the process `P` has no initial location",
        "write `init s;` after its locations",
    ),
    "unknown initial location": Wrong(
        process(init="init t;"), "m.xta:4:6", "there is no location `t`", "the process has: s"
    ),
    "unknown template": Wrong(
        process(system="system P, Q;"), "m.xta:7:11", "unknown template `Q`", "there are: P"
    ),
    "wrong arity": Wrong(
        process(parameters="int[0,3] i", system="A = P(1, 2);\nsystem A;"),
        "m.xta:7:1",
        "`P` takes 1 argument(s), not 2",
        "write `P(i)`",
    ),
    "rate of a clock": Wrong(
        process("clock x;", place="state s { x' == 2 };"),
        "m.xta:3:12",
        HYBRID,
        "all clocks run at the same rate and cannot be stopped; leave it out",
    ),
    "recursion": Wrong(
        process("int f(int n) { return f(n - 1); } int n;", edge="assign n = f(1);"),
        "m.xta:1:5",
        "function `f` calls itself",
        "use a loop",
    ),
    "index": Wrong(
        process("int a[3];", edge="assign a[5] = 1;"),
        "m.xta:5:25",
        "index 5 is outside 0..2 of `a`",
        "change the index or the array's size",
    ),
    "unknown constant": Wrong(
        process("const int N = 2;"),
        "m.xta:1:1",
        "the model has no constant `M` to set",
        "it has these constants: `N`",
        arguments=("-D", "M=3"),
    ),
    "statistical query": Wrong(
        process("clock x;"),
        "m.q:1:1",
        "`Pr` begins a statistical query, which is not supported",
        "ask with `A[]`, `E<>`, `E[]`, `A<>`, `-->`, `sup`, `inf` or `bounds`",
        "Pr[<=10](<> P.s)",
    ),
    "unknown location in a query": Wrong(
        process(), "m.q:1:5", "unknown location or variable `t`", "`P` has s", "A[] P.t"
    ),
    "query without an end": Wrong(
        process(), "m.q:2:5", "this `(` is not closed", "add `)` where it ends", "A[] P.s\nE<> (P.s"
    ),
    "query that breaks off": Wrong(
        process(), "m.q:1:9", "the text ends too early", "expected an expression", "A[] P.s and"
    ),
    "clock alone in a query": Wrong(
        process("clock x;"),
        "m.q:1:5",
        "a clock stands where a number belongs",
        "a clock can be compared in guards, invariants and queries, and set in updates",
        "A<> x",
    ),
    "broken XML": Wrong(
        "<nta>\n<declaration>clock x;</declaration>\n<template><name>P</name></nta>",
        "m.xml:3:27",
        "the XML is broken: mismatched tag",
        "every element ends with its own tag: `<a> ... </a>`",
        None,
        suffix=".xml",
    ),
    "XML without an initial location": Wrong(
        '<nta><template><name>P</name><location id="a"/></template><system>system P;</system></nta>',
        "m.xml:1:22",
        "the template `P` has no initial location",
        'mark one, for instance with `<init ref="a"/>` after the locations',
        suffix=".xml",
    ),
    "external entity": Wrong(
        '<!DOCTYPE nta [\n<!ENTITY secret SYSTEM "file:///etc/hostname">\n]>\n'
        "<nta><declaration>&secret;</declaration></nta>",
        "m.xml:2:1",
        "the file declares entities, such as `secret`",
        NO_ENTITIES,
        None,
        suffix=".xml",
    ),
}


def write(folder: Path, wrong: Wrong) -> Path:
    path = folder / f"m{wrong.suffix}"
    path.write_text(wrong.text, encoding="utf-8")
    if wrong.query is not None:
        (folder / "m.q").write_text(f"{wrong.query}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("wrong", list(WRONG.values()), ids=list(WRONG))
def test_place_excerpt_hint_exit_2(run: Run, tmp_path: Path, wrong: Wrong) -> None:
    done = run("check", write(tmp_path, wrong), *wrong.arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    first, excerpt, marks, hint = done.stderr.splitlines()
    assert first == f"{tmp_path}/{wrong.place}: error: {wrong.message}"
    name, line, column = wrong.place.split(":")
    source = (tmp_path / name).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    assert excerpt == f"{line} | {source}"
    assert marks.index("^") == len(f"{line} | ") + int(column) - 1
    assert hint == f"hint: {wrong.hint}"


@pytest.mark.parametrize(
    ("suffix", "hint"),
    [
        (".xta", "a model ends with the system line: `system Process;`"),
        (".xml", "an UPPAAL model is an XML document `<nta>...</nta>`"),
    ],
)
def test_an_empty_file(run: Run, tmp_path: Path, suffix: str, hint: str) -> None:
    path = tmp_path / f"m{suffix}"
    path.write_text("", encoding="utf-8")
    done = run("check", path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [f"error: {path} is empty", f"hint: {hint}"]


BOMB = (
    '<!DOCTYPE nta [\n<!ENTITY a "aaaaaaaaaa">\n'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 10}">\n' for a, b in zip("abcdefghi", "bcdefghij", strict=True))
    + "]>\n<nta><declaration>&j;</declaration></nta>\n"
)
"""Ten thousand million letters, if anybody wrote them out."""

LIMITED = """
import resource, sys
limit = 1 << 31
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from veristream.cli.app import app
app(["check", sys.argv[1]])
"""


def test_entities_that_grow_without_bound_end_at_once(tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    path.write_text(BOMB, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 2, "it was ended for the memory or the seconds of a processor that it took"
    assert done.stderr.splitlines()[0] == f"{path}:2:1: error: the file declares entities, such as `a`"
    assert done.stderr.splitlines()[-1] == f"hint: {NO_ENTITIES}"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('model = "m.xta"', "simulate 1: title is missing"),
        ('title = "a run"', "simulate 1: model is missing"),
        ('title = "a run"\nmodel = "m.xta"\nsteps = "7"', "simulate 1: steps must be an integer"),
        ('title = "a run"\nmodel = "m.xta"\npace = 7', "simulate 1: unknown key pace"),
    ],
)
def test_runs_that_a_folder_names_wrongly(run: Run, tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "m.xta").write_text(process(), encoding="utf-8")
    known = f'paper = "a paper"\n[[model]]\nfile = "m.xta"\n[[simulate]]\n{table}\n'
    (tmp_path / "expected.toml").write_text(known, encoding="utf-8")
    done = run("simulate", tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"error: {tmp_path}/expected.toml, {message}"
