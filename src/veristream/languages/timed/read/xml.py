"""XML as UPPAAL needs it: elements whose text knows its place in the file.

Models come from strangers. The document type is never fetched, and a file that declares entities, which can
make a few lines grow beyond all memory or name files of this machine, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

from veristream.errors import ModelError
from veristream.languages.timed.read.tokens import Fragment
from veristream.source import Source, Span

_ESCAPES = "in XML `<` is written `&lt;` and `&` is written `&amp;`"
_NO_ENTITIES = "remove the declarations; `&lt;`, `&gt;`, `&amp;`, `&quot;` and `&apos;` need none"
_HINTS = {
    "not well-formed (invalid token)": _ESCAPES,
    "mismatched tag": "every element ends with its own tag: `<a> ... </a>`",
    "no element found": "the file ends before its last element; is it cut off?",
    "undefined entity": _ESCAPES,
}


@dataclass(frozen=True, slots=True)
class Element:
    """An element: its parts in order, and the text that stands directly in it."""

    tag: str
    attributes: dict[str, str]
    parts: tuple[Element, ...]
    text: Fragment
    span: Span

    def all(self, tag: str) -> list[Element]:
        """The parts with the tag."""
        return [part for part in self.parts if part.tag == tag]

    def first(self, tag: str) -> Element | None:
        """The first part with the tag."""
        return next(iter(self.all(tag)), None)


@dataclass(slots=True)
class _Open:
    """An element whose end has not been read."""

    tag: str
    attributes: dict[str, str]
    span: Span
    parts: list[Element] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


def read_xml(source: Source) -> Element:
    """The root element of a file; raises ModelError where the XML is broken or dangerous."""
    base = len(source.text) - len(source.text.lstrip())
    data = source.text[base:].encode("utf-8", "surrogatepass")
    parser = expat.ParserCreate("utf-8")
    offsets = _offsets(source.text[base:], base)
    builder = _Builder(source, lambda: offsets[parser.CurrentByteIndex])
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.characters
    parser.StartCdataSectionHandler = builder.start_cdata
    parser.EndCdataSectionHandler = builder.end_cdata
    parser.EntityDeclHandler = builder.refuse_entity
    parser.SkippedEntityHandler = builder.refuse_reference
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        message = expat.ErrorString(error.code)
        place = offsets[min(max(parser.ErrorByteIndex, 0), len(data))]
        raise ModelError(
            f"the XML is broken: {message}", Span(source, place, place + 1), _HINTS.get(message, "")
        ) from None
    assert builder.root is not None
    return builder.root


def _offsets(text: str, base: int) -> Sequence[int]:
    """For each byte of the text the offset of its character in the file."""
    if text.isascii():
        return range(base, base + len(text) + 1)
    found: list[int] = []
    for offset, char in enumerate(text, base):
        found += [offset] * len(char.encode("utf-8", "surrogatepass"))
    found.append(base + len(text))
    return found


class _Builder:
    """Builds elements as the parser meets their parts."""

    def __init__(self, source: Source, here: Callable[[], int]) -> None:
        self._source = source
        self._here = here
        self._open: list[_Open] = []
        self._in_cdata = False
        self.root: Element | None = None

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        start = self._here()
        span = Span(self._source, start, self._source.text.index(">", start) + 1)
        self._open.append(_Open(tag, attributes, span))

    def end(self, tag: str) -> None:
        done = self._open.pop()
        text = Fragment(self._source, "".join(done.text), done.starts, done.ends, done.span)
        element = Element(tag, done.attributes, tuple(done.parts), text, done.span)
        if self._open:
            self._open[-1].parts.append(element)
        else:
            self.root = element

    def characters(self, data: str) -> None:
        """One run of characters as the file has them, or what one reference or line end stands for."""
        start, text, into = self._here(), self._source.text, self._open[-1]
        into.text.append(data)
        if text[start] == "&" and not self._in_cdata:
            width = text.index(";", start) + 1 - start
        elif text.startswith("\r\n", start):
            width = 2
        else:
            into.starts += range(start, start + len(data))
            into.ends += range(start + 1, start + len(data) + 1)
            return
        into.starts += [start] * len(data)
        into.ends += [start + width] * len(data)

    def start_cdata(self) -> None:
        self._in_cdata = True

    def end_cdata(self) -> None:
        self._in_cdata = False

    def refuse_entity(self, name: str, *_: object) -> None:
        end = self._here() + 1
        start = max(self._source.text.rfind("<!ENTITY", 0, end), 0)
        span = Span(self._source, start, max(end, start + len("<!ENTITY")))
        raise ModelError(f"the file declares entities, such as `{name}`", span, _NO_ENTITIES)

    def refuse_reference(self, name: str, is_parameter: bool) -> None:
        start = self._here()
        span = Span(self._source, start, start + len(name) + 2)
        sign = "%" if is_parameter else "&"
        raise ModelError(f"the entity `{sign}{name};` is not defined", span, _ESCAPES)
