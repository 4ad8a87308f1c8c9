"""A reader for UPPAAL's XML that keeps the position of all text in the file.

Models are untrusted input. The reader never fetches the document type, and rejects files that declare
entities: these can expand a few lines beyond all memory, or refer to local files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from xml.parsers import expat

from veristream.errors import ModelError
from veristream.languages.timed.read.tokens import Fragment
from veristream.source import Source, Span

_ESCAPES = "in XML, write `&lt;` for `<` and `&amp;` for `&`"
_NO_ENTITIES = "remove the declarations; `&lt;`, `&gt;`, `&amp;`, `&quot;` and `&apos;` are predefined"
_HINTS = {
    "not well-formed (invalid token)": _ESCAPES,
    "mismatched tag": "close every element with its own tag: `<a> ... </a>`",
    "no element found": "the file ends before its last element; is it truncated?",
    "undefined entity": _ESCAPES,
}


@dataclass(frozen=True, slots=True)
class Element:
    """An element: its child elements in order, and its direct text."""

    tag: str
    attributes: dict[str, str]
    parts: tuple[Element, ...]
    text: Fragment
    span: Span

    def all(self, tag: str) -> list[Element]:
        """Returns the child elements with the tag."""
        return [part for part in self.parts if part.tag == tag]

    def first(self, tag: str) -> Element | None:
        """Returns the first child element with the tag, or None."""
        return next(iter(self.all(tag)), None)


@dataclass(slots=True)
class _Open:
    """An element that is not closed yet."""

    tag: str
    attributes: dict[str, str]
    span: Span
    parts: list[Element] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


def read_xml(source: Source) -> Element:
    """Returns the root element of a file; raises ModelError for malformed XML and declared entities."""
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
            f"malformed XML: {message}", Span(source, place, place + 1), _HINTS.get(message, "")
        ) from None
    assert builder.root is not None
    return builder.root


def _offsets(text: str, base: int) -> Sequence[int]:
    """Returns for each byte of the text the offset of its character in the file."""
    if text.isascii():
        return range(base, base + len(text) + 1)
    found: list[int] = []
    for offset, char in enumerate(text, base):
        found += [offset] * len(char.encode("utf-8", "surrogatepass"))
    found.append(base + len(text))
    return found


class _Builder:
    """Builds elements from the events of the parser."""

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
        """Adds a run of literal characters, or the expansion of one entity reference or line end."""
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
        raise ModelError(f"undefined entity `{sign}{name};`", span, _ESCAPES)
