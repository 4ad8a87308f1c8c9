"""What a test says where something that it needs is not on the machine."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

REQUIRE = "VERISTREAM_REQUIRE_PEERS"


def is_missing(reason: str) -> NoReturn:
    """Skips the test; fails it where nothing may be missing, as in continuous integration."""
    if os.environ.get(REQUIRE):
        pytest.fail(reason)
    pytest.skip(reason)
