"""Random processes and networks: refinement and determinism against the oracle, and the laws of CSP."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.event_oracle import (
    Process,
    TooLargeError,
    breaks_by,
    process,
    really_breaks,
    steps_to_break,
    steps_to_two_ways,
)
from tests.strategies import networks
from veristream.errors import ModelError
from veristream.ir.network import Label, Network
from veristream.ir.property import Deterministic, Property, RefinementModel, Refines
from veristream.ir.verify import verify
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.verdict import Holds, Verdict, Violated, word

MODELS: tuple[RefinementModel, ...] = ("T", "F", "FD")
STATE_COUNT_MAX = 250

patient = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)

models = st.sampled_from(MODELS)
steps = st.tuples(
    st.sampled_from("0123"),
    st.sampled_from(["a", "a", "b", "b", "c", "tau", "tau"]),
    st.sampled_from("0123"),
)
processes = st.lists(steps, max_size=8).map(lambda rows: "; ".join(map(" ".join, rows)))


@st.composite
def near(draw: st.DrawFn) -> tuple[str, str]:
    """Two processes of which one has a few steps more, or other ones, than the other."""
    rows = draw(st.lists(steps, min_size=2, max_size=8))
    other = [row for row in rows if draw(st.integers(0, 4))] + draw(st.lists(steps, max_size=2))
    texts = ["; ".join(map(" ".join, one)) for one in (rows, other)]
    return (texts[0], texts[1]) if draw(st.booleans()) else (texts[1], texts[0])


def verdict_of(implementation: Network, specification: Network, model: RefinementModel) -> Verdict:
    (result,) = check(implementation, [Property("p", Refines(specification, model))], Limits())
    return result.verdict


def refines(implementation: str, specification: str, model: RefinementModel) -> bool:
    return isinstance(verdict_of(process(implementation), process(specification), model), Holds)


def compare(implementation: Network, specification: Network, model: RefinementModel) -> None:
    """The verdict is the oracle's, and the trace is a shortest run that breaks it."""
    mine = Process(implementation, STATE_COUNT_MAX)
    theirs = Process(specification, STATE_COUNT_MAX)
    broken, depth = breaks_by(mine, theirs, model)
    shortest = steps_to_break(mine, theirs, model)
    verdict = verdict_of(implementation, specification, model)
    event(f"{word(verdict)} in {model}, {len(mine.depth)} and {len(theirs.depth)} states")
    assert isinstance(verdict, Holds if shortest is None else Violated)
    if isinstance(verdict, Holds):
        assert not broken, depth
        return
    assert isinstance(verdict, Violated) and verdict.trace is not None
    assert really_breaks(mine, theirs, model, verdict.trace)
    if verdict.trace.loop is None:
        assert verdict.trace.shortest and len(verdict.trace.steps) - 1 == shortest
    else:
        assert model == "FD" and shortest is not None and verdict.trace.loop >= shortest
        loop = verdict.trace.steps[verdict.trace.loop :]
        assert len(loop) > 1 and loop[0].state == loop[-1].state
    if broken:
        return
    assert len(verdict.trace.steps) - 1 > depth, "sets of observations must show it too"


@settings(patient, max_examples=25)
@given(processes, processes, models)
def test_any_two_processes(implementation: str, specification: str, model: RefinementModel) -> None:
    compare(process(implementation), process(specification), model)


@settings(patient, max_examples=50)
@given(near(), models)
def test_two_processes_that_are_nearly_alike(pair: tuple[str, str], model: RefinementModel) -> None:
    compare(process(pair[0]), process(pair[1]), model)


