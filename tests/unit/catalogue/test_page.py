"""The catalogue as the page of the documentation."""

from __future__ import annotations

from pathlib import Path

import pytest

from veristream.catalogue.catalogue import ENTRIES, rule
from veristream.catalogue.words import render_page

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "history-properties.md"


def test_the_page_is_made_from_the_catalogue(request: pytest.FixtureRequest) -> None:
    text = render_page(ENTRIES, rule(ENTRIES, ROOT / "models"))
    if request.config.getoption("--update"):
        PAGE.write_text(text, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == text, "pytest --update writes it again"
    assert "history-properties.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
