"""What all tests share: `--update`, the golden files that it rewrites, which tests one process runs,
which ports it draws, that interrupts arrive, and that how long an example takes judges no property."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from veristream.kabis.wire import ports

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"

OF_ZONES = (
    *(
        "fuzz",
        "mutants",
        "timed",
        "parity/test_shared_zones.py",
        "parity/test_timed.py",
        "unit/test_bench_timed.py",
    ),
    *("unit/kernel/test_zones", "unit/search/zones"),
)
"""Tests of the engine that takes longest to compile: it is compiled once if one process runs them all."""

# How long an example takes says how busy the machine is, and nothing of the property.
settings.register_profile(
    "veristream", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("veristream")

SHARES = 8
"""At least as many as processes run tests at once."""

Golden = Callable[[str, str], None]


def pytest_configure() -> None:
    """Gives each process ports of its own to draw from: those of a cluster that is down stay its own.

    Interrupts arrive, here and in what tests start, also where a shell began this in the background.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is not None:
        among = ports.find_range()
        size = len(among) // SHARES
        share = among[int(worker.removeprefix("gw")) % SHARES * size :][:size]
        os.environ[ports.VARIABLE] = f"{share[0]}-{share[-1]}"  # for what it starts, too


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the files under tests/golden")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.relative_to(TESTS).as_posix().startswith(OF_ZONES):
            item.add_marker(pytest.mark.xdist_group("zones"))


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
