"""Templates, their instances and the system line."""

from __future__ import annotations

from tests.unit.languages.timed.lower_texts import component, network
from tests.unit.languages.timed.parse_texts import formula, label, nta
from veristream.ir import expr as ir
from veristream.ir.network import (
    Clock,
    Edge,
    LocationKind,
    Network,
    Receive,
    Select,
    Send,
    Variable,
)
from veristream.source import Source

BODY = "{ state A; init A; }"


def _names(text: str) -> list[str]:
    return [one.name for one in network(text).components]


def test_free_parameters_are_enumerated() -> None:
    text = f"process P(const int[0,1] i, const int[i,2] j) {BODY} system P;"
    assert _names(text) == ["P(0, 0)", "P(0, 1)", "P(0, 2)", "P(1, 1)", "P(1, 2)"]


def test_free_parameters_of_other_types() -> None:
    text = f"typedef scalar[2] s; process P(s i, bool b) {BODY} system P;"
    assert _names(text) == ["P(0, 0)", "P(0, 1)", "P(1, 0)", "P(1, 1)"]


def test_chains_of_partial_instantiations() -> None:
    text = (
        "int x; process P(const int a, const int b, const int c) "
        "{ state A, B; init A; trans A -> B { assign x = 100 * a + 10 * b + c; }; } "
        "Q(const int[4,5] m, const int n) = P(n, 2, m + 1); R(const int[4,5] k) = Q(k, 3); S = R(4); "
        "system R, S;"
    )
    updates = {one.name: one.edges[0].update for one in network(text).components}
    assert updates == {
        name: (ir.Assign(ir.Load("x"), ir.Const(value)),)
        for name, value in [("R(4)", 325), ("R(5)", 326), ("S", 325)]
    }


def test_arguments_by_reference() -> None:
    text = (
        "clock c[2]; broadcast chan go[2]; int a[2][2]; const int D[2] = {7, 8};"
        "process P(clock &x, chan &s, int &v[2], const int d[2], const int k) "
        "{ state A { x <= d[k] }; init A; "
        "trans A -> A { guard v[0] < d[0]; sync s!; assign x = 0, v[k]++; }; }"
        "Q = P(c[1], go[1], a[1], D, 1); system Q;"
    )
    found = component(text, "Q")
    x = ir.ClockRef("c", (ir.Const(1),))
    v = ir.Load("a", (ir.Const(1), ir.Const(1)))
    assert found.locations[0].clock_invariant == (ir.ClockConstraint(x, None, "<=", ir.Const(8)),)
    assert found.edges == (
        Edge(
            "A",
            "A",
            guard=ir.Binary("<", ir.Load("a", (ir.Const(1), ir.Const(0))), ir.Const(7)),
            sync=Send("go", (ir.Const(1),)),
            update=(ir.Reset(x, ir.Const(0)), ir.Assign(v, ir.Binary("+", v, ir.Const(1)))),
        ),
    )


def test_each_process_has_its_own_declarations() -> None:
    text = (
        "int x; process P(const int[1,2] i) { int x = i; clock y; bool b[2]; state A; init A; } system P;"
    )
    model = network(text)
    assert model.clocks == (Clock("P(1).y"), Clock("P(2).y"))
    assert [one.variables for one in model.components] == [
        (
            Variable(f"P({i}).x", ir.Type(-32768, 32767), initial=(i,)),
            Variable(f"P({i}).b", ir.BOOL, (2,), (0, 0)),
        )
        for i in (1, 2)
    ]
    assert [one.name for one in model.variables] == ["x"]


def test_an_assigned_parameter_is_a_variable() -> None:
    text = (
        "process P(int[0,9] n, const int k) { state A; init A; trans A -> A { assign n += k; }; } "
        "Q = P(3, 2); system Q;"
    )
    found = component(text, "Q")
    n = ir.Load("Q.n")
    assert found.variables == (Variable("Q.n", ir.Type(0, 9), initial=(3,)),)
    assert found.edges[0].update == (ir.Assign(n, ir.Binary("+", n, ir.Const(2))),)


