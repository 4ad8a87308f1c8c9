"""A model has the same meaning as in Python: the compiled network and the executed text agree.

The tests compare all states as shown, the numbers of steps and failures, and the conditions of every
property in every state or for every step.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.actions.known import FOLDER, RUNS
from tests.unit.languages.actions.execute import Execution, Found, Marked
from veristream.ir.expr import Const
from veristream.ir.network import Network
from veristream.ir.oracle.interpret import Interpreter
from veristream.ir.property import (
    Always,
    Holds,
    LeadsTo,
    Property,
    Reachable,
    Temporal,
    TemporalUnary,
    Transition,
)
from veristream.ir.show import show_state
from veristream.ir.state import State
from veristream.library import check, load
from veristream.verdict import Unknown
from veristream_testing.states import explore

CONSTRUCTS = sorted((Path(__file__).parents[3] / "actions" / "constructs").glob("*.py"))
STATES_MAX = 20_000
CLASSICS = [run for run in RUNS if run.states <= 1500]

Key = str


def key_of(shown: Any) -> Key:
    return json.dumps(shown, sort_keys=True)


def test_every_construct_has_a_model() -> None:
    assert len(CONSTRUCTS) >= 15


@pytest.mark.parametrize("path", CONSTRUCTS, ids=[path.stem for path in CONSTRUCTS])
def test_constructs(path: Path) -> None:
    network = load(path)
    execution = Execution(path.read_text(encoding="utf-8"))
    found = execution.explore(STATES_MAX)
    states = compare_states(network, found)
    compare_properties(network, execution, found, states)


@pytest.mark.parametrize("path", CONSTRUCTS, ids=[path.stem for path in CONSTRUCTS])
def test_the_native_search_counts_the_same(path: Path) -> None:
    network = load(path)
    explored = explore(network, STATES_MAX)
    (result,) = check(replace(network, properties=(Property("all", Always(Const(1))),)))
    if explored.failures:
        assert isinstance(result.verdict, Unknown)
    else:
        assert (result.effort.states, result.effort.transitions) == (
            len(explored.states),
            explored.transitions,
        )


@pytest.mark.parametrize("run", CLASSICS, ids=[run.name for run in CLASSICS])
def test_classics(run: Any) -> None:
    network = run.load()
    execution = Execution((FOLDER / f"{run.model}.py").read_text(encoding="utf-8"), run.constants)
    found = execution.explore(STATES_MAX)
    states = compare_states(network, found)
    compare_properties(network, execution, found, states)


def compare_states(network: Network, found: Found) -> dict[Key, State]:
    explored = explore(network, STATES_MAX)
    assert explored.complete
    ours = {key_of(show(network, state)): state for state in explored.states}
    theirs = {key_of(shown) for shown in found.states.values()}
    assert len(ours) == len(explored.states), "two states are shown the same"
    assert ours.keys() == theirs, f"{sorted(ours.keys() ^ theirs)[:3]}"
    assert explored.transitions == len(found.steps)
    assert len(explored.failures) == found.failures
    return ours


def show(network: Network, state: State) -> Any:
    """Shows the state, with sorted bags."""
    shown = dict(show_state(network, state))
    for bag in network.bags:
        stem = bag.length.removesuffix(".len")
        for name in shown:
            if name == stem or (name.endswith("." + stem.partition(".")[2]) and "." in stem):
                shown[name] = sorted(shown[name], key=repr)  # type: ignore[arg-type]
    return shown


def compare_properties(
    network: Network, execution: Execution, found: Found, states: dict[Key, State]
) -> None:
    interpreter = Interpreter(network)
    claims = {property_.name: property_.claim for property_ in network.properties}
    pairs = [(frozen, states[key_of(shown)]) for frozen, shown in found.states.items()]
    for marked in execution.marked:
        if marked.kind in ("always", "exists", "eventually", "leads_to"):
            for frozen, state in pairs:
                for name, expected in expected_values(execution, marked, frozen):
                    assert our_values(interpreter, claims[name], state) == expected, (
                        name,
                        found.states[frozen],
                    )
        if marked.kind == "transition":
            compare_steps(interpreter, execution, marked, found, states)
    compare_terminal(interpreter, execution, pairs)


def expected_values(
    execution: Execution, marked: Marked, frozen: Any
) -> list[tuple[str, tuple[bool, ...]]]:
    """Evaluates a property in Python: the conditions of each network property."""
    name = marked.function.__name__
    results = []
    for arguments in execution.arguments(marked.function):
        value = execution.value(marked.function, arguments, frozen)
        results.append((arguments, value if isinstance(value, tuple) else (value,)))
    if marked.kind == "always":
        return [(name, (all(value for _, (value,) in results),))]
    if marked.kind == "exists":
        return [(name, (any(value for _, (value,) in results),))]
    numbers = [
        ", ".join(str(getattr(a, "id", getattr(a, "value", a))) for a in given) for given, _ in results
    ]
    suffixes = [f"({number})" if number else "" for number in numbers]
    return [(name + suffix, value) for suffix, (_, value) in zip(suffixes, results, strict=True)]


def our_values(interpreter: Interpreter, claim: Any, state: State) -> tuple[bool, ...]:
    match claim:
        case Always(condition) | Reachable(condition):
            return (interpreter.holds(condition, state),)
        case LeadsTo(cause, effect):
            return (interpreter.holds(cause, state), interpreter.holds(effect, state))
        case Temporal(TemporalUnary("<>", Holds(condition))):
            return (interpreter.holds(condition, state),)
        case _:
            raise AssertionError(claim)


def compare_steps(
    interpreter: Interpreter, execution: Execution, marked: Marked, found: Found, states: dict[Key, State]
) -> None:
    name = marked.function.__name__
    claim = next(p.claim for p in interpreter.network.properties if p.name == name)
    assert isinstance(claim, Transition)
    ours = {frozen: states[key_of(shown)] for frozen, shown in found.states.items()}
    for before, after in set(found.steps):
        expected = all(
            execution.value(marked.function, arguments, before, after)
            for arguments in execution.arguments(marked.function)
        )
        assert interpreter.holds_step(claim.condition, ours[before], ours[after]) == expected, name


def compare_terminal(
    interpreter: Interpreter, execution: Execution, pairs: list[tuple[Any, State]]
) -> None:
    terminal = [marked.function for marked in execution.marked if marked.kind == "terminal"]
    assert (interpreter.network.terminal is None) == (not terminal)
    for frozen, state in pairs:
        if terminal:
            expected = any(execution.value(function, (), frozen) for function in terminal)
            assert interpreter.is_terminated(state) == expected
