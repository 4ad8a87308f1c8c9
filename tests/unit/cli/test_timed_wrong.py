"""Errors in timed models: position, excerpt, hint and exit code 2, without delay."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run


@dataclass(frozen=True, slots=True)
class Wrong:
    """A model with its queries, and the position, message and hint of its error."""

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
    """Returns a model of one process: declarations on line 1, locations on line 3, the edge on line 5."""
    trans = f"trans s -> s {{ {edge} }};" if edge else ""
    return f"{declared}\nprocess P({parameters}) {{\n{place}\n{init}\n{trans}\n}}\n{system}\n"


NO_ENTITIES = "remove the declarations; `&lt;`, `&gt;`, `&amp;`, `&quot;` and `&apos;` are predefined"
HYBRID = "clock rates, written with `'`, are a statistical or hybrid construct"
WRONG = {
    "unknown channel": Wrong(
        process(edge="sync go!;"), "m.xta:5:21", "unknown name `go`", "declare it first"
    ),
    "clock difference assigned": Wrong(
        process("clock x, y; int n;", edge="assign n = x - y;"),
        "m.xta:5:27",
        "clock values cannot be assigned",
        "assign a number, as in `x = 0`",
    ),
    "initial invariant with a lower bound": Wrong(
        process("clock x;", place="state s { x >= 2 };"),
        "m.xta:1:1",
        "the initial state violates the clock invariants of its locations",
        "all clocks start at 0",
    ),
    "initial invariant with a difference": Wrong(
        process("clock x, y;", place="state s { x - y >= 2 };"),
        "m.xta:1:1",
        "the initial state violates the clock invariants of its locations",
        "all clocks start at 0",
    ),
    "invariant that is not convex": Wrong(
        process("clock x, y;", place="state s { x <= 2 || y <= 3 };"),
        "m.xta:3:11",
        "this clock condition is not convex",
        "use a separate edge or location for each case",
    ),
    "guard that is not convex": Wrong(
        process("clock x;", edge="guard x != 2;"),
        "m.xta:5:22",
        "this clock condition is not convex",
        "use two edges, one with `<` and one with `>`",
    ),
    "clock guard on an urgent channel": Wrong(
        process("clock x; urgent chan c;", edge="guard x > 2; sync c!;"),
        "m.xta:5:22",
        "an edge on the urgent channel `c` cannot have a clock guard",
        "test clocks on another edge, or declare the channel without `urgent`",
    ),
    "no initial location": Wrong(
        process(init=""),
        "m.xta:2:9",
        "the process `P` has no initial location",
        "add `init s;` after its locations",
    ),
    "unknown initial location": Wrong(
        process(init="init t;"), "m.xta:4:6", "there is no location `t`", "the locations are: s"
    ),
    "unknown template": Wrong(
        process(system="system P, Q;"), "m.xta:7:11", "unknown template `Q`", "the templates are: P"
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
        "remove it; all clocks run at the same rate and cannot be stopped",
    ),
    "recursion": Wrong(
        process("int f(int n) { return f(n - 1); } int n;", edge="assign n = f(1);"),
        "m.xta:1:5",
        "function `f` calls itself",
        "use a loop",
    ),
    "unknown constant": Wrong(
        process("const int N = 2;"),
        "m.xta:1:1",
        "the model has no constant `M` to set",
        "the constants are: `N`",
        arguments=("-D", "M=3"),
    ),
    "statistical query": Wrong(
        process("clock x;"),
        "m.q:1:1",
        "`Pr` makes this a statistical query, which is not supported",
        "use `A[]`, `E<>`, `E[]`, `A<>`, `-->`, `sup`, `inf` or `bounds`",
        "Pr[<=10](<> P.s)",
    ),
    "unknown location in a query": Wrong(
        process(), "m.q:1:5", "unknown location or variable `t`", "`P` has s", "A[] P.t"
    ),
    "query without an end": Wrong(
        process(), "m.q:2:5", "this `(` is not closed", "add the missing `)`", "A[] P.s\nE<> (P.s"
    ),
    "query that breaks off": Wrong(
        process(), "m.q:1:9", "unexpected end of text", "expected an expression", "A[] P.s and"
    ),
    "clock alone in a query": Wrong(
        process("clock x;"),
        "m.q:1:5",
        "expected a number, found a clock",
        "clocks can be compared in guards, invariants and queries, and set in updates",
        "A<> x",
    ),
    "malformed XML": Wrong(
        "<nta>\n<declaration>clock x;</declaration>\n<template><name>P</name></nta>",
        "m.xml:3:27",
        "malformed XML: mismatched tag",
        "close every element with its own tag: `<a> ... </a>`",
        None,
        suffix=".xml",
    ),
    "XML without an initial location": Wrong(
        '<nta><template><name>P</name><location id="a"/></template><system>system P;</system></nta>',
        "m.xml:1:22",
        "the template `P` has no initial location",
        'add `<init ref="a"/>` after the locations',
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
    assert done.exit_code == 2
    assert ("  error  " in done.stdout) if ".q:" in wrong.place else (done.stdout == "")
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
"""Expands to 10^10 letters."""

LIMITED = """
import resource, sys
limit = 1 << 31
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
from veristream.cli.app import app
app(["check", sys.argv[1]])
"""


def test_entity_expansion_is_rejected_at_once(tmp_path: Path) -> None:
    path = tmp_path / "m.xml"
    path.write_text(BOMB, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 2, "killed because it exceeded the memory or CPU limit"
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
def test_invalid_runs_in_expected_toml(run: Run, tmp_path: Path, table: str, message: str) -> None:
    (tmp_path / "m.xta").write_text(process(), encoding="utf-8")
    known = f'paper = "a paper"\n[[model]]\nfile = "m.xta"\n[[simulate]]\n{table}\n'
    (tmp_path / "expected.toml").write_text(known, encoding="utf-8")
    done = run("simulate", tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[0] == f"error: {tmp_path}/expected.toml, {message}"
