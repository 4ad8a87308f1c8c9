"""Reads queries from XML files and from `.q` files.

Statistical, game and hybrid queries are skipped, and their text is kept, if the model also has supported
queries. A query that cannot be read does not prevent others from being read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from veristream.errors import ModelError
from veristream.ir.text.read_tree import Node, child, optional, token
from veristream.languages.timed.read.expressions import (
    Scope,
    maybe_expression,
    read_expression,
    read_expressions,
    refuse_assignment,
)
from veristream.languages.timed.read.tokens import SKIPPED, Fragment, whole
from veristream.languages.timed.read.tree import parse
from veristream.languages.timed.read.xml import Element
from veristream.languages.timed.syntax import (
    Expression,
    ExtremeQuery,
    LeadsToQuery,
    PathQuery,
    Query,
    UnreadQuery,
)
from veristream.source import Source

PathQuantifier = Literal["A[]", "E<>", "E[]", "A<>"]
Extreme = Literal["sup", "inf", "bounds"]

_SPACE = re.compile(rf"(?:{SKIPPED})+", re.DOTALL)
_LINE_PARTS = re.compile(r"(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<joined>\\[ \t\r]*\n)|(?P<end>\n)", re.DOTALL)
TOO_DEEP = "the query is nested too deeply"
_GENERATED = "This file was generated"
_UNSUPPORTED = (
    (re.compile(r"(Pr|Pmax|minPr|maxPr|minE|maxE)\s*[\[(#]"), "statistical"),
    (re.compile(r"(simulate)\s*[\[\d]"), "statistical"),
    (re.compile(r"(E)\s*\[[^\]]*<=[^\]]*\]\s*\("), "statistical"),
    (re.compile(r"(strategy)\s+\w+\s*="), "strategy"),
    (re.compile(r"(loadStrategy|saveStrategy)\b"), "strategy"),
    (re.compile(r".*\b(under)\s+\w+$", re.DOTALL), "strategy"),
    (re.compile(r"(?:E\s*<>\s*|\{[^}]*\}\s*)?(control)\s*:"), "game"),
    (re.compile(r"(control_t)\s*\*"), "game"),
    (re.compile(r"(A)\s*\[.*\s[UW]\s.*\]$", re.DOTALL), "game"),
    (re.compile(r".*?(?<![\w.])(\d+\.\d+)", re.DOTALL), "hybrid"),
    (re.compile(r"(sat|simulation|refinement|consistency|specification|implementation)\s*:"), "scenario"),
)
"""Patterns of unsupported queries, mostly of their beginning, and their kinds."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The text of a query, with its comment."""

    fragment: Fragment
    comment: str = ""

    @property
    def text(self) -> str:
        """The query without comments, with whitespace collapsed."""
        return squeeze(self.fragment.text)


def squeeze(text: str) -> str:
    """Removes comments and collapses whitespace."""
    return _SPACE.sub(" ", text).strip()


def queries_of_nta(root: Element) -> list[Asked]:
    """Returns the queries of an XML file that are not empty."""
    found = []
    for query in [query for part in root.all("queries") for query in part.all("query")]:
        formula, comment = query.first("formula"), query.first("comment")
        if formula is not None:
            found.append(Asked(formula.text, "" if comment is None else comment.text.text.strip()))
    return [asked for asked in found if asked.text]


def queries_of_file(source: Source) -> list[Asked]:
    """Returns the queries of a `.q` file: one per line; `\\` joins lines; a comment precedes its query."""
    fragment, comments, found = whole(source), list[str](), list[Asked]()
    for start, end, comment in _lines(fragment.text):
        if squeeze(fragment.text[start:end]):
            found.append(Asked(_trimmed(fragment, start, end), "\n".join(comments)))
            comments = []
        elif comment and not comment.startswith(_GENERATED):
            comments.append(comment)
    return found


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields start and end of each query or comment between queries, and the text of the comment."""
    start = position = 0
    while position < len(text):
        part = _LINE_PARTS.search(text, position)
        if part is None:
            break
        position = part.end()
        alone = part.lastgroup == "comment" and not squeeze(text[start : part.start()])
        if alone:
            yield start, position, _said(part[0])
        elif part.lastgroup == "end":
            yield start, part.start(), ""
        else:
            continue
        start = position
    yield start, len(text), ""


def _said(comment: str) -> str:
    """Returns the text of a comment; UPPAAL escapes comment delimiters in comments with backslashes."""
    inside = comment[2:] if comment.startswith("//") else comment[2:-2]
    return inside.replace("\\/*", "/*").replace("*\\/", "*/").strip()


def _trimmed(fragment: Fragment, start: int, end: int) -> Fragment:
    text = fragment.text[start:end]
    return fragment.part(start + len(text) - len(text.lstrip()), start + len(text.rstrip()))


def read_queries(types: set[str], asked: Sequence[Asked]) -> tuple[tuple[Query, ...], tuple[str, ...]]:
    """Returns the queries and the texts of skipped ones; if all would be skipped, none is."""
    supported = [query for query in asked if _unsupported(query) is None]
    chosen = supported or asked
    skipped = tuple(query.text for query in asked if query not in chosen)
    return tuple(_read_or_explain(types, query) for query in chosen), skipped


def _read_or_explain(types: set[str], asked: Asked) -> Query:
    """Reads a query; the result says what is wrong if it cannot be read."""
    try:
        if _unsupported(asked) is not None:
            raise _refusal(asked)
        return _read_query(types, asked)
    except ModelError as error:
        return UnreadQuery(asked.text, error.message, error.hint, span=error.span)
    except RecursionError:
        hint = "split it, or define a function"
        return UnreadQuery(asked.text, TOO_DEEP, hint, span=asked.fragment.stripped())


def _unsupported(asked: Asked) -> tuple[str, str] | None:
    """Returns the unsupported keyword and its kind, or None if the query is supported."""
    for pattern, kind in _UNSUPPORTED:
        found = pattern.match(asked.text)
        if found is not None:
            return found[1], kind
    return None


def _refusal(asked: Asked) -> ModelError:
    word, kind = _unsupported(asked) or ("", "")
    hint = "use `A[]`, `E<>`, `E[]`, `A<>`, `-->`, `sup`, `inf` or `bounds`"
    return ModelError(
        f"`{word}` makes this a {kind} query, which is not supported", asked.fragment.stripped(), hint
    )


def _read_query(types: set[str], asked: Asked) -> Query:
    scope = Scope(asked.fragment.source, set(types))
    node = parse(asked.fragment, "query", "query")
    text, comment, span = asked.text, asked.comment, scope.span(node)
    match node.data:
        case "path":
            condition = _read_condition(scope, child(node, 1))
            quantifier = cast("PathQuantifier", str(token(node, 0)))
            return PathQuery(quantifier, condition, text, comment, span=span)
        case "leads_to":
            cause, effect = (_read_condition(scope, child(node, place)) for place in (0, 1))
            return LeadsToQuery(cause, effect, text, comment, span=span)
        case _:
            within = maybe_expression(scope, optional(node, 1))
            values = read_expressions(scope, child(node, 2))
            extreme = cast("Extreme", str(token(node, 0)))
            return ExtremeQuery(extreme, within, values, text, comment, span=span)


def _read_condition(scope: Scope, node: Node) -> Expression:
    condition = read_expression(scope, node)
    refuse_assignment(condition)
    return condition
