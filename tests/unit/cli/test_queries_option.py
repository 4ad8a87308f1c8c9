"""`--queries FILE`, and the suffixes of UPPAAL's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import veristream as vs
from tests.unit.cli.conftest import Run

MODEL = "int n; process P() { state A, B; init A; trans A -> B { assign n = 1; }; } system P;"
NTA = (
    "<nta><declaration>int n;</declaration><template><name>P</name><location id='a'>"
    "<name>A</name></location>"
    "<init ref='a'/></template><system>system P;</system>"
    "<queries><query><formula>E&lt;&gt; n == 0</formula></query></queries></nta>"
)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def asked(run: Run, *arguments: object) -> list[tuple[str, str]]:
    results = json.loads(run("check", *arguments, "--json").stdout)["results"]
    return [(one["property"], one["verdict"]) for one in results]


@pytest.mark.parametrize("suffix", [".xta", ".ta"])
def test_suffixes(run: Run, tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, f"m{suffix}", MODEL)
    assert asked(run, path) == [("deadlockfree", "violated")]
    write(tmp_path, "m.q", "E<> P.B\nA[] n == 0\n")
    assert asked(run, path) == [("E<> P.B", "holds"), ("A[] n == 0", "violated")]
    assert run("simulate", path).exit_code == 0


def test_a_file_of_queries(run: Run, tmp_path: Path) -> None:
    path, more = (
        write(tmp_path, "m.xta", MODEL),
        write(tmp_path, "more.q", "// first\nA[] n <= 1\nsup: n\n"),
    )
    assert asked(run, path, "--queries", more) == [("A[] n <= 1", "holds"), ("sup: n", "holds")]
    write(tmp_path, "m.q", "E<> P.B\n")
    assert asked(run, path, "--queries", more) == [("A[] n <= 1", "holds"), ("sup: n", "holds")]
    assert asked(run, path, "--queries", more, "-p", "sup") == [("sup: n", "holds")]


def test_instead_of_those_in_the_model(run: Run, tmp_path: Path) -> None:
    path, more = write(tmp_path, "m.xml", NTA), write(tmp_path, "more.q", "A[] P.A\n")
    assert asked(run, path) == [("E<> n == 0", "holds")]
    assert asked(run, path, "--queries", more) == [("A[] P.A", "holds")]


def test_queries_of_another_model(run: Run, tmp_path: Path) -> None:
    path, other = write(tmp_path, "m.ta", MODEL), write(tmp_path, "other.xml", NTA)
    assert asked(run, path, "--queries", other) == [("E<> n == 0", "holds")]


def test_a_wrong_query_in_the_file(run: Run, tmp_path: Path) -> None:
    path, more = write(tmp_path, "m.xta", MODEL), write(tmp_path, "more.q", "A[] k > 0\nE<> P.B\n")
    assert asked(run, path, "--queries", more) == [("A[] k > 0", "error"), ("E<> P.B", "holds")]
    assert f"{more}:1:5: error: unknown name `k`" in run("check", path, "--queries", more).stderr


def test_from_python(tmp_path: Path) -> None:
    path, more = write(tmp_path, "m.xta", MODEL), write(tmp_path, "more.q", "E<> P.B\n")
    assert [one.property for one in vs.check(vs.load_all(path, queries=more))] == ["E<> P.B"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no file"),
        ("// nothing\n", "the file has no queries"),
        ("<nta></nta>", "the file has no queries"),
        ("<nta", "malformed XML"),
    ],
)
def test_a_file_without_queries(run: Run, tmp_path: Path, content: str | None, message: str) -> None:
    path, more = write(tmp_path, "m.xta", MODEL), tmp_path / "more.q"
    if content is not None:
        write(tmp_path, "more.q", content)
    done = run("check", path, "--queries", more)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


def test_other_languages_have_none(run: Run, tmp_path: Path, counter: Path) -> None:
    more = write(tmp_path, "more.q", "E<> P.B\n")
    done = run("check", counter, "--queries", more)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "cannot have the properties of another file" in done.stderr
    assert "only models of UPPAAL" in done.stderr
