"""Declarations: constants, variables, channels, alphabets, parameters, included files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.languages.csp.reading import error, read
from veristream.errors import ModelError
from veristream.languages.csp.read.parse import read_specification
from veristream.languages.csp.syntax import (
    Bound,
    Channel,
    Domain,
    Event,
    Events,
    Guard,
    Index,
    Number,
    Parameter,
    Ref,
    Variable,
)
from veristream.source import Source, read_source

VARIABLES: list[tuple[str, list[Variable]]] = [
    ("var x;", [Variable("x")]),
    ("var x = 5;", [Variable("x", (), (5,))]),
    ("hvar x = -5;", [Variable("x", (), (-5,), hidden=True)]),
    ("var x = N + 1;", [Variable("x", (), (4,))]),
    ("var x, y = 1;", [Variable("x"), Variable("y", (), (1,))]),
    ("var x = 2; var y = x * 3;", [Variable("x", (), (2,)), Variable("y", (), (6,))]),
    ("var x:{0..5} = 2;", [Variable("x", (), (2,), 0, 5)]),
    ("var x : {0..};", [Variable("x", low=0)]),
    ("var x:{..N};", [Variable("x", high=3)]),
    ("var x:{-1..N-1};", [Variable("x", low=-1, high=2)]),
    ("var b = true;", [Variable("b", (), (1,), boolean=True)]),
    ("var b = !true;", [Variable("b", (), (0,), boolean=True)]),
    ("var b = on;", [Variable("b", (), (1,), boolean=True)]),
    ("var b = N > 2;", [Variable("b", (), (1,), boolean=True)]),
    ("var a[3];", [Variable("a", (3,), (0, 0, 0))]),
    ("var a[N] = [1, 2, 3];", [Variable("a", (3,), (1, 2, 3))]),
    ("var a = [1, 2];", [Variable("a", (2,), (1, 2))]),
    ("var a[2][3] = [1, 2, 3, 4, 5, 6];", [Variable("a", (2, 3), (1, 2, 3, 4, 5, 6))]),
    ("var a[8] = [1(2), 3..6, 0(N-1)];", [Variable("a", (8,), (1, 1, 3, 4, 5, 6, 0, 0))]),
    ("var a = [3..1];", [Variable("a", (3,), (3, 2, 1))]),
    ("var a = [N(2), -1(2)];", [Variable("a", (4,), (3, 3, -1, -1))]),
    ("var a = [false(2)];", [Variable("a", (2,), (0, 0), boolean=True)]),
    ("var a = [false, 1];", [Variable("a", (2,), (0, 1))]),
    ("var a[2]:{0..5} = [1(2)];", [Variable("a", (2,), (1, 1), 0, 5)]),
    ("var a[N*2];", [Variable("a", (6,), (0,) * 6)]),
]

CHANNELS: list[tuple[str, list[Channel]]] = [
    ("channel c 0;", [Channel("c", 0)]),
    ("channel c N;", [Channel("c", 3)]),
    ("channel c N*2+1;", [Channel("c", 7)]),
    ("channel c[N] 3;", [Channel("c", 3, (3,))]),
    ("channel c[N][2] 0;", [Channel("c", 0, (3, 2))]),
    ("channel c, d[2] 1;", [Channel("c", 1), Channel("d", 1, (2,))]),
]


@pytest.mark.parametrize(("text", "meant"), VARIABLES, ids=[text for text, _ in VARIABLES])
def test_variables(text: str, meant: list[Variable]) -> None:
    assert list(read(f"#define N 3; #define on true; {text} P = Skip;").variables) == meant


@pytest.mark.parametrize(("text", "meant"), CHANNELS, ids=[text for text, _ in CHANNELS])
def test_channels(text: str, meant: list[Channel]) -> None:
    assert list(read(f"#define N 3; {text} P = Skip;").channels) == meant


def value(text: str, name: str, **constants: int) -> int:
    guard = read(f"{text} P = [{name}] Skip;", **constants).definitions[-1].body
    assert isinstance(guard, Guard) and isinstance(guard.condition, Number)
    return guard.condition.value


def test_constants() -> None:
    assert value("#define N 5;", "N") == 5
    assert value("#define N -5;", "N") == -5
    assert value("# define N (5);", "N") == 5
    assert value("#define M N * 2; #define N 5;", "M") == 10
    assert value("#define on true;", "on") == 1
    assert value("#define N {5};", "N") == 5
    assert value("#define off !true;", "off") == 0
    assert value("enum {a, b, c}; enum {d, e};", "c") == 2
    assert value("enum {a, b, c}; enum {d, e};", "e") == 1


def test_constants_can_be_overridden() -> None:
    text = "#define N 5; #define M N * 2;"
    assert value(text, "M", N=7) == 14
    assert value(text, "M", M=1) == 1
    wrong = error(f"{text} enum {{k}}; #define goal x == 1; var x; P = Skip;", k=3)
    assert wrong.message == "the model has no constant `k` to set"
    assert wrong.hint == "it has these constants: `N`, `M`"


def test_parameters() -> None:
    spec = read("#define N 3; P = Q(1, 2); Q(i, j:{0..N}) = Skip; R(k:{1..}) = Skip;")
    assert spec.definitions[1].parameters == (Parameter("i"), Parameter("j", 0, 3))
    assert spec.definitions[2].parameters == (Parameter("k", 1),)


def test_an_alphabet_may_precede_or_follow_its_process() -> None:
    spec = read("""
        #define N 2;
        #alphabet P {a, b.i, x:{0..N}@e.x, x:{0..1};y:{0,2}@e.x.y};
        P(i) = a -> P(i);
        Q = a -> Q;
        #alphabet Q {};
    """)
    to = Domain(Number(0), Number(2))
    assert spec.definitions[0].alphabet == (
        Events(Event("a")),
        Events(Event("b", (Bound("i"),))),
        Events(Event("e", (Bound("x"),)), (Index("x", to),)),
        Events(
            Event("e", (Bound("x"), Bound("y"))),
            (
                Index("x", Domain(Number(0), Number(1))),
                Index("y", Domain(values=(Number(0), Number(2)))),
            ),
        ),
    )
    assert spec.definitions[1].alphabet == ()
    assert read("P = a -> P;").definitions[0].alphabet is None


def test_comments_byte_order_marks_and_line_ends_are_ignored() -> None:
    text = (
        "\ufeff//@@Model@@\r\n/* two\r\nlines */ #define N 1; // end\r\nP() = /* a */ a.N ->\r\n\tStop; //"
    )
    spec = read(text)
    assert [definition.name for definition in spec.definitions] == ["P"]
    wrong = error(text.replace("Stop", "Stpo"))
    assert wrong.span.line == 5
    assert wrong.hint == "did you mean `Stop`?"


def test_included_files(tmp_path: Path) -> None:
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "constants.csp").write_text(
        "\ufeff#define N 2;\nvar x = N;\n", encoding="utf-8"
    )
    (tmp_path / "library" / "parts.csp").write_text('#include "constants.csp";\nQ(i) = q.i -> Q(i);\n')
    main = tmp_path / "main.csp"
    main.write_text('#include "library/constants.csp";\n#include "library/parts.csp"\nP = Q(N);\n')
    spec = read_specification(read_source(main), {"N": 4})
    assert spec.variables == (Variable("x", (), (4,)),)
    assert [definition.name for definition in spec.definitions] == ["Q", "P"]
    assert spec.definitions[1].body == Ref("Q", (Number(4),))
    assert spec.definitions[0].span.source.name == str(tmp_path / "library" / "parts.csp")


def error_of(main: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read_specification(read_source(main), {})
    return caught.value


def test_an_error_in_an_included_file_is_located_there(tmp_path: Path) -> None:
    (tmp_path / "part.csp").write_text("Q = a -> Q;\n\nR = a -> S;\n")
    (tmp_path / "main.csp").write_text('#include "part.csp";\nP = Q;\n')
    wrong = error_of(tmp_path / "main.csp")
    assert wrong.message == "there is no process `S`"
    assert wrong.span.place == f"{tmp_path / 'part.csp'}:3:10"


def test_files_that_cannot_be_included(tmp_path: Path) -> None:
    main = tmp_path / "main.csp"
    main.write_text('P = Skip;\n#include "nowhere.csp";\n')
    assert error_of(main).message == "cannot read the included file `nowhere.csp`"
    assert error_of(main).span.line == 2
    main.write_text('#include "other.csp"; P = Skip;')
    (tmp_path / "other.csp").write_text('\n#include "./main.csp";')
    wrong = error_of(main)
    assert wrong.message == "`main.csp` includes itself, directly or indirectly"
    assert wrong.span.place == f"{tmp_path / 'other.csp'}:2:1"
    (tmp_path / "other.csp").write_bytes(b"// caf\xe9")
    assert error_of(main).message == "`other.csp` is not UTF-8 text"


def test_the_hint_names_the_path_of_a_missing_file() -> None:
    with pytest.raises(ModelError) as caught:
        read_specification(Source("models/main.csp", '#include "../library/x.csp"; P = Skip;'), {})
    assert "models/../library/x.csp" in caught.value.hint
