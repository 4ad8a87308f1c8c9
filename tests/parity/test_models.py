"""Interpreter, kernel, and search with one and two workers agree on every model of the tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.engines import interpreted, searched
from veristream.ir.network import Network
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.search.reach import explore as driver
from veristream.source import read_source
from veristream.verdict import Unknown, word

ROOT = Path(__file__).resolve().parents[2]
PATHS = sorted([*(ROOT / "tests").glob("**/*.net"), *(ROOT / "models").glob("**/*.net")])


def load(path: Path) -> Network:
    network = read_network(read_source(path))
    verify(network)
    return network


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_engines_agree(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = load(path)
    monkeypatch.setattr(driver, "WIDE", 16)
    expected = interpreted(network, 100_000)
    assert searched(network, workers=1) == expected
    assert searched(network, workers=2) == expected
    one, two = (check(network, network.properties, Limits(workers=w)) for w in (1, 2))
    assert [word(r.verdict) for r in one] == [word(r.verdict) for r in two]
    if expected is None:
        assert any(isinstance(r.verdict, Unknown) and r.verdict.fault for r in one)
    else:
        assert all(not isinstance(r.verdict, Unknown) for r in one)
