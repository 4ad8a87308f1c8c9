"""EDN: every form of the language, and every way in which a file may be cut or malformed.

The language is that of https://github.com/edn-format/edn; what Clojure prints besides, such as `##Inf`,
hexadecimal numbers and maps with a namespace, occurs in the errors of Jepsen histories.
"""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veristream.errors import ModelError
from veristream.history.foreign import edn
from veristream.history.foreign.edn import EdnReader, Symbol, Tagged


def read(folder: Path, text: str) -> list[tuple[int, Any]]:
    path = folder / "a.edn"
    path.write_text(text, encoding="utf-8")
    return list(EdnReader(path))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("false", False),
        (":ok", "ok"),
        (":a.b/c", "a.b/c"),
        (":seek-to-beginning?", "seek-to-beginning?"),
        ("0", 0),
        ("-12", -12),
        ("+7", 7),
        ("12345678901234567890N", 12345678901234567890),
        ("0x1F", 31),
        ("1.5", 1.5),
        ("-1e3", -1000.0),
        ("2.50M", 2.5),
        ("1/3", Tagged("ratio", "1/3")),
        ("##Inf", math.inf),
        ("##-Inf", -math.inf),
        ('"a b"', "a b"),
        ('"\\"q\\" \\\\ \\n\\t\\u00e9\\101"', '"q" \\ \n\téA'),
        ('"two\nlines"', "two\nlines"),
        ("\\a", "a"),
        ("\\newline", "\n"),
        ("\\u0041", "A"),
        ("java.lang.Object", Symbol("java.lang.Object")),
        ("->x", Symbol("->x")),
        ("-", Symbol("-")),
        ("#{1 2}", frozenset((1, 2))),
        ("{:a 1, :b [2 (3)]}", {"a": 1, "b": (2, (3,))}),
        ("{[1 2] #{[3]}}", {(1, 2): frozenset(((3,),))}),
        ("#jepsen.history.Op{:f :send}", {"f": "send"}),
        ("#:slingshot{:a 1}", {"a": 1}),
        ('#inst "2024-01-01"', Tagged("inst", "2024-01-01")),
        ("#object [a.b 0x7f]", Tagged("object", (Symbol("a.b"), 127))),
        ("{:a #_ {:b [1 2]} 3}", {"a": 3}),
        ("{:a #_ #_ 1 2 3}", {"a": 3}),
        ("{:a 1 ; {:b\n}", {"a": 1}),
    ],
)
def test_every_form(tmp_path: Path, text: str, value: object) -> None:
    assert read(tmp_path, f"{{:x {text}}}") == [(1, {"x": value})]


def test_a_history_may_be_forms_or_one_collection(tmp_path: Path) -> None:
    forms = [(2, {"a": 1}), (4, {"b": (2,)})]
    assert read(tmp_path, "; comment\n{:a 1}\n\n{:b\n [2]} #_{:c 3}") == forms
    assert read(tmp_path, "[\n{:a 1}\n,\n{:b\n [2]} #_{:c 3}]\n") == forms
    assert read(tmp_path, "(\n{:a 1}\n\n{:b [2]})") == forms
    assert read(tmp_path, "[]") == read(tmp_path, " ; nothing") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{:a 1", "a.edn:1:6: the file ends inside the `{` of line 1"),
        ("{:a 1}\n{:b\n[2", "a.edn:3:3: the file ends inside the `[` of line 3"),
        ('{:a "b}', "a.edn:1:5: the file ends inside a string"),
        ("[{:a 1}", "a.edn:1:8: the file ends before the `]` of its history"),
        ("{:a 1]", "a.edn:1:6: `]` closes the `{` of line 1"),
        ("{:a 1}}", "a.edn:1:7: `}` closes nothing"),
        ("{:a}", "a.edn:1:4: a map has a key without a value"),
        ("{:a 1 :a 2}", "a.edn:1:11: key twice in the `{` of line 1"),
        ("#{1 1}", "a.edn:1:6: element twice in the `#{` of line 1"),
        ("[{:a 1}] {:b 2}", "a.edn:1:10: there is more after the end of the history"),
        ("[{:a 1}] 2", "a.edn:1:10: there is more after the end of the history"),
        ("{:a #_}", "a.edn:1:7: `#_` has no value"),
        ("{:a 1} #foo", "a.edn:1:12: the file ends after `#foo`"),
        ("{:a 12x}", "a.edn:1:5: `12x` is not a number"),
        ("{:a @b}", "a.edn:1:5: unexpected '@'"),
        ("{:a \x01}", "a.edn:1:5: unexpected '\\x01'"),
        ("{:a " + "1" * 5000 + "}", "a.edn:1:5: a number of 5000 characters"),
        ("[" * 1002, "a.edn:1:1002: nested more than 1000 deep"),
    ],
)
def test_what_is_malformed_is_told_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(tmp_path, text)
    assert caught.value.message == f"{tmp_path}/{message}"
    assert caught.value.hint


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_where_blocks_end_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    text = '; c\n{:a "one\ntwo" ; x\n :b #{1\n 2}}\n#Op{:c [1.5\n"\\"\n"]}\n{:d\n'
    whole = text + "2}"
    expected = [(2, {"a": "one\ntwo", "b": frozenset((1, 2))}), (6, {"c": (1.5, '"\n')}), (9, {"d": 2})]
    monkeypatch.setattr(edn, "CHARACTERS_AT_ONCE", size)
    assert read(tmp_path, whole) == expected
    with pytest.raises(ModelError, match=r"a.edn:10:1: the file ends inside the `\{` of line 9"):
        read(tmp_path, text)
    with pytest.raises(ModelError, match=r"a.edn:10:3: `\]` closes the `\{` of line 9"):
        read(tmp_path, text + " 2]")


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(
        'ab "\
é;#{}[]:',
        max_size=5,
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)


def write(value: object) -> str:
    """Prints a value as Clojure's `pr` does."""
    match value:
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case tuple():
            return "[" + " ".join(map(write, value)) + "]"
        case dict():
            return "{" + ", ".join(f":{key} {write(each)}" for key, each in value.items()) + "}"
        case _:
            return str(value)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, min_size=1), max_size=4))
def test_what_is_printed_is_read(values: list[object]) -> None:
    with TemporaryDirectory() as folder:
        assert [value for _, value in read(Path(folder), "\n".join(map(write, values)))] == values
        assert [value for _, value in read(Path(folder), write(tuple(values)))] == values


@settings(max_examples=80, deadline=None)
@given(st.binary(max_size=60))
def test_noise_is_read_or_refused(noise: bytes) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "noise.edn"
        path.write_bytes(noise)
        with suppress(ModelError):
            list(EdnReader(path))
