"""Faults are reported with a run, wherever they are: in actions, in properties, under symmetry."""

from __future__ import annotations

import pytest

from veristream.ir.network import Network
from veristream.ir.text.read import read_network
from veristream.languages.actions.lower.network import read_model
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.source import Source
from veristream.verdict import Unknown

COUNTER = """
network counter
var n: 0..3 = 0
var a[3]: bool = false
component C { location here initial  edge here -> here { action up when n < 3 do { n := n + 1; } } }
property state: always not a[n]
property step: transition not a[n']
property live: ltl [] {not a[n]}
"""

FULL = """
from veristream.actions import *

class Client(Role, count=3, symmetric=True):
    sent: bool = False

    @action
    def send(self):
        require(not self.sent)
        self.sent = True
        net.add(self)

net: Bag[Client, 2] = []
free = deadlock_free()
"""


def verdict_of(network: Network, name: str) -> Unknown:
    wanted = [p for p in network.properties if p.name == name]
    (result,) = check(network, wanted, Limits())
    assert isinstance(result.verdict, Unknown)
    return result.verdict


@pytest.mark.parametrize("name", ["state", "step", "live"])
def test_a_property_that_fails_is_a_finding(name: str) -> None:
    found = verdict_of(read_network(Source("counter.net", COUNTER)), name)
    assert found.reason == "a property cannot be evaluated: index 3 is outside 0..2 of a"
    assert found.trace is not None and len(found.trace.steps) == 4
    assert found.fault is not None and found.fault.span.source.name == "counter.net"


def test_an_action_that_fails_under_symmetry_is_a_finding() -> None:
    found = verdict_of(read_model(Source("full.py", FULL)), "free")
    assert "is full: its bound is 2 items" in found.reason
    assert found.trace is not None and len(found.trace.steps) == 3
    assert found.fault is not None and found.fault.span.line == 11
