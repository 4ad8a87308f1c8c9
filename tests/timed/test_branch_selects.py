"""Selections on the branches of a branchpoint, as on edges."""

from __future__ import annotations

from tests.unit.languages.timed.lower_texts import error, network
from tests.unit.languages.timed.parse_texts import label, nta
from veristream.ir.expr import TRUE
from veristream.ir.network import Network
from veristream.ir.property import Always, Property
from veristream.search.engine import check
from veristream.search.limits import Limits

WORLD = "int n, m; const int N = 3; typedef int[1,N] id_t; broadcast chan b[4]; clock x;"
POINTS = '<location id="l"/><location id="k"/><branchpoint id="p"/><init ref="l"/>'


def arrow(source: str, target: str, **labels: str) -> str:
    inside = "".join(label(kind, text) for kind, text in labels.items())
    return f'<transition><source ref="{source}"/><target ref="{target}"/>{inside}</transition>'


def model(*arrows: str) -> Network:
    return network(nta(POINTS + "".join(arrows), WORLD))


def states(found: Network) -> int:
    (result,) = check(found, [Property("all", Always(TRUE))], Limits())
    return result.effort.states


def test_a_branch_selects() -> None:
    """`n` becomes 1, 2 or 3 at k, besides the initial state."""
    found = model(arrow("l", "p"), arrow("p", "k", select="i : id_t", assignment="n = i"))
    assert [(one.name, one.low, one.high) for one in found.components[0].edges[0].select] == [("i", 1, 3)]
    assert states(found) == 4


def test_edge_and_branch_select() -> None:
    """All pairs of the edge's two values and the branch's three."""
    found = model(
        arrow("l", "p", select="e : int[0,1]", guard="e >= 0", assignment="m = e + 5"),
        arrow("p", "k", select="i : id_t", assignment="n = i + e"),
    )
    assert states(found) == 1 + 2 * 3


def test_each_branch_has_its_own() -> None:
    """Three values to k and two back to l, where `n` is 11 or 12; from there the same again: l with 0, 11
    and 12, k with 1, 2 and 3."""
    found = model(
        arrow("l", "p"),
        arrow("p", "k", select="i : id_t", assignment="n = i"),
        arrow("p", "l", select="i : int[11,12]", assignment="n = i"),
    )
    assert states(found) == 6


def test_a_branch_of_a_sender() -> None:
    found = model(
        arrow("l", "p", select="c : int[0,3]", synchronisation="b[c]!"),
        arrow("p", "k", select="i : id_t", assignment="n = i + c"),
    )
    assert states(found) == 1 + 6  # sums from 1 to 6


def test_a_branch_without_a_selection_is_as_before() -> None:
    found = model(arrow("l", "p", select="e : id_t"), arrow("p", "k", assignment="n = e"), arrow("p", "l"))
    assert states(found) == 4


def test_wrong() -> None:
    text = nta(POINTS + arrow("l", "p") + arrow("p", "k", select="i : int"), WORLD)
    assert error(text).message == "`int` has too many values to enumerate"
    text = nta(POINTS + arrow("l", "p", select="i : id_t") + arrow("p", "k", select="i : id_t"), WORLD)
    assert error(text).message == "`i` is declared twice"
    text = nta(POINTS + arrow("l", "p") + arrow("p", "k", synchronisation="b[0]!"), WORLD)
    assert error(text).message == "a branch can only have a selection and an update"
