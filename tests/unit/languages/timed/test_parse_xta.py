"""XTA files: processes, instances and system lines in the syntax of UPPAAL 3 and 4."""

from __future__ import annotations

from tests.unit.languages.timed.parse_texts import process, read
from veristream.languages.timed.syntax import (
    Assignment,
    Binary,
    Branchpoint,
    Edge,
    Increment,
    Index,
    Instantiation,
    IntType,
    Location,
    Name,
    NamedType,
    Number,
    Parameter,
    PlainType,
    ProcessName,
    Select,
    Sync,
    Template,
    Variable,
)

X, Y = Name("x"), Name("y")


def at_most(name: str, bound: int) -> Binary:
    return Binary("<=", Name(name), Number(bound))


def test_locations() -> None:
    found = process("state A { x <= 5, y <= 2 }, B, C { x <= 1; 3 }, D { }; commit B; urgent C, B; init D;")
    assert found.locations == (
        Location("A", "A", Binary("and", at_most("x", 5), at_most("y", 2))),
        Location("B", "B", kind="committed"),
        Location("C", "C", at_most("x", 1), "urgent"),
        Location("D", "D"),
    )
    assert found.initial == "D"


def test_edges() -> None:
    found = process(
        "state A, B; branchpoint C; init A; trans"
        " A -> B { select i : T, j : int[0, 1]; guard x <= 1, y <= 2; sync c[i]!; assign x := 0, y++; },"
        " -> C { sync d?; },"
        " C -> A { probability 3; },"
        " B -u-> B { guard ; };"
    )
    assert found.branchpoints == (Branchpoint("C"),)
    assert found.edges == (
        Edge(
            "A",
            "B",
            (Select("i", NamedType("T")), Select("j", IntType(Number(0), Number(1)))),
            Binary("and", at_most("x", 1), at_most("y", 2)),
            Sync(Index(Name("c"), Name("i")), "!"),
            (Assignment("=", X, Number(0)), Increment("++", Y, False)),
        ),
        Edge("A", "C", sync=Sync(Name("d"), "?")),
        Edge("C", "A"),
        Edge("B", "B"),
    )


def test_a_whole_file_of_uppaal_4() -> None:
    found = read(
        "const int N = 2; typedef int[0, N - 1] id_t; chan go[id_t];"
        " process P(const id_t me, int &n) { clock x; state A; init A; trans A -> A { sync go[me]!; }; }"
        " int k; Q(const id_t i) = P(i, k); R = P(0, k); system Q, R < P;"
    )
    sync = Sync(Index(Name("go"), Name("me")), "!")
    assert found.templates == (
        Template(
            "P",
            (
                Parameter("me", NamedType("id_t"), constant=True),
                Parameter("n", IntType(), reference=True),
            ),
            (Variable("x", PlainType("clock")),),
            (Location("A", "A"),),
            (),
            "A",
            (Edge("A", "A", sync=sync),),
        ),
    )
    assert found.instantiations == (
        Instantiation(
            "Q", (Parameter("i", NamedType("id_t"), constant=True),), "P", (Name("i"), Name("k"))
        ),
        Instantiation("R", (), "P", (Number(0), Name("k"))),
    )
    assert [item.name for item in found.declarations if isinstance(item, Variable)] == ["N", "go", "k"]
    assert found.processes == ((ProcessName("Q"), ProcessName("R")), (ProcessName("P"),))
    assert (found.system_declarations, found.queries, found.skipped) == ((), (), ())


def test_a_whole_file_of_uppaal_3() -> None:
    found = read(
        "clock x; int[0, 2] id; const k 2;"
        " process P { state A, B { x <= k }; init A; trans A -> B { guard id == 0; assign x := 0; }; }"
        " Q := P(); system Q;"
    )
    (template,) = found.templates
    assert template.parameters == ()
    assert template.locations[1] == Location("B", "B", Binary("<=", X, Name("k")))
    assert template.edges[0].guard == Binary("==", Name("id"), Number(0))
    assert found.instantiations == (Instantiation("Q", (), "P", ()),)


def test_irrelevant_parts_are_skipped() -> None:
    found = read(
        "int x; process P() { state A; init A; } system P;"
        " progress { x; x + 1 : x; }"
        " IO P { a, b }"
        " gantt { G(i : int[0, 1]) : x == 1 -> 2.5, for (j : int[0, 1]) x -> j; }"
    )
    assert found.processes == ((ProcessName("P"),),)


def test_positions() -> None:
    text = "process Abc() { state S1, S2;\ninit S1; trans S1 -> S2 { guard x; }; } system Abc;"
    found = read(text)
    (template,) = found.templates
    spans = [template.span, template.locations[1].span, template.edges[0].span, found.processes[0][0].span]
    assert [text[span.start : span.end] for span in spans] == ["Abc", "S2", "S1 -> S2 { guard x; }", "Abc"]
    assert template.edges[0].span.line == 2
