"""Shortcuts to parse model texts."""

from __future__ import annotations

from collections.abc import Mapping
from xml.sax.saxutils import escape

import pytest

from veristream.errors import ModelError
from veristream.languages.timed.read.parse import read_system
from veristream.languages.timed.syntax import (
    Declaration,
    Edge,
    Evaluate,
    Expression,
    Function,
    Statement,
    System,
    Template,
    UnreadQuery,
)
from veristream.source import Source

PROCESS = "process P() { state A; init A; } system P;"
"""A minimal process and system line, which complete declarations to an XTA file."""


def read(text: str, constants: Mapping[str, int] | None = None) -> System:
    """Returns the system of an XML or XTA text."""
    return read_system(Source("model", text), constants or {})


def declarations(text: str) -> tuple[Declaration, ...]:
    """Returns the global declarations of a text."""
    return read(f"{text} {PROCESS}").declarations


def statements(text: str) -> tuple[Statement, ...]:
    """Returns the statements of a function's body."""
    (found,) = declarations(f"void f() {{ {text} }}")
    assert isinstance(found, Function)
    return found.body.statements


def expression(text: str) -> Expression:
    """Parses the text as an expression statement, and returns the expression."""
    (found,) = statements(f"{text};")
    assert isinstance(found, Evaluate)
    return found.value


def process(text: str) -> Template:
    """Returns the template of an XTA process with the body."""
    return read(f"process P() {{ {text} }} system P;").templates[0]


def nta(
    template: str = '<location id="id0"/><init ref="id0"/>',
    declaration: str = "",
    system: str = "system P;",
    queries: str = "",
) -> str:
    """Returns an XML file with one template."""
    return (
        f"<nta><declaration>{declaration}</declaration><template><name>P</name>{template}</template>"
        f"<system>{system}</system>{queries}</nta>"
    )


def label(kind: str, text: str) -> str:
    """Returns a label in XML, escaped."""
    return f'<label kind="{kind}">{escape(text)}</label>'


def edge(labels: str) -> Edge:
    """Returns the edge with the labels, from `id0` to itself, of an XML file."""
    ends = '<source ref="id0"/><target ref="id0"/>'
    template = f'<location id="id0"/><init ref="id0"/><transition>{ends}{labels}</transition>'
    return read(nta(template)).templates[0].edges[0]


def formula(*texts: str) -> str:
    """Returns the `<queries>` element with the formulas."""
    inside = "".join(f"<query><formula>{escape(text)}</formula></query>" for text in texts)
    return f"<queries>{inside}</queries>"


def error(text: str, constants: Mapping[str, int] | None = None) -> ModelError:
    """Returns the error in the text."""
    with pytest.raises(ModelError) as caught:
        read(text, constants)
    return caught.value


def query_error(text: str) -> ModelError:
    """Returns the error in the only query of the text."""
    (query,) = read(text).queries
    assert isinstance(query, UnreadQuery)
    return ModelError(query.message, query.span, query.hint)


def marked(wrong: ModelError) -> str:
    """Returns the text that the error points at."""
    return wrong.span.source.text[wrong.span.start : wrong.span.end]
