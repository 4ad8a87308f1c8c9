"""Self-contained HTML pages: no external resources, no scripts, light and dark, narrow and wide screens.

The functions here escape all text; only `Markup`, which they return, goes into a page as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape as _escape
from typing import NewType

Markup = NewType("Markup", str)
"""HTML or SVG that is already escaped."""

STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fdfdfb; --soft: #5d6773; --rule: #d5d9de;
  --panel: #f3f4f1; --good: #1a7f37; --bad: #c0262d; --open: #9a6700; --mark: #2f5fb3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e6ea; --paper: #15191f; --soft: #9aa4b0;
  --rule: #343c47; --panel: #1d232b; --good: #4ac26b; --bad: #ff7b72; --open: #d4a72c; --mark: #7aa7f0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1rem; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p { max-width: 46rem; } .soft, caption { color: var(--soft); font-size: .875rem; }
.wide { overflow-x: auto; border: 1px solid var(--rule); border-radius: .4rem; margin: .75rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .6rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--rule); }
tr:last-child td { border-bottom: 0; } th { background: var(--panel); font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; } .open { color: var(--open); }
details { margin: .5rem 0; } summary { cursor: pointer; }
code { font: .875em ui-monospace, monospace; } svg { display: block; }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; } svg .soft { fill: var(--soft); }
svg .line { stroke: var(--soft); } svg .ink { stroke: var(--mark); } svg .fill { fill: var(--mark); }
svg .box { fill: var(--panel); stroke: var(--rule); } svg .end { text-anchor: end; }
svg .good { fill: var(--good); } svg .bad { fill: var(--bad); } svg .open { fill: var(--open); }
.plots { display: grid; gap: 1.5rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); }
.plots figure { margin: 0; } .plots svg { width: 100%; height: auto; }
svg.chart text { font: 12px ui-monospace, monospace; } svg tspan.soft { font-size: inherit; }
nav a { color: var(--mark); margin-right: 1rem; } td.long { min-width: 14rem; }
@media (max-width: 40rem) {
  .records thead { display: none; }
  .records tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--rule); }
  .records tr:last-child { border-bottom: 0; } .records td:empty { display: none; }
  .records td { display: grid; grid-template-columns: 7.5rem 1fr; padding: .1rem .6rem; border-bottom: 0; }
  .records td.number { text-align: left; white-space: normal; }
  .records td::before { content: attr(data-title); color: var(--soft); }
  .records td:first-child { display: block; font-weight: 600; overflow-wrap: anywhere; }
  .records td:first-child::before { content: none; }
}
""".strip()

RECORD_COLUMNS_MIN = 6
"""A table with at least this many columns shows each row as a list on a narrow screen."""


def escape(text: object) -> Markup:
    """Escapes text for a page."""
    return Markup(_escape(str(text), quote=True))


def element(name: str, *children: Markup, **attributes: object) -> Markup:
    """Renders an element; `_` in an attribute's name becomes `-`, a trailing one is dropped, as is None."""
    return Markup(f"<{name}{_write(attributes)}>{''.join(children)}</{name}>")


def empty(name: str, **attributes: object) -> Markup:
    """Renders an element without content."""
    return Markup(f"<{name}{_write(attributes)}/>")


def _write(attributes: Mapping[str, object]) -> str:
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )


def text(name: str, content: object, class_: str | None = None) -> Markup:
    """Renders an element that contains only text."""
    return element(name, escape(content), class_=class_)


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[Markup]],
    numbers: Sequence[int] = (),
    caption: str = "",
    long: int | None = None,
) -> Markup:
    """Renders a table that fits a narrow screen; `numbers` are numeric columns, `long` is one of prose."""
    is_records = len(titles) >= RECORD_COLUMNS_MIN
    kinds = ["number" if at in numbers else "long" if at == long else None for at in range(len(titles))]

    def cell(column: int, content: Markup) -> Markup:
        title = titles[column] if is_records else None
        return element("td", content, class_=kinds[column], data_title=title)

    heads = [text("th", title, kind) for title, kind in zip(titles, kinds, strict=True)]
    lines = [element("tr", *(cell(at, content) for at, content in enumerate(row))) for row in rows]
    told = (text("caption", caption),) if caption else ()
    body = (*told, element("thead", element("tr", *heads)), element("tbody", *lines))
    return scroll(element("table", *body, class_="records" if is_records else None))


def fold(summary: str, *children: Markup) -> Markup:
    """Renders a collapsed section that opens on a click."""
    return element("details", text("summary", summary), *children)


def scroll(content: Markup) -> Markup:
    """Wraps content in a box that scrolls sideways if it is wider than the page."""
    return element("div", content, class_="wide")


def render_page(title: str, *sections: Markup) -> str:
    """Renders the whole document."""
    head = element(
        "head",
        empty("meta", charset="utf-8"),
        empty("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        text("title", title),
        element("style", Markup(STYLE)),
    )
    body = element("body", text("h1", title), element("main", *sections))
    return "<!doctype html>\n" + element("html", head, body, lang="en") + "\n"
