"""Interpreter, kernel, and search with one and two workers agree on random Networks."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.parity.engines import interpreted, kernel_steps, searched
from tests.strategies import networks
from veristream.ir.network import LocationKind, Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.verify import verify
from veristream.kernel.load import load_kernel
from veristream.kernel.watch import Watch
from veristream.search.reach import explore as driver
from veristream_testing.states import explore

STATE_COUNT_MAX = 1000
RANDOM = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
HOW_MANY = [160, pytest.param(480, marks=pytest.mark.long)]


@pytest.mark.parametrize("examples", HOW_MANY)
def test_every_engine_finds_the_same_space(examples: int) -> None:
    settings(RANDOM, max_examples=examples)(given(networks())(_compare_spaces))()


@pytest.mark.parametrize("examples", HOW_MANY)
def test_every_step_agrees(examples: int) -> None:
    settings(RANDOM, max_examples=examples)(given(networks())(_compare_steps))()


def _compare_spaces(network: Network) -> None:
    verify(network)
    expected = interpreted(network, STATE_COUNT_MAX)
    if expected is None:
        return  # test_every_step_agrees covers networks that fail
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "WIDE", 2)  # otherwise workers do not share levels this small
        assert searched(network, workers=1) == expected
        assert searched(network, workers=2) == expected


def _compare_steps(network: Network) -> None:
    interpreter = Interpreter(network)
    kernel = load_kernel(network, Watch())
    kinds = {place.kind for component in network.components for place in component.locations}
    has_atomic = LocationKind.ATOMIC in kinds
    for state in sorted(explore(network, 60).states, key=repr):
        steps, failing = kernel_steps(kernel, network, state)
        expansion = interpreter.expand(state)
        assert bool(failing) == bool(expansion.failures)
        if not has_atomic:  # the kernel stops at an atomic action that fails
            assert failing == {failed.action for failed in expansion.failures}
        if not failing:
            taken = [(step.action, step.state) for step in expansion.steps]
            assert steps == sorted(taken, key=repr)
