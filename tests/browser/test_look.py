"""The check of pages: a good page passes, and each planted defect is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.chromium import ChromiumError, Tab
from tests.browser.look import View, look_at
from veristream.page import Markup, element, empty, escape, fold, render_page, scroll, table, text

pytestmark = pytest.mark.peers

NARROW = View(400, "light")
WIDE_TABLE = table([f"column {n}" for n in range(5)], [[escape("word " * 9)] * 5])


def draw(*parts: Markup) -> Markup:
    return element("svg", *parts, viewBox="0 0 300 40", width=300, height=40)


SQUARE = empty("rect", x=5, y=5, width=10, height=10, class_="fill")
LABEL = element("text", escape("label"), x=30, y=20)
GOOD = (text("p", "fine"), WIDE_TABLE, fold("a chart", scroll(draw(SQUARE, LABEL))))


SHRUNK = element("svg", SQUARE, LABEL, viewBox="0 0 900 90", width=300, height=30)


def kinds_of(tab: Tab, folder: Path, page: str, view: View = NARROW) -> list[str]:
    """Returns the kinds of defects that are found in a page."""
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    return [told.partition(":")[0] for told in look_at(tab, path, view)]


def make_page(*more: str) -> str:
    return render_page("A page", *GOOD, *(Markup(one) for one in more))


@pytest.mark.parametrize("view", [NARROW, View(400, "dark"), View(1280, "light"), View(1280, "dark")])
def test_a_good_page_has_no_mistake(tab: Tab, tmp_path: Path, view: View) -> None:
    assert kinds_of(tab, tmp_path, make_page(), view) == []


@pytest.mark.parametrize(
    ("mistake", "kind"),
    [
        ("<script>console.error('bad')</script>", "console"),
        ("<script>undefined.missing</script>", "console"),
        ('<img alt="" src="file:///nowhere.png">', "console, elsewhere"),
        ('<div style="width: 500px">wide</div>', "sideways"),
        ('<p style="font-size: 10px">tiny</p>', "small"),
        ('<p style="color: #999">pale</p>', "faint"),
        (draw(), "not drawn"),
        ('<svg viewBox="0 0 9 0" height="0"><rect width="9" height="9"/></svg>', "not drawn"),
        (draw(empty("rect", x=5, y=5, width=0, height=0, class_="fill")), "not drawn"),
        (draw(empty("rect", x=5, y=5, width=9, height=9, style="fill: #eee")), "faint"),
        (draw(SQUARE, element("text", escape("label"), x=290, y=20)), "cut"),
        (draw(SQUARE, element("text", escape("label"), x=50, y=60)), "cut"),
        (draw(SQUARE, LABEL, element("text", escape("other"), x=45, y=20)), "overlap"),
        (SHRUNK, "small"),
    ],
)  # fmt: skip
def test_a_planted_mistake_is_noticed(tab: Tab, tmp_path: Path, mistake: str, kind: str) -> None:
    found = kinds_of(tab, tmp_path, make_page(mistake))
    assert sorted(set(found)) == kind.split(", ")


def test_a_colour_that_fits_only_one_scheme_is_noticed(tab: Tab, tmp_path: Path) -> None:
    page = make_page('<p style="color: #1c2430">dark ink</p>')
    assert kinds_of(tab, tmp_path, page, View(400, "light")) == []
    assert kinds_of(tab, tmp_path, page, View(400, "dark")) == ["faint"]


def test_what_is_folded_is_looked_at(tab: Tab, tmp_path: Path) -> None:
    page = make_page(fold("closed", draw(SQUARE, element("text", escape("label"), x=290, y=20))))
    assert kinds_of(tab, tmp_path, page) == ["cut"]


def test_a_script_that_fails_is_told(tab: Tab) -> None:
    with pytest.raises(ChromiumError, match="ReferenceError: nothing"):
        tab.evaluate("nothing()")


def test_a_page_that_is_not_there_is_told(tab: Tab, tmp_path: Path) -> None:
    with pytest.raises(ChromiumError, match=r"page\.html does not open: net::ERR_FILE_NOT_FOUND"):
        look_at(tab, tmp_path / "page.html", NARROW)
