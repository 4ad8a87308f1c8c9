"""Symmetry reduction explores one state of each orbit, with the same verdicts and the full count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from veristream.errors import ModelError
from veristream.ir.network import Network
from veristream.ir.symmetry import list_permutations, orbit, permute
from veristream.ir.text.printer import print_network
from veristream.ir.text.read import read_network
from veristream.languages.actions.lower.network import read_model
from veristream.search.engine import check
from veristream.search.limits import Limits, Order
from veristream.search.reach import explore as explore_driver
from veristream.source import Source, read_source
from veristream.verdict import Unknown, word
from veristream_testing.states import explore

MODELS = Path(__file__).resolve().parents[1] / "actions" / "symmetric"
CASES = [("lock", {"N": 2}), ("lock", {"N": 3}), ("two_roles", {})]


def load(name: str, constants: dict[str, int]) -> Network:
    return read_model(read_source(MODELS / f"{name}.py"), constants)


@pytest.mark.parametrize(("name", "constants"), CASES)
@pytest.mark.parametrize(
    "limits",
    [
        Limits(workers=1),
        Limits(workers=2),
        Limits(workers=3),
        Limits(order=Order.DEPTH),
        Limits(hash_bits=64),
    ],
    ids=["one worker", "two workers", "three workers", "depth-first", "hashes"],
)
def test_one_state_of_each_orbit(
    name: str, constants: dict[str, int], limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explore_driver, "WIDE", 1)
    network = load(name, constants)
    space = explore(network, 100_000)
    orbits = {frozenset(orbit(network, state)) for state in space.states}
    assert set().union(*orbits) == space.states, "the states are closed under permutation"
    reduced = check(network, network.properties, limits)
    whole = check(network, network.properties, replace(limits, symmetry=False))
    assert [word(r.verdict) for r in reduced] == [word(r.verdict) for r in whole]
    assert all(not isinstance(r.verdict, Unknown) for r in whole)
    assert max(r.effort.states for r in reduced) == len(orbits) < len(space.states)
    assert max(r.effort.states for r in whole) == len(space.states)
    assert {r.effort.unreduced_states for r in reduced} >= {len(space.states)}
    assert {r.effort.unreduced_states for r in whole} == {None}


@pytest.mark.parametrize(("name", "constants"), CASES)
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_traces_are_real_runs_and_as_short(
    name: str, constants: dict[str, int], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(explore_driver, "WIDE", 1)
    network = load(name, constants)
    reduced = check(network, network.properties, Limits(workers=workers))
    whole = check(network, network.properties, Limits(workers=workers, symmetry=False))
    lengths = [
        (len(a.verdict.trace.steps), len(b.verdict.trace.steps))
        for a, b in zip(reduced, whole, strict=True)
        if a.verdict.trace is not None and b.verdict.trace is not None
    ]
    assert lengths
    assert all(mine == full for mine, full in lengths)


def test_permutations_form_a_group() -> None:
    network = load("two_roles", {})
    moves = list_permutations(network)
    assert len(moves) == 2 * 2
    states = sorted(explore(network, 300).states, key=repr)[::7]
    for state in states:
        assert permute(network, state, moves[0]) == state
        images = orbit(network, state)
        assert all(orbit(network, image) == images for image in images)
        assert len(moves) % len(images) == 0


@pytest.mark.parametrize(("name", "constants"), CASES)
def test_symmetries_are_part_of_the_text(name: str, constants: dict[str, int]) -> None:
    network = load(name, constants)
    assert network.symmetries
    assert read_network(Source("printed.net", print_network(network))) == network


ORDERED = """
from veristream.actions import *

class Client(Role, count=3, symmetric=True):
    waits: bool = False

    @action
    def wait(self):
        require(not self.waits)
        self.waits = True

chosen: Maybe[Client] = None

@action
def choose():
    global chosen
    require(chosen is None)
    for c in Client:
        if c.waits and chosen is None:
            chosen = c

free = deadlock_free()
"""


def test_a_loop_that_prefers_an_instance_is_found_out() -> None:
    network = read_model(Source("ordered.py", ORDERED))
    with pytest.raises(ModelError, match="treats the instances of Client differently") as caught:
        check(network, network.properties, Limits())
    assert caught.value.span.line == 4
    (result,) = check(network, network.properties, Limits(symmetry=False))
    assert word(result.verdict) == "violated"


@pytest.mark.parametrize("expression", ["Client[0].waits", "any(c.id == 1 for c in Client)"])
def test_instances_cannot_be_named(expression: str) -> None:
    text = ORDERED.replace("chosen is None)", f"{expression})", 1)
    with pytest.raises(ModelError, match="are symmetric, so"):
        read_model(Source("named.py", text))
