"""Inferred ranges: an edge is walked again only if something that it reads has changed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from veristream.languages.csp.lower import ranges
from veristream.languages.csp.lower.network import read_models
from veristream.source import Source

CHAIN = """var a = 0; var b = 0; var c = 0; var d = 0; var still = 0;
S() = one{still = 1;} -> S()
   [] cc{d = c + 1;} -> S() [] bb{c = b + 1;} -> S()
   [] aa{b = a + 1;} -> S() [] [a < 3] up{a = a + 1;} -> S();
#assert S() deadlockfree;
"""
"""Ranges flow against the order of the edges, one step in each round."""

SWAPPED = """var x = 0; var y = 5;
S() = [x < 9] up{x = x + 1; y = x;} -> S() [] [y > 2] down{y = y - 1; x = y;} -> S();
#assert S() deadlockfree;
"""

MESSAGES = """channel c 2; var got = 0;
P(i) = [i < 4] c!i * 2 -> P(i + 1);
Q() = c?x{got = x + 1;} -> Q();
S() = P(0) ||| Q();
#assert S() deadlockfree;
"""


def types_of(text: str) -> dict[str, tuple[int, int]]:
    (network,) = read_models(Source("m.csp", text), {})
    return {one.name: (one.type.low, one.type.high) for one in network.variables}


def test_ranges_flow_through_variables_and_messages() -> None:
    assert types_of(CHAIN) == {"a": (0, 3), "b": (0, 4), "c": (0, 5), "d": (0, 6), "still": (0, 1)}
    assert types_of(SWAPPED) == {"x": (0, 9), "y": (0, 9)}
    assert types_of(MESSAGES) == {"got": (0, 7)}


def test_an_edge_whose_variables_are_settled_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: Counter[str] = Counter()
    walk = ranges._walk_edge

    def spy(edge: Any, names: Any, found: Any) -> None:
        walked[edge.label.name] += 1
        walk(edge, names, found)

    monkeypatch.setattr(ranges, "_walk_edge", spy)
    types_of(CHAIN)
    assert walked["one"] == 2, "its own variable changed once"
    assert walked["up"] < walked["aa"] < walked["bb"] < walked["cc"]


@pytest.mark.parametrize("text", [CHAIN, SWAPPED, MESSAGES])
def test_walking_every_edge_every_time_finds_the_same(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = types_of(text)

    class Everything(frozenset[str]):
        def isdisjoint(self, other: object) -> bool:
            return False

    monkeypatch.setattr(ranges, "_depends_on", lambda edge: Everything())
    assert types_of(text) == found
