"""Verdicts and counts of small specifications."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tla.files import write
from tests.tla.specifications import KNOWN, LIVENESS, RUNS, Known
from veristream import library
from veristream.search.limits import Limits
from veristream.verdict import Holds, Invalid, Unknown, Violated


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
def test_verdicts_and_counts(known: Known, tmp_path: Path) -> None:
    results = library.check_specification(write(tmp_path, known))
    violated = [one.property for one in results if isinstance(one.verdict, Violated)]
    assert violated == list(known.violated)
    if not violated:
        assert all(isinstance(one.verdict, Holds) for one in results)
    efforts = [one.effort for one in results]
    counts = {(one.states, one.transitions, one.depth) for one in efforts}
    assert counts == {known.counts}


LOCK = r"""
EXTENDS Naturals, FiniteSets
CONSTANT Client
VARIABLES holders, asked
Init == holders = {} /\ asked = [c \in Client |-> FALSE]
Ask(c) == ~asked[c] /\ asked' = [asked EXCEPT ![c] = TRUE] /\ UNCHANGED holders
Take(c) == asked[c] /\ holders' = holders \cup {c} /\ asked' = [asked EXCEPT ![c] = FALSE]
Steal == holders # {} /\ holders' = {} /\ UNCHANGED asked
Next == (\E c \in Client : Ask(c) \/ Take(c)) \/ Steal
Spec == Init /\ [][Next]_<<holders, asked>>
Mutex == Cardinality(holders) <= 1
"""


def test_a_trace_names_actions_with_their_arguments(tmp_path: Path) -> None:
    config = "SPECIFICATION Spec\nINVARIANT Mutex\nCONSTANT Client = {a, b}\n"
    lock = Known("Lock", LOCK, config, (0, 0, 0))
    deadlock, mutex = library.check_specification(write(tmp_path, lock))
    assert deadlock.verdict == Unknown("the exploration ended where Mutex was decided")
    assert isinstance(mutex.verdict, Violated)
    assert mutex.verdict.trace is not None
    actions = [step.action for step in mutex.verdict.trace.steps]
    assert actions == [None, "Ask(a)", "Take(a)", "Ask(b)", "Take(b)"]
    assert mutex.verdict.trace.steps[-1].state == {"holders": "{a, b}", "asked": {"a": False, "b": False}}


def test_a_fault_in_an_action_has_its_place_and_the_run_to_it(tmp_path: Path) -> None:
    body = """
EXTENDS Naturals, Sequences
VARIABLE q
Init == q = <<1>>
Next == q' = Tail(q)
Spec == Init /\\ [][Next]_q
"""
    (result,) = library.check_specification(
        write(tmp_path, Known("Empty", body, "SPECIFICATION Spec\n", (0, 0, 0)))
    )
    assert isinstance(result.verdict, Unknown)
    assert result.verdict.fault is not None
    assert result.verdict.fault.message == "Tail of the empty sequence"
    assert result.verdict.fault.span.excerpt().endswith("            ^^^^^^^")
    assert result.verdict.trace is not None
    assert [step.state for step in result.verdict.trace.steps] == [{"q": [1]}, {"q": "<<>>"}]


def test_constants_on_the_command_line_override_the_configuration(tmp_path: Path) -> None:
    body = """
