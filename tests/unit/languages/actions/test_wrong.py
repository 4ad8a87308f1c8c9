"""Invalid models: each raises an error with its line and a hint, or fails at run time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Golden
from veristream.errors import ModelError
from veristream.languages.actions.lower.network import read_model
from veristream.source import Source
from veristream_testing.states import explore

MODELS = Path(__file__).parents[3] / "actions"
WRONG = sorted((MODELS / "wrong").glob("*.py"))
FAILING = sorted((MODELS / "failing").glob("*.py"))


def source_of(path: Path) -> Source:
    return Source(path.name, path.read_text(encoding="utf-8"))


def error_of(source: Source, constants: dict[str, int] | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read_model(source, constants)
    return caught.value


def test_what_is_said_of_wrong_models(golden: Golden) -> None:
    errors = [error_of(source_of(path)) for path in WRONG]
    golden("actions/wrong.txt", "\n\n".join(error.render() for error in errors))


@pytest.mark.parametrize("path", WRONG, ids=[path.stem for path in WRONG])
def test_every_error_has_its_line_and_a_hint(path: Path) -> None:
    source = source_of(path)
    error = error_of(source)
    assert error.span.source is source
    assert error.hint
    assert error.message


def test_there_are_many() -> None:
    assert len(WRONG) >= 30


def test_what_is_found_in_models_that_fail(golden: Golden) -> None:
    said = []
    for path in FAILING:
        _, failed = explore(read_model(source_of(path)), 100).failures[0]
        assert failed.fault.span.source.name == path.name
        said.append(ModelError(failed.fault.message, failed.fault.span).render())
    golden("actions/failing.txt", "\n\n".join(said))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "m.py is empty"),
        (" \n\t\n", "m.py is empty"),
        ("x = 1\0", "null bytes"),
        ("def step(:\n    pass\n", "m.py:1:10: error: invalid Python: invalid syntax"),
        ("x = '", "unterminated string literal"),
        ("class A(Enum):\n    \x0cB = \x0c", "invalid Python"),
        ("x = " + "(" * 300 + "1" + ")" * 300, "invalid Python"),
        ("x = " + "-" * 5000 + "1", "m.py"),
        ("x = " + "+".join(["1"] * 5000), "m.py"),
        ("x = 1" + "0" * 5000, "invalid Python"),
        ("x = 0x" + "f" * 5000, "this number is too large"),
        ("x = 2 ** 64 ** 64", "too large"),
        ("@action\ndef f():\n    print(1)\n", "m.py:3:5: error: models cannot print"),
        ('"""Nothing but a docstring."""', "the model has no actions"),
    ],
)
def test_texts_that_are_no_models(text: str, message: str) -> None:
    assert message in error_of(Source("m.py", text)).render()


def test_a_constant_that_is_not_there() -> None:
    source = Source("m.py", "from veristream.actions import *\nN = constant(2)\nM = N + 1\n")
    error = error_of(source, {"M": 3})
    assert error.message == "the model has no constant M"
    assert error.hint == "its constants are: N; declare one with `M = constant(2)`"


def test_a_constant_that_is_a_bool() -> None:
    text = "from veristream.actions import *\nON = constant(True)\n@action\ndef f():\n    require(ON)\n"
    assert read_model(Source("m.py", text), {"ON": 0}).components[0].edges[0].guard is not None
    assert error_of(Source("m.py", text), {"ON": 2}).hint == "set it to 0 or 1"


def test_lines_are_counted_as_python_counts_them() -> None:
    error = error_of(Source("m.py", '"""A form\x0c feed and\u2028 é."""\r\nA = 1\x0c\nB = oops\n'))
    assert error.render().splitlines()[:3] == [
        "m.py:3:5: error: unknown name `oops`",
        "3 | B = oops",
        "  |     ^^^^",
    ]
