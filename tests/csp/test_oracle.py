"""The oracle's rules on terms built by hand, and the oracle on every file under `cases`.

Each test of the first part derives its counts in a comment and does not use the parser.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.csp import oracle, oracle_claims
from tests.csp.oracle_cases import FOLDER, CaseFile, Expected, Known, case_files
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.read.parse import read_specification
from veristream.source import read_source

STOP, SKIP = csp.Stop(), csp.Skip()


def event(name: str, then: csp.Process, *arguments: csp.Expr) -> csp.Prefix:
    return csp.Prefix(csp.Event(name, arguments), None, then)


def data(name: str, program: csp.Program, then: csp.Process) -> csp.Prefix:
    return csp.Prefix(csp.Event(name), program, then)


def tau(then: csp.Process) -> csp.Prefix:
    return csp.Prefix(None, None, then)


def number(value: int) -> csp.Number:
    return csp.Number(value)


def send(channel: str, value: int, then: csp.Process) -> csp.Output:
    return csp.Output(channel, (), (number(value),), None, then)


def get(channel: str, then: csp.Process, *fields: csp.Binder | csp.Expr) -> csp.Input:
    return csp.Input(channel, (), fields, None, None, then)


def specification(
    processes: Mapping[str, csp.Process],
    channels: tuple[csp.Channel, ...] = (),
    variables: tuple[csp.Variable, ...] = (),
) -> csp.Specification:
    definitions = tuple(csp.Definition(name, (), body) for name, body in processes.items())
    return csp.Specification(variables, channels, definitions, ())


def explored(body: csp.Process, **parts: Any) -> oracle.Exploration:
    return oracle.explore(specification({"S": body}, **parts), csp.Ref("S"))


def counts(body: csp.Process, **parts: Any) -> tuple[int, int]:
    found = explored(body, **parts)
    assert found.complete
    return found.states, found.transitions


def interleave(*branches: csp.Process) -> csp.Parallel:
    return csp.Parallel(True, branches)


def parallel(*branches: csp.Process) -> csp.Parallel:
    return csp.Parallel(False, branches)


def test_a_reference_is_a_state_of_its_own() -> None:
    # S() -a-> T() -a-> T(): the body of S is written S() until its first step.
    spec = specification({"S": event("a", csp.Ref("T")), "T": event("a", csp.Ref("T"))})
    found = oracle.explore(spec, csp.Ref("S"))
    assert (found.states, found.transitions) == (2, 2)
    assert found.events == {"a"}


def test_skip_terminates_and_stop_is_stuck() -> None:
    # S() -terminate-> Stop, reached by termination: no deadlock.
    found = explored(SKIP)
    assert (found.states, found.transitions, found.deadlocks, found.terminated) == (2, 1, (), True)
    # S() -a-> Stop: a deadlock.
    found = explored(event("a", STOP))
    assert (found.states, found.transitions, found.deadlocks, found.terminated) == (2, 1, (("a",),), False)


def test_a_stop_reached_both_ways_is_a_deadlock() -> None:
    # S() -a-> Stop, S() -b-> Skip -terminate-> Stop.
    body = csp.Choice("general", (event("a", STOP), event("b", SKIP)))
    found = explored(body)
    assert (found.states, found.transitions, found.deadlocks) == (3, 3, (("a",),))


def test_a_sequence_goes_past_skip_without_a_step() -> None:
    # S() -a-> (Skip; b -> Stop), which is b -> Stop, -b-> Stop.
    assert counts(csp.Sequence(event("a", SKIP), event("b", STOP))) == (3, 2)
    # A reference is not Skip: S() -a-> T(); b -> Stop -tau-> b -> Stop -b-> Stop.
    spec = specification(
        {"S": csp.Sequence(event("a", csp.Ref("T")), event("b", STOP)), "T": SKIP},
    )
    found = oracle.explore(spec, csp.Ref("S"))
    assert (found.states, found.transitions, found.deadlocks) == (4, 3, (("a", "tau", "b"),))


def test_a_parallel_of_skips_takes_a_tau() -> None:
    # S() -tau-> b -> Stop -b-> Stop; with ||| the first step is b.
    assert counts(csp.Sequence(parallel(SKIP, SKIP), event("b", STOP))) == (3, 2)
    assert counts(csp.Sequence(interleave(SKIP, SKIP), event("b", STOP))) == (2, 1)


def test_general_and_external_choice_differ_by_tau() -> None:
    # S() -tau-> a -> Stop, S() -b-> Stop, (a -> Stop) -a-> Stop.
    branches = (tau(event("a", STOP)), event("b", STOP))
    assert counts(csp.Choice("general", branches)) == (3, 3)
    # S() -tau-> (a -> Stop [*] b -> Stop), which does a or b.
    assert counts(csp.Choice("external", branches)) == (3, 4)
    # Internal: a tau to each, from one of them another tau.
    assert counts(csp.Choice("internal", branches)) == (5, 5)


def test_interleaving_forgets_the_ends_of_its_branches() -> None:
    # S(), then x: {a -> Skip, b -> Skip}: after a `b -> Skip`, after b `a -> Skip`, after both Skip, Stop.
    body = interleave(event("a", SKIP), event("b", SKIP))
    assert counts(body) == (5, 5)


def test_equal_branches_are_a_bag() -> None:
    # S() = {2 A}; after a {A, Skip}; after a a {2 Skip}; Stop. Equal branches step once.
    assert counts(interleave(event("a", SKIP), event("a", SKIP))) == (4, 3)
    assert counts(csp.Copies(number(3), event("a", SKIP))) == (5, 4)
    # An unbounded bag: S(), {unbounded A, Skip}, {unbounded A, 2 Skip}, ... is infinite.
    endless = specification({"S": csp.Copies(None, event("a", SKIP))})
    assert not oracle.explore(endless, csp.Ref("S"), limit=20).complete


def test_copies_without_a_number_return_to_one_state() -> None:
    # S() is {unbounded A}, -a-> itself, where A() = a -> A().
    spec = specification({"S": csp.Copies(None, csp.Ref("A")), "A": event("a", csp.Ref("A"))})
    found = oracle.explore(spec, csp.Ref("S"))
    assert (found.states, found.transitions) == (1, 1)


def test_a_barrier_takes_every_combination() -> None:
    # Both must do a; the left one in two ways: S() -a-> (b || Stop), S() -a-> (c || Stop), then b, c.
    left = csp.Choice("general", (event("a", event("b", STOP)), event("a", event("c", STOP))))
    body = parallel(left, event("a", STOP))
    found = explored(body)
    assert (found.states, found.transitions) == (4, 4)
    assert not oracle.deterministic(specification({"S": body}), csp.Ref("S"))


def test_a_data_operation_never_synchronises() -> None:
    # a{} is not in the left alphabet: both step alone, 2 * 2 states.
    assert counts(parallel(data("a", (), STOP), event("a", STOP))) == (4, 4)
    # Without the program they step together.
    assert counts(parallel(event("a", STOP), event("a", STOP))) == (2, 1)


def test_rendezvous_from_deep_within_branches() -> None:
    # One step c.1: the output waits in a choice of one branch, the input in a sequence of another.
    body = interleave(
        csp.Choice("general", (send("c", 1, SKIP), event("a", SKIP))),
        csp.Sequence(get("c", event("b", SKIP, csp.Bound("x")), csp.Binder("x")), SKIP),
    )
    found = explored(body, channels=(csp.Channel("c", 0),))
    # S(): c.1 -> (b.1 -> Skip; Skip) -b.1-> Skip -terminate-> Stop; a -> the input alone: stuck.
    assert (found.states, found.transitions) == (5, 4)
    assert found.deadlocks == (("a",),)
    assert found.events == {"a", "c.1", "b.1", "terminate"}


def test_buffered_channels_keep_order_and_capacity() -> None:
    # Capacity 1. The sender does c!1, c!2; the receiver c?1, c?2: S(), 1 sent, 1 got, 2 sent, 2 got, Stop.
    body = interleave(
        send("c", 1, send("c", 2, SKIP)),
        get("c", get("c", SKIP, csp.Binder("y")), csp.Binder("x")),
    )
    found = explored(body, channels=(csp.Channel("c", 1),))
    assert (found.states, found.transitions) == (6, 5)
    assert found.events == {"c!1", "c!2", "c?1", "c?2", "terminate"}


def test_atomic_steps_go_first() -> None:
    # S(): only a; then only b inside atomic; then Skip is dropped: c, Skip, Stop.
    body = interleave(csp.Atomic(event("a", event("b", SKIP))), event("c", SKIP))
    found = explored(body)
    # S() -a-> atomic{b} ||| c -b-> atomic{Skip} ||| c -c-> atomic{Skip} -terminate-> Stop
    assert (found.states, found.transitions) == (5, 4)
    assert found.deadlocks == ()


def test_interrupt_by_a_visible_step() -> None:
    # S() -a-> (Skip interrupt b -> Stop), S() -b-> Stop, then terminate or b, both to Stop.
    body = csp.Interrupt(event("a", SKIP), event("b", STOP))
    assert counts(body) == (3, 4)


def test_hiding_makes_tau_and_a_cycle_diverges() -> None:
    spec = specification(
        {
            "P": event("a", csp.Ref("P")),
            "S": csp.Hide(csp.Ref("P"), (csp.Events(csp.Event("a")),)),
        }
    )
    # S() -tau-> P() \ {a} -tau-> itself.
    found = oracle.explore(spec, csp.Ref("S"))
    assert (found.states, found.transitions, found.events) == (2, 2, {"tau"})
    assert oracle.diverges(spec, csp.Ref("S"))
    assert not oracle.diverges(spec, csp.Ref("P"))
    assert oracle.traces(spec, csp.Ref("S"), 3) == {()}
    assert oracle.traces(spec, csp.Ref("P"), 2) == {(), ("a",), ("a", "a")}


def test_the_flags_of_steps() -> None:
    spec = specification({"S": csp.Atomic(data("a", (), SKIP))})
    [(shown, atomic, is_data, after)] = oracle.steps(spec, oracle.initial(spec, csp.Ref("S")))
    assert (shown, atomic, is_data) == ("a", True, True)
    assert after.term == csp.Atomic(SKIP)


X = csp.Global("x")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (csp.Binary("/", number(1), X), "division by zero"),
        (csp.Binary("+", X, number(9)), "x leaves its range with 9"),
        (csp.Global("a", (csp.Binary("-", X, number(1)),)), "index -1 is outside of a"),
    ],
)
def test_run_time_errors(value: csp.Expr, message: str) -> None:
    variables = (csp.Variable("x", low=0, high=5), csp.Variable("a", (2,), (0, 0)))
    spec = specification({"S": data("e", (csp.Assign(X, value),), STOP)}, variables=variables)
    with pytest.raises(oracle.OracleFault, match=message):
        oracle.explore(spec, csp.Ref("S"))


def test_a_process_that_only_refers_to_itself_is_an_error() -> None:
    with pytest.raises(oracle.OracleFault, match="without a step"):
        explored(csp.Ref("S"))


# --- The cases --------------------------------------------------------------------------------------


@cache
def read(path: Path) -> csp.Specification:
    return read_specification(read_source(path), {})


def test_every_case_is_a_pair_of_files() -> None:
    models = {path.stem for path in FOLDER.glob("*.csp")}
    assert models == {case.name for case in case_files()}
    assert len(models) >= 60
    stuck = {
        case.name
        for case in case_files()
        for claim in case.assertions
        if not claim.holds and claim.trace is not None
    }
    assert len(stuck) >= 12


@pytest.mark.parametrize("case", case_files(), ids=lambda case: case.name)
def test_the_assertions_of_a_case_are_those_of_its_file(case: CaseFile) -> None:
    assert case.path.stem == case.name
    assert [claim.text for claim in case.assertions] == [found.text for found in read(case.path).assertions]


PROCESSES = [(case.path, known) for case in case_files() for known in case.processes]
CLAIMS = [(case.path, claim) for case in case_files() for claim in case.assertions]


@pytest.mark.parametrize(
    ("path", "known"), PROCESSES, ids=[f"{path.stem}-{known.process.name}" for path, known in PROCESSES]
)
def test_counts(path: Path, known: Known) -> None:
    spec = read(path)
    if known.fault is not None:
        with pytest.raises(oracle.OracleFault, match=known.fault):
            oracle.explore(spec, known.process)
        return
    found = oracle.explore(spec, known.process)
    assert found.complete
    assert (found.states, found.transitions) == (known.states, known.transitions)
    assert found.dead == known.deadlocks
    assert len(found.deadlocks) == min(found.dead, oracle.DEADLOCKS_MAX)


@pytest.mark.parametrize(
    ("path", "claim"), CLAIMS, ids=[f"{path.stem}-{claim.text}" for path, claim in CLAIMS]
)
def test_verdicts(path: Path, claim: Expected) -> None:
    spec = read(path)
    [assertion] = [found for found in spec.assertions if found.text == claim.text]
    holds, trace = oracle_claims.judge(spec, assertion)
    assert holds == claim.holds
    found = oracle.graph(spec, assertion.process)
    if isinstance(assertion.claim, csp.Reaches):
        assert oracle_claims.optimum(found, assertion.claim) == claim.value
    if claim.trace is None:
        return
    assert trace is not None and len(trace) == len(claim.trace), trace
    if isinstance(assertion.claim, csp.Refines):
        assert trace == claim.trace
    else:
        assert shows(found, assertion.claim, claim.trace)


def follow(found: oracle.Graph, events: tuple[str, ...]) -> set[int]:
    """Returns the states in which a run with these events may end."""
    states = {0}
    for wanted in events:
        states = {after for state in states for shown, after in found.steps[state] if shown == wanted}
    return states


def shows(found: oracle.Graph, claim: csp.Claim, trace: tuple[str, ...]) -> bool:
    """Whether some run with the events of the trace ends as the claim requires."""
    match claim:
        case csp.Simple("deadlockfree"):
            stuck = any(not found.steps[state] for state in follow(found, trace))
            return stuck and trace[-1:] != ("terminate",)
        case csp.Simple("nonterminating"):
            return any(not found.steps[state] for state in follow(found, trace))
        case csp.Simple("divergencefree"):
            return bool(oracle.silent_cycles(found) & follow(found, trace))
        case csp.Simple("deterministic"):
            steps = [found.steps[state] for state in follow(found, trace[:-1])]
            return any(len({after for shown, after in out if shown == trace[-1]}) > 1 for out in steps)
        case csp.Reaches(condition):
            return any(found.holds(condition, state) for state in follow(found, trace))
    raise TypeError(claim)
