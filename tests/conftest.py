"""What all tests share: `--update`, and the golden files that it rewrites."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"

Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the files under tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text with the golden file of that name, or writes it with --update."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        found = text if text.endswith("\n") else text + "\n"
        if request.config.getoption("--update"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found, encoding="utf-8")
        assert path.is_file(), f"{path} is missing; pytest --update writes it"
        assert found == path.read_text(encoding="utf-8")

    return compare
