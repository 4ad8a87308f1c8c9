"""Results remembered by network: computed once for each, and forgotten after some."""

from __future__ import annotations

from veristream.ir.network import Network
from veristream.ir.remembered import KEPT, remembered


def test_a_network_is_known_by_its_identity_and_forgotten_after_others() -> None:
    asked: list[str] = []

    @remembered
    def name_of(network: Network) -> str:
        asked.append(network.name)
        return network.name

    first = Network("first")
    assert [name_of(first), name_of(first)] == ["first", "first"] and asked == ["first"]
    equal = Network("first")
    assert name_of(equal) == "first" and asked == ["first", "first"]
    others = [Network(f"n{i}") for i in range(KEPT)]
    assert [name_of(one) for one in others] == [one.name for one in others]
    name_of(others[-1])
    assert len(asked) == 2 + KEPT
    name_of(first)
    assert asked[-1] == "first"
