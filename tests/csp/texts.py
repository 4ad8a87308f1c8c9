"""Models written in tests: their states by the compiler, compared with those of the oracle."""

from __future__ import annotations

from tests.csp import oracle
from veristream.ir.network import Network
from veristream.ir.verify import verify
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.network import lower
from veristream.languages.csp.read.parse import read_specification
from veristream.source import Source
from veristream_testing.states import explore

LIMIT = 20_000


def read(text: str) -> csp.Specification:
    return read_specification(Source("m.csp", text), {})


def network_of(text: str, name: str = "P", *arguments: int) -> Network:
    """Returns the verified Network of a process."""
    network = lower(read(text), csp.Ref(name, tuple(map(csp.Number, arguments))))
    verify(network)
    return network


def counts(text: str, name: str = "P", *arguments: int) -> tuple[int, int]:
    """Returns the states and steps of a process without a fault, on which compiler and oracle agree.

    We tell a state that has terminated from a deadlock, where the oracle has one state.
    """
    found = explore(network_of(text, name, *arguments), LIMIT)
    assert found.complete and not found.failures
    expected = oracle.graph(read(text), csp.Ref(name, tuple(map(csp.Number, arguments))), LIMIT)
    assert expected.complete
    states = len(expected.states) + ended_and_stuck(expected)
    assert (len(found.states), found.transitions) == (states, oracle.summary(expected).transitions)
    return states, found.transitions


def ended_and_stuck(found: oracle.Graph) -> int:
    """Counts the states without a step that are reached both by termination and otherwise."""
    ended = {after for out in found.steps for event, after in out if event == oracle.TERMINATE}
    other = {after for out in found.steps for event, after in out if event != oracle.TERMINATE}
    return sum(not found.steps[state] for state in ended & other)