@st.composite
def changed_networks(draw: st.DrawFn) -> tuple[Network, Network]:
    """A network, and the same with an edge less, hidden, shown or renamed."""
    network = draw(networks(faults=False))
    components = list(network.components)
    owner = draw(st.integers(0, len(components) - 1))
    edges = list(components[owner].edges)
    if edges:
        at = draw(st.integers(0, len(edges) - 1))
        match draw(st.sampled_from(("drop", "hide", "show", "rename", "same"))):
            case "drop":
                del edges[at]
            case "hide":
                edges[at] = replace(edges[at], visible=False)
            case "show":
                edges[at] = replace(edges[at], visible=True)
            case "rename":
                edges[at] = replace(edges[at], label=Label("other"))
    components[owner] = replace(components[owner], edges=tuple(edges))
    return network, replace(network, components=tuple(components))


@settings(patient, max_examples=12)
@given(changed_networks(), models, st.booleans())
def test_two_networks(pair: tuple[Network, Network], model: RefinementModel, swapped: bool) -> None:
    implementation, specification = pair[::-1] if swapped else pair
    try:
        for network in pair:
            verify(network)
        compare(implementation, specification, model)
    except (ModelError, TooLargeError):
        event("left out")


# The laws of CSP.


@settings(patient, max_examples=10)
@given(processes)
def test_every_process_refines_itself_and_the_ends_of_the_order(text: str) -> None:
    run = "; ".join(f"0 {name} 0" for name in "abc")
    chaos = "0 tau 1; 0 tau 2; " + "; ".join(f"1 {name} 0" for name in "abc")
    for model in MODELS:
        assert refines(text, text, model)
    assert refines(text, run, "T")
    assert refines("", text, "T")
    assert refines("0 tau 0", text, "T") and refines("0 tau 0", text, "F")
    assert refines(text, chaos, "F")
    assert refines(text, "0 tau 0", "FD")


@settings(patient, max_examples=12)
@given(near())
def test_finer_models_tell_more(pair: tuple[str, str]) -> None:
    in_traces, in_failures, in_divergences = (refines(*pair, model) for model in MODELS)
    assert in_traces or not in_failures
    if not any(Process(process(text)).diverges(frozenset(Process(process(text)).depth)) for text in pair):
        assert in_failures == in_divergences


@settings(patient, max_examples=10)
@given(near(), processes, models)
def test_refinement_is_transitive(pair: tuple[str, str], third: str, model: RefinementModel) -> None:
    first, second = pair
    for a, b, c in ((first, second, third), (second, first, third), (third, first, second)):
        if refines(a, b, model) and refines(b, c, model):
            assert refines(a, c, model)


@settings(patient, max_examples=10)
@given(near(), models)
def test_a_choice_within_is_refined_by_its_sides(pair: tuple[str, str], model: RefinementModel) -> None:
    """P refines P |~| Q, and P |~| Q refines S exactly if both do."""
    left, right = (_moved(text, sign) for text, sign in zip(pair, "pq", strict=True))
    both = f"0 tau p0; 0 tau q0; {left}; {right}"
    for side in pair:
        assert refines(side, both, model)
    assert refines(both, pair[0], model) == refines(pair[1], pair[0], model)


def _moved(text: str, sign: str) -> str:
    rows = [row.split() for row in text.split(";") if row.strip()]
    return "; ".join(f"{sign}{source} {name} {sign}{target}" for source, name, target in rows)


# Determinism.


@settings(patient, max_examples=25)
@given(processes)
def test_determinism_of_processes(text: str) -> None:
    _compare_determinism(process(text))


@settings(patient, max_examples=15)
@given(networks(faults=False))
def test_determinism_of_networks(network: Network) -> None:
    try:
        _compare_determinism(network)
    except TooLargeError:
        event("left out")


def _compare_determinism(network: Network) -> None:
    nearest = steps_to_two_ways(Process(network, STATE_COUNT_MAX))
    (result,) = check(network, [Property("p", Deterministic())], Limits())
    event(word(result.verdict))
    assert isinstance(result.verdict, Holds if nearest is None else Violated)
    if isinstance(result.verdict, Violated):
        assert result.verdict.trace is not None and len(result.verdict.trace.steps) - 1 == nearest
