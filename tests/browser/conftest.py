"""A browser for the tests of pages; without one, they are skipped with a reason."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import Tab, find_chromium, open_chromium
from tests.missing import is_missing


@pytest.fixture(scope="module")
def tab() -> Iterator[Tab]:
    """A page in Chromium."""
    command = find_chromium()
    if command is None:
        is_missing("Chromium is not installed; Debian's package is chromium")
    with (
        tempfile.TemporaryDirectory(prefix="veristream-chromium-", ignore_cleanup_errors=True) as profile,
        open_chromium(command, Path(profile)) as tab,
    ):
        yield tab
