"""What the fuzzers share: how many models each compares, and that their kernels fill no cache.

`VERISTREAM_FUZZ` says how many models each of them compares; `make fuzz` has 10,000.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MODELS = int(os.environ.get("VERISTREAM_FUZZ", "200"))
SHARES = 2 if MODELS < 1000 else 40


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Divides the models into shares, which several processes may take; a share has a seed of its own."""
    if "models" in metafunc.fixturenames:
        counts = [len(range(share, MODELS, SHARES)) for share in range(SHARES)]
        metafunc.parametrize(("share", "models"), list(enumerate(counts)))


@pytest.fixture(autouse=True)
def _own_kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keeps the kernels of the models until the test ends; each is used once."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr("veristream.kernel.load.cache_directory", lambda: Path(folder))
        yield
