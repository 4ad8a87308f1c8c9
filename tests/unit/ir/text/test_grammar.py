"""The cache of grammars: tables are computed once, and an entry that is of no use is computed again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from lark import Lark

from veristream.errors import ModelError
from veristream.ir.text import parse as network_text
from veristream.ir.text.grammar import load_grammar
from veristream.ir.text.read import read_network
from veristream.languages.csp.read import tree as csp
from veristream.languages.timed.read import tree as timed
from veristream.source import Source

NETWORK = Source("n.net", "network N\nvar x: 0..1 = 0\n")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path))
    return tmp_path / "grammars"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lists the grammars for which tables were computed."""
    texts: list[str] = []
    compute = Lark.__init__

    def spy(self: Lark, grammar: str, **options: object) -> None:
        texts.append(grammar)
        compute(self, grammar, **options)

    monkeypatch.setattr(Lark, "__init__", spy)
    return texts


def load() -> Lark:
    return load_grammar("veristream.ir.text", "network.lark")


@pytest.mark.parametrize("parser", [network_text._parser, csp._parser, timed._parser])
def test_every_language_keeps_its_tables(parser: Callable[[], Lark], cache: Path, built: list[str]) -> None:
    again = parser.__wrapped__  # type: ignore[attr-defined]
    first = again()
    assert len(built) == 1 and len(list(cache.iterdir())) == 1
    second = again()
    assert len(built) == 1 and len(list(cache.iterdir())) == 1
    assert [one.name for one in second.terminals] == [one.name for one in first.terminals]
    assert second.rules == first.rules


def test_other_options_and_other_texts_have_their_own_entries(
    cache: Path, built: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load()
    load_grammar("veristream.ir.text", "network.lark", lexer="basic")
    assert len(built) == 2 and len(list(cache.iterdir())) == 2
    monkeypatch.setattr("lark.__version__", "0.0.0")
    load()
    assert len(built) == 3 and len(list(cache.iterdir())) == 3
    other = tmp_path / "altered"
    other.mkdir()
    (other / "__init__.py").touch()
    (other / "network.lark").write_text('start: "a"\n', encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    load_grammar("altered", "network.lark")
    assert len(built) == 4 and len(list(cache.iterdir())) == 4


def test_a_damaged_entry_is_computed_again(cache: Path, built: list[str]) -> None:
    load()
    (entry,) = cache.iterdir()
    whole = entry.read_bytes()
    for damaged in (b"", whole[:40], whole[:-1] + bytes([whole[-1] ^ 1])):
        entry.write_bytes(damaged)
        built.clear()
        assert load().parse(NETWORK.text).data == "start"
        assert len(built) == 1
        load()
        assert len(built) == 1, "the new entry is whole"


def test_a_cache_that_cannot_be_written_is_no_error(
    tmp_path: Path, built: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a directory", encoding="utf-8")
    monkeypatch.setenv("VERISTREAM_CACHE", str(tmp_path / "file" / "cache"))
    for turn in (1, 2):
        assert load().parse(NETWORK.text).data == "start"
        assert len(built) == turn


def test_kept_tables_explain_syntax_errors_as_new_ones_do(cache: Path, built: list[str]) -> None:
    wrong = Source("n.net", "network N\nvar x: 0..1 = \n")
    messages = set()
    for _ in range(2):
        network_text._parser.cache_clear()
        with pytest.raises(ModelError) as raised:
            read_network(wrong, {})
        messages.add(raised.value.render())
    network_text._parser.cache_clear()
    assert len(built) == 1 and len(messages) == 1