EXTENDS Naturals
CONSTANT Top
VARIABLE x
Init == x = 0
Next == x' = (x + 1) % Top
"""
    known = Known("Wheel", body, "INIT Init\nNEXT Next\nCONSTANT Top = 3\n", (0, 0, 0))
    path = write(tmp_path, known)
    assert library.check_specification(path)[0].effort.states == 3
    assert library.check_specification(path, constants={"Top": 7})[0].effort.states == 7


def test_another_configuration(tmp_path: Path) -> None:
    known = Known("Two", "VARIABLE x\nA == x = 1\nB == x = 1 /\\ x' = x\n", "INIT B\nNEXT B\n", (0, 0, 0))
    path = write(tmp_path, known)
    (tmp_path / "other.cfg").write_text("INIT A\nNEXT B\n")
    (result,) = library.check_specification(path, config=tmp_path / "other.cfg")
    assert (result.verdict, result.effort.states) == (Holds(), 1)


def test_a_limit_leaves_it_unknown(tmp_path: Path) -> None:
    body = "EXTENDS Naturals\nVARIABLE x\nInit == x = 0\nNext == x' = x + 1\n"
    path = write(tmp_path, Known("Endless", body, "INIT Init\nNEXT Next\n", (0, 0, 0)))
    (result,) = library.check_specification(path, limits=Limits(states_max=5000))
    assert isinstance(result.verdict, Unknown)
    assert result.verdict.reason == "the limit of 5000 states was reached (--max-states)"


REFINED = r"""
EXTENDS Naturals
VARIABLES hour, ticks
Init == hour = 0 /\ ticks = 0
Next == hour' = (hour + JUMP) % 4 /\ ticks' = (ticks + 1) % 2
Spec == Init /\ [][Next]_<<hour, ticks>>
Abstract == INSTANCE Abstract WITH parity <- hour % 2
Refines == Abstract!Spec
Never == [](hour < 4) /\ hour = 0 /\ [][hour' # hour]_hour
Backwards == [][hour' > hour]_hour
"""
ABSTRACT = r"""
EXTENDS Naturals
VARIABLE parity
Start == parity = 0
Flip == parity' = 1 - parity
Spec == Start /\ [][Flip]_parity
"""


@pytest.mark.parametrize(
    ("jump", "broken"), [(1, {"Backwards": 5}), (2, {"Backwards": 3}), (3, {"Backwards": 3})]
)
def test_safety_that_a_property_says(jump: int, broken: dict[str, int], tmp_path: Path) -> None:
    """A specification that is refined, and properties of initial states, of states and of steps."""
    body = REFINED.replace("JUMP", str(jump))
    for name in ("Refines", "Never", "Backwards"):
        config = f"SPECIFICATION Spec\nPROPERTY {name}\n"
        known = Known("Clock", body, config, (0, 0, 0), modules=(("Abstract", ABSTRACT),))
        results = {one.property: one for one in library.check_specification(write(tmp_path, known))}
        assert results[name].kind == "safety"
        verdict = results[name].verdict
        if name not in broken:
            assert verdict == Holds()
            continue
        assert isinstance(verdict, Violated)
        assert verdict.reason == "the condition does not hold in the last step"
        assert verdict.trace is not None
        assert len(verdict.trace.steps) == broken[name]


def test_a_refinement_that_fails(tmp_path: Path) -> None:
    body = REFINED.replace("hour' = (hour + JUMP) % 4", "hour' \\in {0, 1, 3}")
    broken = body.replace("Init == hour = 0", "Init == hour = 2").replace(
        "parity <- hour % 2", "parity <- hour"
    )
    for text, reason in (
        (body.replace("hour % 2", "hour"), "the condition does not hold in the last step"),
        (broken, "the condition does not hold in the initial state"),
    ):
        config = "SPECIFICATION Spec\nPROPERTY Refines\n"
        known = Known("Clock", text, config, (0, 0, 0), modules=(("Abstract", ABSTRACT),))
        refines = library.check_specification(write(tmp_path, known))[-1]
        assert isinstance(refines.verdict, Violated)
        assert refines.verdict.reason == reason


@pytest.mark.parametrize(("specification", "name", "holds"), LIVENESS)
def test_liveness(specification: str, name: str, holds: bool, tmp_path: Path) -> None:
    config = f"SPECIFICATION {specification}\nPROPERTY {name}\nCONSTANT P = {{a, b}}\n"
    results = library.check_specification(write(tmp_path, Known("Runs", RUNS, config, (6, 28, 3))))
    verdict = results[-1].verdict
    assert results[-1].kind == "temporal"
    assert isinstance(verdict, Holds) is holds
    if isinstance(verdict, Violated):
        assert verdict.trace is not None
        assert verdict.trace.loop is not None
        assert verdict.trace.steps[verdict.trace.loop].state == verdict.trace.steps[-1].state


def test_a_formula_that_is_too_large_is_refused_and_the_rest_is_checked(tmp_path: Path) -> None:
    body = RUNS + "Large == \\A n \\in 1..40 : []<>(x # n)\n"
    config = "SPECIFICATION Base\nPROPERTY Large\nCONSTANT P = {a, b}\n"
    deadlock, large = library.check_specification(write(tmp_path, Known("Runs", body, config, (0, 0, 0))))
    assert deadlock.verdict == Holds()
    assert isinstance(large.verdict, Invalid)
    assert large.verdict.reason == "the formula mentions 40 different actions"


def test_liveness_is_refused_under_symmetry(tmp_path: Path) -> None:
    body = "EXTENDS TLC\n" + RUNS.lstrip() + "Same == Permutations(P)\n"
    body = body.replace("EXTENDS TLC\nEXTENDS Naturals", "EXTENDS TLC, Naturals")
    config = "SPECIFICATION Fair\nPROPERTY Visits\nSYMMETRY Same\nCONSTANT P = {a, b}\n"
    deadlock, visits = library.check_specification(write(tmp_path, Known("Runs", body, config, (0, 0, 0))))
    assert deadlock.verdict == Holds()
    assert isinstance(visits.verdict, Invalid)
    assert visits.verdict.reason == "a property of runs is not preserved by symmetry, nor by a view"