def test_each_process_has_its_own_functions() -> None:
    text = (
        "process P(const int[1,2] i) { int x; void f() { x = i; } state A; init A; "
        "trans A -> A { assign f(); }; } system P;"
    )
    model = network(text)
    assert [(one.name, one.body) for one in model.functions] == [
        (f"P({i}).f", (ir.Assign(ir.Load(f"P({i}).x"), ir.Const(i)),)) for i in (1, 2)
    ]
    assert model.components[1].edges[0].update == (ir.Evaluate(ir.Call("P(2).f", ())),)


def test_locations_and_selections() -> None:
    text = (
        "chan c[4]; process P() { state A, B, C; commit B; urgent C; init B; "
        "trans A -> B { select i : int[1,3], j : bool; guard i > j; sync c[i]?; }; } system P;"
    )
    found = component(text, "P")
    assert found.initial == "B"
    assert [(one.name, one.kind) for one in found.locations] == [
        ("A", LocationKind.NORMAL),
        ("B", LocationKind.COMMITTED),
        ("C", LocationKind.URGENT),
    ]
    (edge,) = found.edges
    assert edge.select == (Select("i", 1, 3), Select("j", 0, 1))
    assert edge.guard == ir.Binary(">", ir.Local("i"), ir.Local("j"))
    assert edge.sync == Receive("c", (ir.Local("i"),))
    assert edge.label is None


def test_a_selection_hides_a_variable() -> None:
    text = (
        "int i; process P() { int j; state A; init A; trans A -> A { "
        "select j : int[0,1]; guard forall (j : int[5,6]) j > i; assign i = j; }; } system P;"
    )
    (edge,) = component(text, "P").edges
    assert edge.guard == ir.Fold("all", "j_2", 5, 6, ir.Binary(">", ir.Local("j_2"), ir.Load("i")))
    assert edge.update == (ir.Assign(ir.Load("i"), ir.Local("j")),)


def test_priorities_of_processes() -> None:
    text = f"process P() {BODY} process Q(const int[0,1] i) {BODY} process R() {BODY} system P < Q, R;"
    assert {one.name: one.priority for one in network(text).components} == {
        "P": 0,
        "Q(0)": 1,
        "Q(1)": 1,
        "R": 1,
    }


def _xml(text: str) -> Network:
    from veristream.languages.timed.lower.network import read_models

    (found,) = read_models(Source("folder/model.xml", text), {})
    return found


def test_branchpoints_join_edges() -> None:
    def arrow(source: str, target: str, labels: str) -> str:
        return f'<transition><source ref="{source}"/><target ref="{target}"/>{labels}</transition>'

    template = (
        '<location id="id0"/><location id="id1"><name>B</name></location><branchpoint id="id2"/>'
        '<init ref="id0"/>'
        + arrow(
            "id0",
            "id2",
            label("select", "i : int[0,1]") + label("guard", "x == i") + label("assignment", "x = 5"),
        )
        + arrow("id2", "id1", label("assignment", "x = x + i"))
        + arrow("id2", "id0", "")
    )
    (found,) = _xml(nta(template, "int x;")).components
    first = ir.Assign(ir.Load("x"), ir.Const(5))
    second = ir.Assign(ir.Load("x"), ir.Binary("+", ir.Load("x"), ir.Local("i")))
    assert [(one.source, one.target, one.update) for one in found.edges] == [
        ("_id0", "B", (first, second)),
        ("_id0", "_id0", (first,)),
    ]
    assert {one.guard for one in found.edges} == {ir.Binary("==", ir.Load("x"), ir.Local("i"))}


def test_unnamed_locations_get_unique_names() -> None:
    template = '<location id="id0"/><location id="id1"><name>_id0</name></location><init ref="id0"/>'
    (found,) = _xml(nta(template)).components
    assert [one.name for one in found.locations] == ["_id0_2", "_id0"]
    assert found.initial == "_id0_2"


def test_the_network_has_the_name_of_the_file() -> None:
    assert _xml(nta()).name == "model"


def test_skipped_queries_are_remarked() -> None:
    model = _xml(nta(queries=formula("A[] true", "Pr[<=10](<> true)")))
    assert [one.name for one in model.properties] == ["A[] true"]
    assert model.remark == "1 unsupported query skipped (statistical, game or hybrid)"
    assert _xml(nta()).remark == ""
