"""The models that the peers search as well, and what the interpreter says of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from veristream.ir.network import FairnessMark, Network
from veristream.ir.property import (
    Always,
    DeadlockFree,
    Fairness,
    Formula,
    Holds,
    LeadsTo,
    Property,
    Temporal,
    TemporalBinary,
    TemporalUnary,
)
from veristream.ir.text.read import read_network
from veristream.source import read_source
from veristream_testing.states import Exploration, explore

FOLDER = Path(__file__).parents[1] / "models"
MODELS = sorted(path.stem for path in FOLDER.glob("*.net"))
STATES_MAX = 20_000
SECONDS_MAX = 300.0


@cache
def network(name: str) -> Network:
    """The model of that name with its properties."""
    return read_network(read_source(FOLDER / f"{name}.net"))


@cache
def explored(name: str) -> Exploration:
    """All its states, by the interpreter."""
    found = explore(network(name), STATES_MAX)
    assert found.complete, f"{name} has more than {STATES_MAX} states"
    return found


def only(model: Network, *properties: Property) -> Network:
    """The model with these properties and no others."""
    return replace(model, properties=properties)


def named(claim: type) -> list[tuple[str, str]]:
    """Model and property, for every claim of the kind that is about states and no fairness."""
    return [
        (name, one.name)
        for name in MODELS
        for one in network(name).properties
        if isinstance(one.claim, claim) and one.fairness is Fairness.NONE and of_states(one)
        if not isinstance(one.claim, Temporal | LeadsTo) or not _has_fair_edges(network(name))
    ]


def _has_fair_edges(model: Network) -> bool:
    edges = [edge for component in model.components for edge in component.edges]
    return any(edge.fairness is not FairnessMark.NONE for edge in edges)


def of_states(one: Property) -> bool:
    """Whether the property speaks of states alone."""
    return not isinstance(one.claim, Temporal) or _of_states(one.claim.formula)


def _of_states(formula: Formula) -> bool:
    match formula:
        case Holds():
            return True
        case TemporalUnary(op=op, operand=operand):
            return op != "X" and _of_states(operand)
        case TemporalBinary(left=left, right=right):
            return _of_states(left) and _of_states(right)
        case _:
            return False


def find(model: str, name: str) -> Property:
    """The property of that name."""
    return next(one for one in network(model).properties if one.name == name)


ALWAYS = named(Always)
TEMPORAL = named(Temporal) + named(LeadsTo)
DEADLOCK = named(DeadlockFree)
