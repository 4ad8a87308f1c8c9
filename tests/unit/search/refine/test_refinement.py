"""Refinement in the three models of CSP: textbook cases, messages, limits and faults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.event_oracle import Process, breaks_by, process, really_breaks
from veristream.ir.expr import Const
from veristream.ir.network import Edge, Label, Network
from veristream.ir.property import DeadlockFree, Property, RefinementModel, Refines
from veristream.ir.text.read import read_network
from veristream.ir.verify import verify
from veristream.search.engine import check
from veristream.search.limits import Limits
from veristream.search.refine import pairs
from veristream.source import Source
from veristream.verdict import Holds, Result, Unknown, Violated, word

MODELS: tuple[RefinementModel, ...] = ("T", "F", "FD")

STOP = ""
DIV = "0 tau 0"
A = "0 a 1"
A_B = "0 a 1; 1 b 2"
EXTERNAL = "0 a 1; 0 b 1"
INTERNAL = "0 tau 1; 0 tau 2; 1 a 3; 2 b 3"
RUN_A = "0 a 0"
RUN_AB = "0 a 0; 0 b 0"
CHAOS_AB = "0 tau 1; 0 tau 2; 1 a 0; 1 b 0"  # may refuse anything, and never diverges
SKIP = "0 done 1"

# Implementation, specification, and the models (T, F, FD) in which it refines.
CASES = [
    ("stop after a allows nothing more", A_B, A, ""),
    ("less is fewer traces, but it refuses", A, A_B, "T"),
    ("equal", A_B, A_B, "T F FD"),
    ("stop has only the empty trace", STOP, A, "T"),
    ("stop is stop", STOP, STOP, "T F FD"),
    ("internal choice is no external choice", INTERNAL, EXTERNAL, "T"),
    ("external choice is an internal choice", EXTERNAL, INTERNAL, "T F FD"),
    ("one side of an internal choice", A, INTERNAL, "T F FD"),
    ("one side of an external choice", A, EXTERNAL, "T"),
    ("a choice is not one of its sides", EXTERNAL, A, ""),
    ("divergence has no failures", DIV, A, "T F"),
    ("divergence allows everything in FD", A, DIV, "FD"),
    ("divergence refines itself", DIV, DIV, "T F FD"),
    ("divergence after an event", "0 a 1; 1 tau 1", A, "T F"),
    ("divergence after an event, allowed", A_B, "0 a 1; 1 tau 1", "FD"),
    ("another event than the divergence", "0 b 1", "0 a 1; 1 tau 1", ""),
    ("a divergence that can be left", "0 tau 0; 0 a 1", A, "T F"),
    ("a stable refusal beside a divergence", "0 a 1", "0 tau 0; 0 tau 1; 1 a 2; 1 b 2", "T FD"),
    ("a long way of invisible steps does not diverge", "0 tau 1; 1 tau 2; 2 a 3", A, "T F FD"),
    ("a circle of three invisible steps", "0 a 1; 1 tau 2; 2 tau 3; 3 tau 1", A, "T F"),
    ("hidden b between a and c", "0 a 1; 1 tau 2; 2 c 3", "0 a 1; 1 c 2", "T F FD"),
    ("an invisible step resolves a choice", "0 a 1; 0 tau 2; 2 b 3", EXTERNAL, "T"),
    ("an invisible step resolves a choice, as allowed", "0 a 1; 0 tau 2; 2 b 3", INTERNAL, "T F FD"),
    ("after one event two ways", "0 a 1; 0 a 2; 1 b 3; 2 c 3", "0 a 1; 1 b 2; 1 c 2", "T"),
    ("after one event both ways", "0 a 1; 1 b 2; 1 c 2", "0 a 1; 0 a 2; 1 b 3; 2 c 3", "T F FD"),
    ("the second way ends", "0 a 1; 0 a 2; 1 b 0", "0 a 1; 1 b 0", "T"),
    ("run allows all traces of its events", A_B, RUN_AB, "T"),
    ("chaos allows all but divergence", A_B, CHAOS_AB, "T F FD"),
    ("chaos does not allow divergence", "0 a 1; 1 tau 1", CHAOS_AB, "T F"),
    ("chaos knows no c", "0 a 1; 1 c 2", CHAOS_AB, ""),
    ("run refines chaos", RUN_AB, CHAOS_AB, "T F FD"),
    ("chaos refuses what run offers", CHAOS_AB, RUN_AB, "T"),
    ("one event forever", RUN_A, RUN_AB, "T"),
    ("termination is an event", SKIP, STOP, ""),
    ("stopping is no termination", STOP, SKIP, "T"),
    ("termination may come at last", "0 a 1; 1 done 2", "0 a 0; 0 done 1", "T"),
    ("termination or not", SKIP, "0 tau 1; 1 done 2; 0 tau 3", "T F FD"),
    ("unwound loop", "0 a 1; 1 a 2; 2 a 0", RUN_A, "T F FD"),
    ("a loop that counts", RUN_A, "0 a 1; 1 a 2; 2 a 3", ""),
]

every_case = pytest.mark.parametrize(
    ("implementation", "specification", "refines"),
    [case[1:] for case in CASES],
    ids=[case[0].replace(" ", "_") for case in CASES],
)


def compare(
    implementation: Network, specification: Network, model: RefinementModel, limits: Limits | None = None
) -> Result:
    property_ = Property("p", Refines(specification, model))
    verify(replace(implementation, properties=(property_,)))
    (result,) = check(implementation, [property_], limits or Limits())
    return result


def actions_of(result: Result) -> list[str | None]:
    assert isinstance(result.verdict, Violated | Unknown) and result.verdict.trace is not None
    return [step.action for step in result.verdict.trace.steps]


@pytest.mark.parametrize("model", MODELS)
@every_case
def test_textbook(implementation: str, specification: str, refines: str, model: RefinementModel) -> None:
    result = compare(process(implementation), process(specification), model)
    assert isinstance(result.verdict, Holds if model in refines.split() else Violated), result.verdict
    assert result.kind == ("refines" if model == "T" else f"refines<{model}>")
    if isinstance(result.verdict, Violated):
        sides = Process(process(implementation)), Process(process(specification))
        assert result.verdict.trace is not None
        assert really_breaks(*sides, model, result.verdict.trace)


@pytest.mark.parametrize("model", MODELS)
@every_case
def test_oracle_knows_the_textbook(
    implementation: str, specification: str, refines: str, model: RefinementModel
) -> None:
    sides = Process(process(implementation)), Process(process(specification))
    assert breaks_by(*sides, model)[0] == (model not in refines.split())


# Messages.


def test_a_step_that_the_specification_lacks_is_named() -> None:
    result = compare(process("0 a 1; 1 tau 2; 2 b 3; 3 c 4"), process(A_B), "T")
    assert result.verdict.reason == "after a, b the specification cannot do c"
    assert actions_of(result) == [None, "a", "1->2", "b", "c"]
    assert isinstance(result.verdict, Violated) and result.verdict.trace is not None
    assert result.verdict.trace.shortest


def test_what_is_refused_is_named() -> None:
    result = compare(process(A), process("0 a 1; 1 x 2; 1 y 2"), "F")
    assert (
        result.verdict.reason
        == "after a the network refuses {x, y} where the specification must offer {x, y}"
    )
    result = compare(process("0 c 1"), process("0 tau 1; 0 tau 2; 0 c 3; 1 x 3; 1 c 3; 2 y 3; 2 c 3"), "F")
    wanted = "refuses {x, y} where the specification must offer {c, x} or {c, y}"
    assert result.verdict.reason == f"at the start the network {wanted}"


def test_a_divergence_is_a_lasso() -> None:
    result = compare(process("0 a 1; 1 tau 2; 2 tau 3; 3 tau 2"), process(A), "FD")
    assert result.verdict.reason.startswith("after a the network diverges")
    assert actions_of(result) == [None, "a", "1->2", "2->3", "3->2"]
    assert isinstance(result.verdict, Violated) and result.verdict.trace is not None
    assert result.verdict.trace.loop == 2


def test_a_long_trace_is_cut_in_the_reason() -> None:
    text = "; ".join(f"{i} e{i} {i + 1}" for i in range(12))
    result = compare(process(text), process(text.replace("e11", "other")), "T")
    before = ", ".join(f"e{i}" for i in range(3, 11))
    assert result.verdict.reason == f"after ..., {before} the specification cannot do e11"


def test_a_nearer_refusal_is_told_before_a_farther_step() -> None:
    """Both are violations in the same level; the refusal needs one step less."""
    implementation = process("0 a 1; 0 b 2; 1 x 3")
    result = compare(implementation, process("0 a 1; 0 b 2; 1 y 3; 2 z 3"), "F")
    assert len(actions_of(result)) == 2


def test_arguments_are_compared_by_value() -> None:
    text = "network n var v: 0..3 component P { location l initial edge l -> l { %s } }"
    counting = read_network(Source("i.net", text % "action put(v) when v < 3 do { v := v + 1 }"))
    choosing = read_network(Source("s.net", text % "select k: 0..2 action put(k)"))
    smaller = read_network(Source("s.net", text % "select k: 0..1 action put(k)"))
    assert isinstance(compare(counting, choosing, "T").verdict, Holds)
    result = compare(counting, smaller, "T")
    assert result.verdict.reason == "after put(0), put(1) the specification cannot do put(2)"


def test_events_are_compared_as_they_are_shown() -> None:
    """A name may contain what is an argument in another network."""
    named = process("0 a(1) 1; 1 a(-2) 2")
    component = process("0 a 1; 1 a 2").components[0]
    first, second = component.edges
    edges = (replace(first, label=Label("a", (Const(1),))), replace(second, label=Label("a", (Const(-2),))))
    given = Network("given", components=(replace(component, edges=edges),))
    for model in MODELS:
        assert isinstance(compare(named, given, model).verdict, Holds)
        assert isinstance(compare(given, named, model).verdict, Holds)
    assert isinstance(compare(process("0 a(01) 1"), given, "T").verdict, Violated)
    assert isinstance(compare(process("0 a 1"), given, "T").verdict, Violated)


def test_a_visible_tau_is_no_invisible_step() -> None:
    component = process("0 a 1").components[0]
    edge = Edge("0", "1", label=Label("tau"))
    named = Network("named", components=(replace(component, edges=(edge,)),))
    result = compare(named, process(A), "T")
    assert result.verdict.reason == "at the start the specification cannot do tau"
    assert isinstance(compare(named, process("0 tau 1"), "T").verdict, Violated)


def test_vacuity() -> None:
    silent = compare(process("0 tau 0"), process(A), "T").verdict
    assert (
        isinstance(silent, Holds) and silent.vacuous is not None and "no visible action" in silent.vacuous
    )
    chaos = compare(process(A), process(DIV), "FD").verdict
    assert (
        isinstance(chaos, Holds)
        and chaos.vacuous is not None
        and "diverges from the start" in chaos.vacuous
    )
    for model in MODELS:
        plain = compare(process(A), process(A), model).verdict
        assert isinstance(plain, Holds) and plain.vacuous is None


# Networks of parallel components with buffers.

CELLS = """
network cells
const N = 3
channel move[N + 1]: rendezvous (0..1)
component Source { location l initial edge l -> l { select v: 0..1 action in(v) send move[0](v) } }
component Cell(i: 0..N - 1) {
  var held: 0..1
  location empty initial
  location full
  edge empty -> full { receive move[i](?v) do { held := v } }
  edge full -> empty { tau when i < N - 1 send move[i + 1](held) do { held := 0 } }
  edge full -> empty { when i == N - 1 send move[i + 1](held) do { held := 0 } }
}
component Sink { location l initial edge l -> l { action out(v) receive move[N](?v) } }
"""
QUEUE = """
network queue
channel q: buffer %d (0..1)
component P {
  location l initial
  edge l -> l { select v: 0..1 action in(v) send q(v) }
  edge l -> l { action out(v) receive q(?v) }
}
"""


def cells() -> Network:
    """Three cells in a row: input and output are visible, handing on is not."""
    return read_network(Source("cells.net", CELLS))


@pytest.mark.parametrize("model", MODELS)
def test_three_cells_are_a_buffer_of_three(model: RefinementModel) -> None:
    three = read_network(Source("queue.net", QUEUE % 3))
    result = compare(cells(), three, model)
    assert isinstance(result.verdict, Holds), result.verdict
    assert isinstance(compare(three, cells(), model).verdict, Holds)
    two = read_network(Source("queue.net", QUEUE % 2))
    broken = compare(cells(), two, model)
    assert "the specification cannot do in(0)" in broken.verdict.reason
    four = read_network(Source("queue.net", QUEUE % 4))
    assert isinstance(compare(cells(), four, model).verdict, Holds if model == "T" else Violated)


# Effort, shortcuts and limits.


def test_a_node_that_is_covered_is_not_looked_at() -> None:
    """After a trace of length n, the normal form without covering has 2**n nodes."""
    size = 14
    tail = "; ".join(f"{i} a {i + 1}; {i} b {i + 1}" for i in range(1, size))
    specification = process(f"0 a 0; 0 b 0; 0 a 1; {tail}")
    result = compare(process(RUN_AB), specification, "T")
    assert isinstance(result.verdict, Holds)
    assert result.effort.states < 10


COUNTERS = """
network counters
var a: 0..%d
var b: 0..%d
component A { location l initial edge l -> l { %s up when a < %d do { a := a + 1 } } }
component B { location l initial edge l -> l { %s up when b < %d do { b := b + 1 } } }
"""


def counters(most: int, word: str = "action") -> Network:
    return read_network(Source("counters.net", COUNTERS % (most, most, word, most, word, most)))


def test_many_states_in_full() -> None:
    result = compare(counters(299), process("0 up 0"), "T")
    assert isinstance(result.verdict, Holds)
    assert result.effort.states == 90_000
    assert result.effort.transitions == 2 * 300 * 299
    assert result.effort.depth == 598


@pytest.mark.parametrize("model", MODELS)
def test_a_large_specification(model: RefinementModel) -> None:
    result = compare(counters(99), counters(99), model)
    assert isinstance(result.verdict, Holds)


@pytest.mark.parametrize("model", MODELS)
def test_a_large_closure(model: RefinementModel) -> None:
    """All states of the specification form one node, and its only stable state offers nothing."""
    result = compare(process(STOP), counters(199, "tau"), model)
    assert isinstance(result.verdict, Holds)
    assert isinstance(compare(process(A), counters(199, "tau"), model).verdict, Violated)


def test_limits_are_named() -> None:
    run = process("0 up 0")
    states = compare(counters(999), run, "T", Limits(states_max=5000))
    assert states.verdict == Unknown("the limit of 5000 states was reached (--max-states)")
    assert 5000 <= states.effort.states < 50_000
    seconds = compare(counters(999), run, "T", Limits(seconds_max=0.0))
    assert seconds.verdict == Unknown("the limit of 0 seconds was reached (--max-seconds)")
    memory = compare(counters(999), run, "T", Limits(memory_max_mib=8))
    assert memory.verdict == Unknown("the memory budget of 8 MiB is used up (--max-memory-mib)")


@pytest.mark.parametrize("model", MODELS)
def test_states_of_the_specification_count_for_the_limit(model: RefinementModel) -> None:
    result = compare(process(A), counters(999, "tau"), model, Limits(states_max=20_000))
    assert result.verdict == Unknown("the limit of 20000 states was reached (--max-states)")


def test_an_interrupt_leaves_the_rest_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(self: pairs.Pairs, quantum: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pairs.Pairs, "advance", advance)
    wanted = [Property(name, Refines(process(A), "FD")) for name in ("one", "two")]
    results = check(process(A), [*wanted, Property("three", DeadlockFree())], Limits())
    assert [result.verdict for result in results[:2]] == [Unknown("interrupted")] * 2
    assert [result.kind for result in results] == ["refines<FD>", "refines<FD>", "deadlockfree"]


FAILING = """
network failing
var n: 0..2
component P { location l initial edge l -> l { action up do { n := n + 1 } } }
"""


def test_a_fault_of_either_side_is_a_finding() -> None:
    failing = read_network(Source("failing.net", FAILING))
    mine = compare(failing, process("0 up 0"), "F").verdict
    assert isinstance(mine, Unknown) and mine.fault is not None and mine.trace is not None
    assert mine.reason.startswith("the action up of P fails") and len(mine.trace.steps) == 3
    theirs = compare(process("0 up 0"), failing, "FD").verdict
    assert isinstance(theirs, Unknown) and theirs.fault is not None and theirs.trace is not None
    assert theirs.reason.startswith("in the specification, the action up of P fails")
    early = compare(failing, process("0 up 1"), "T").verdict
    assert isinstance(early, Violated), "what breaks before the fault is found before it"


def test_symmetry_is_not_used() -> None:
    """Events distinguish instances that are symmetric in the network."""
    text = """
    network pair
    var done[2]: bool
    component P { location l initial edge l -> l {
      select i: 0..1  action go(i)  when not done[i]  do { done[i] := true }
    } }
    symmetry Client 2 { done by 0 }
    """
    network = read_network(Source("pair.net", text))
    assert isinstance(compare(network, process("0 go(0) 1; 1 go(1) 2"), "T").verdict, Violated)
    both = process("0 go(0) 1; 1 go(1) 2; 0 go(1) 3; 3 go(0) 2")
    assert isinstance(compare(network, both, "FD").verdict, Holds)


@pytest.mark.parametrize(("top", "pairs"), [(9, 10), (31, 32), (32, 33), (99, 100)])
def test_one_state_with_many_nodes_is_compared_with_each_once(top: int, pairs: int) -> None:
    """The nodes are incomparable, and the first one returns after more pairs than are looked back at."""
    text = f"""
network turns
component One {{ location l initial  edge l -> l {{ action a }} }}
property refined: refines {{
  network counter
  var n: 0..{top}
  component Two {{
    location l initial
    edge l -> l {{ action a when n < {top} do {{ n := n + 1 }} }}
    edge l -> l {{ action a when n == {top} do {{ n := 0 }} }}
  }}
}}
"""
    network = read_network(Source("turns.net", text))
    (result,) = check(network, network.properties, Limits(states_max=1000))
    assert (word(result.verdict), result.effort.states) == ("holds", pairs)
