"""Nothing that continuous integration needs can be missing unnoticed."""

from __future__ import annotations

import pytest

from tests.missing import REQUIRE, is_missing


def test_what_is_missing_skips_a_test_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REQUIRE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="no SPIN"):
        is_missing("no SPIN")


def test_where_nothing_may_be_missing_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRE, "1")
    with pytest.raises(pytest.fail.Exception, match="no SPIN"):
        is_missing("no SPIN")
