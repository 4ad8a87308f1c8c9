"""What the tests against SPIN and TLC need; where a peer is missing they are skipped, and say so."""

from __future__ import annotations

import pytest

from tests.missing import is_missing
from veristream.errors import EnvironmentFailure
from veristream_testing.peers import find_spin, find_tlc


@pytest.fixture(scope="session")
def spin() -> None:
    """SPIN and a compiler are there."""
    try:
        find_spin()
    except EnvironmentFailure as missing:
        is_missing(missing.render())


@pytest.fixture(scope="session")
def tlc() -> None:
    """Java and TLC are there."""
    try:
        find_tlc()
    except EnvironmentFailure as missing:
        is_missing(missing.render())
