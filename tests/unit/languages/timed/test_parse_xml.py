"""XML files: elements, positions and errors."""

from __future__ import annotations

import pytest

from tests.unit.languages.timed.parse_texts import edge, error, label, marked, nta, read
from veristream.languages.timed.syntax import (
    Assignment,
    Binary,
    Branchpoint,
    Edge,
    Expression,
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
DOCTYPE = (
    "<!DOCTYPE nta PUBLIC '-//Uppaal Team//DTD Flat System {}//EN' "
    "'http://www.it.uu.se/research/group/darts/uppaal/flat-1_2.dtd'>"
)

WHOLE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE nta>
<nta>
  <imports></imports>
  <declaration>const int N = 2; // größer
typedef int[0, N - 1] id_t;</declaration>
  <template>
    <name x="5" y="5">P</name>
    <parameter>const id_t me, int &amp;n</parameter>
    <declaration>clock x; int a[id_t];</declaration>
    <location id="id0" x="0" y="0" color="#fff">
      <name x="1" y="2">A</name>
      <label kind="invariant" x="1" y="2">x &lt;= 5</label>
      <label kind="exponentialrate">0.5</label>
    </location>
    <location id="id1"><name/><urgent/></location>
    <location id="id2"><committed/><urgent/></location>
    <branchpoint id="id3" x="0" y="0"/>
    <init ref="id1"/>
    <transition id="id4" controllable="false">
      <source ref="id0"/><target ref="id3"/>
      <label kind="select">i : id_t</label>
      <label kind="guard">x &gt;= 2 &amp;&amp; i != me</label>
      <label kind="synchronisation">go[i]?</label>
      <label kind="assignment">x = 0,
 n = i</label>
      <label kind="comments">to be (continued</label>
      <nail x="1" y="2"/>
    </transition>
    <transition><source ref="id3"/><target ref="id1"/><label kind="probability">0.5</label></transition>
  </template>
  <instantiation>Q := P(0, k);</instantiation>
  <system>int k;
system Q, P;</system>
</nta>"""


def test_a_whole_file() -> None:
    found = read(WHOLE)
    assert found.declarations[0] == Variable("N", IntType(), initial=Number(2), constant=True)
    assert found.templates == (
        Template(
            "P",
            (
                Parameter("me", NamedType("id_t"), constant=True),
                Parameter("n", IntType(), reference=True),
            ),
            (Variable("x", PlainType("clock")), Variable("a", IntType(), (NamedType("id_t"),))),
            (
                Location("id0", "A", Binary("<=", X, Number(5))),
                Location("id1", kind="urgent"),
                Location("id2", kind="committed"),
            ),
            (Branchpoint("id3"),),
            "id1",
            (
                Edge(
                    "id0",
                    "id3",
                    (Select("i", NamedType("id_t")),),
                    Binary("and", Binary(">=", X, Number(2)), Binary("!=", Name("i"), Name("me"))),
                    Sync(Index(Name("go"), Name("i")), "?"),
                    (Assignment("=", X, Number(0)), Assignment("=", Name("n"), Name("i"))),
                ),
                Edge("id3", "id1"),
            ),
        ),
    )
    assert found.instantiations == (Instantiation("Q", (), "P", (Number(0), Name("k"))),)
    assert found.system_declarations == (Variable("k", IntType()),)
    assert found.processes == ((ProcessName("Q"), ProcessName("P")),)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2", "1.3", "1.5", "1.6"])
def test_the_document_type_is_never_fetched(version: str) -> None:
    assert read(DOCTYPE.format(version) + nta()) == read(nta())


def test_blanks_before_the_file() -> None:
    wrong = error("\n \n" + nta(system="system P, ;"))
    assert (marked(wrong), wrong.span.line) == (";", 3)


@pytest.mark.parametrize("kind", ["select", "guard", "synchronisation", "assignment"])
@pytest.mark.parametrize("text", ["", "  \n ", "/* nothing */", "// nothing"])
def test_empty_labels(kind: str, text: str) -> None:
    assert edge(label(kind, text)) == Edge("id0", "id0")


def guard(written: str, before: str = "") -> tuple[Expression, str]:
    """Returns the guard of a label given as XML, and the text of the whole file."""
    ends = '<source ref="id0"/><target ref="id0"/>'
    template = (
        f'<location id="id0"/><init ref="id0"/>'
        f'<transition>{ends}<label kind="guard">{written}</label></transition>'
    )
    text = nta(template, declaration=before)
    found = read(text).templates[0].edges[0].guard
    assert found is not None
    return found, text


SPELLINGS = [
    ("x &lt; y", "x &lt; y", "x", "y"),
    ("x &#60; y", "x &#60; y", "x", "y"),
    ("x&#x3c;y", "x&#x3c;y", "x", "y"),
    ("<![CDATA[x < y]]>", "x < y", "x", "y"),
    (" x <![CDATA[<]]> y ", "x <![CDATA[<]]> y", "x", "y"),
    ("&#10;x &lt;\n\ty&#32;", "x &lt;\n\ty", "x", "y"),
    ("x<!-- less --> &lt; y", "x<!-- less --> &lt; y", "x", "y"),
    ("x &lt; &#121;", "x &lt; &#121;", "x", "&#121;"),
    ("x\r\n&lt; y", "x\r\n&lt; y", "x", "y"),
    ("/* &amp; ü */ x &lt; /* € 😀 */ y", "x &lt; /* € 😀 */ y", "x", "y"),
]


@pytest.mark.parametrize("before", ["", "// ünïcode €😀\n"])
@pytest.mark.parametrize(("written", "whole", "left", "right"), SPELLINGS)
def test_positions_in_the_file(written: str, whole: str, left: str, right: str, before: str) -> None:
    found, text = guard(written, before)
    assert found == Binary("<", X, Y)
    spans = [found.span, found.left.span, found.right.span]
    assert [text[span.start : span.end] for span in spans] == [whole, left, right]


def test_an_error_inside_a_label_points_into_the_file() -> None:
    text = WHOLE.replace("x &gt;= 2 &amp;&amp; i != me", "x &gt;= 2 &amp;&amp; &amp; i")
    wrong = error(text)
    assert wrong.message == "unexpected `&`"
    assert marked(wrong) == "&amp;"
    assert wrong.span.line == WHOLE[: WHOLE.index('kind="guard"')].count("\n") + 1
    assert (
        wrong.span.excerpt()
        .splitlines()[0]
        .endswith('<label kind="guard">x &gt;= 2 &amp;&amp; &amp; i</label>')
    )


def test_charts_that_are_not_processes_are_skipped() -> None:
    chart = "<lsc><name>L</name><parameter>int n</parameter><declaration>clock y;</declaration></lsc>"
    found = read(nta(system="M = L(1); N = M(); system P;").replace("<system>", f"{chart}<system>"))
    assert [one.name for one in found.templates] == ["P"]
    assert found.instantiations == ()


def test_positions_of_elements() -> None:
    (template,) = read(WHOLE).templates
    spans = [
        template.span,
        template.locations[0].span,
        template.locations[1].span,
        template.branchpoints[0].span,
        template.edges[0].span,
    ]
    assert [WHOLE[span.start : span.end] for span in spans] == [
        "P",
        "A",
        '<location id="id1">',
        '<branchpoint id="id3" x="0" y="0"/>',
        '<transition id="id4" controllable="false">',
    ]


# Malformed and dangerous files: the text, the message, the marked text, and a part of the hint.
BOMB = (
    '<!DOCTYPE nta [<!ENTITY a "xxxxxxxxxx">'
    + "".join(
        f'<!ENTITY {name} "{f"&{inner};" * 10}">'
        for inner, name in zip("abcdefgh", "bcdefghi", strict=True)
    )
    + "]><nta><declaration>&i;</declaration></nta>"
)
EXTERNAL = (
    '<!DOCTYPE nta [<!ENTITY secret SYSTEM "file:///etc/hostname">]>'
    "<nta><declaration>&secret;</declaration></nta>"
)
PARAMETER = '<!DOCTYPE nta [<!ENTITY % more SYSTEM "other.dtd"> %more;]><nta/>'
BROKEN = [
    (BOMB, "the file declares entities, such as `a`", "<!ENTITY a", "remove the declarations"),
    (
        EXTERNAL,
        "the file declares entities, such as `secret`",
        "<!ENTITY secret",
        "remove the declarations",
    ),
    (PARAMETER, "the file declares entities, such as `more`", "<!ENTITY % more", "remove the declarations"),
    (DOCTYPE.format("1.1") + "<nta>&foo;</nta>", "undefined entity `&foo;`", "&foo;", "`&lt;`"),
    ("<nta>&foo;</nta>", "malformed XML: undefined entity", "&", "`&lt;`"),
    (
        nta(declaration="int x = 1 < 2;"),
        "malformed XML: not well-formed (invalid token)",
        " ",
        "`&lt;`",
    ),
    ("<nta><template></nta>", "malformed XML: mismatched tag", "n", "its own tag"),
    ("<nta><declaration>", "malformed XML: no element found", "", "truncated"),
    ("<nta/><nta/>", "malformed XML: junk after document element", "<", ""),
    ("<project/>", "this is not an UPPAAL model: the root element is `<project>`", "<project/>", "`<nta>`"),
    (
        "<nta><lsc><name>L</name></lsc><system>M = L(); system M;</system></nta>",
        "live sequence charts, `<lsc>`, are not supported",
        "<lsc>",
        "template",
    ),
    (nta(system=""), "the model has no system line", "<system>", "`system P, Q;`"),
    ("<nta/>", "the model has no system line", "<nta/>", "`system P, Q;`"),
    (nta(""), "the template `P` has no locations", "P", "`<location>`"),
    (nta('<location id="a"/>'), "the template `P` has no initial location", "P", '`<init ref="a"/>`'),
    ("<nta><template/></nta>", "this template has no name", "<template/>", "`<name>P</name>`"),
    (nta("<location/>"), "this location has no id", "<location/>", 'id="id0"'),
    (
        nta('<location id="a"/><location id="a"/>'),
        "two locations have the id `a`",
        '<location id="a"/>',
        "change one",
    ),
    (
        nta('<location id="id0"/><init ref="id1"/>'),
        "there is no location with the id `id1`",
        '<init ref="id1"/>',
        "did you mean `id0`?",
    ),
    (
        nta('<location id="a"/><init ref="a"/><transition><source ref="a"/></transition>'),
        "this transition has no target",
        "<transition>",
        "`<target",
    ),
    (
        nta('<location id="a"><label kind="guard">x</label></location><init ref="a"/>'),
        "unknown label kind `guard` for a location",
        '<label kind="guard">',
        "`invariant`",
    ),
    (
        nta(
            '<location id="a"/><init ref="a"/><transition><source ref="a"/><target ref="a"/>'
            '<label kind="synchronization">c!</label></transition>'
        ),
        "unknown label kind `synchronization` for a transition",
        '<label kind="synchronization">',
        "did you mean `synchronisation`?",
    ),
    (
        nta('<location id="a"><name>not good</name></location><init ref="a"/>'),
        "`not good` is not a valid name",
        "not good",
        "letters",
    ),
    (
        nta("<declaration>system P;</declaration>"),
        "instantiations and system lines are not allowed in a template",
        "system P;",
        "`<system>`",
    ),
]


@pytest.mark.parametrize(("text", "message", "points_at", "hint"), BROKEN)
def test_broken_files(text: str, message: str, points_at: str, hint: str) -> None:
    wrong = error(text)
    assert wrong.message == message
    assert marked(wrong).startswith(points_at) and bool(marked(wrong)) == bool(points_at)
    assert hint in wrong.hint


def test_two_labels_of_one_kind() -> None:
    with pytest.raises(Exception, match="this transition has two labels of kind `guard`"):
        edge(label("guard", "x") + label("guard", "y"))
    assert edge(label("guard", "") + label("guard", "x")).guard == X
