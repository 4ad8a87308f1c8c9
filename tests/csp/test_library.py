"""Objects of PAT's C# library, against lists, sets and dictionaries of Python.

A model performs the operations in any order. Each is also a function of Python, which returns the next
state or None where the operation is disabled; the states and steps that they reach are counted.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from pathlib import Path

import pytest

import veristream as vs
from tests.csp.texts import counts, read
from veristream.errors import ModelError
from veristream.languages.csp.lower.network import read_models
from veristream.source import Source
from veristream.verdict import Unknown, word

Items = tuple[int, ...]
State = tuple[Items, int]
"""The elements of the object `o`, and the variable `v`."""


def sorted_with(items: Items, value: int) -> Items:
    found = list(items)
    if value not in found:
        insort(found, value)
    return tuple(found)


def without(items: Items, value: int) -> Items:
    """Returns the items without the first one that has the value."""
    found = list(items)
    if value in found:
        found.remove(value)
    return tuple(found)


def inserted(items: Items, at: int, value: int) -> Items:
    return (*items[:at], value, *items[at:])


Operation = tuple[str, Callable[[Items, int], State | None]]

OPERATIONS: dict[str, list[Operation]] = {
    "List": [
        ("[o.Count() < 4] a{o.Add(1);}", lambda o, v: ((*o, 1), v) if len(o) < 4 else None),
        ("[o.Count() < 4] b{o.Add(v + 2);}", lambda o, v: ((*o, v + 2), v) if len(o) < 4 else None),
        (
            "[o.Count() < 4 && o.Count() > 0] c{o.Insert(1, 3);}",
            lambda o, v: (inserted(o, 1, 3), v) if 0 < len(o) < 4 else None,
        ),
        ("d{o.Remove(1);}", lambda o, v: (without(o, 1), v)),
        (
            "[o.Count() > 1] e{o.RemoveAt(o.Count() - 2);}",
            lambda o, v: ((*o[:-2], o[-1]), v) if len(o) > 1 else None,
        ),
        ("[o.Contains(3)] f{o.Clear();}", lambda o, v: ((), v) if 3 in o else None),
        (
            "[o.Count() > 2] g{o.Set(2, o.Get(0));}",
            lambda o, v: ((*o[:2], o[0], *o[3:]), v) if len(o) > 2 else None,
        ),
        ("h{v = o.Contains(2);}", lambda o, v: (o, int(2 in o))),
    ],
    "Queue": [
        ("[o.Count() < 3] a{o.Enqueue(1);}", lambda o, v: ((*o, 1), v) if len(o) < 3 else None),
        ("[o.Count() < 3] b{o.Enqueue(0 - 2);}", lambda o, v: ((*o, -2), v) if len(o) < 3 else None),
        ("[o.Count() > 0] c{o.Dequeue();}", lambda o, v: (o[1:], v) if o else None),
        ("[o.Count() > 0] d{v = o.First();}", lambda o, v: (o, o[0]) if o else None),
        ("[o.Count() > 0] e{v = o.Last();}", lambda o, v: (o, o[-1]) if o else None),
        ("[o.Contains(v)] f{o.Clear();}", lambda o, v: ((), v) if v in o else None),
        ("[o.Count() > 0] g{v = o.Dequeue();}", lambda o, v: (o[1:], o[0]) if o else None),
    ],
    "Stack": [
        ("[o.Count() < 3] a{o.Push(o.Count());}", lambda o, v: ((*o, len(o)), v) if len(o) < 3 else None),
        ("[o.Count() < 3] b{o.Push(v);}", lambda o, v: ((*o, v), v) if len(o) < 3 else None),
        ("[o.Count() > 0] c{o.Pop();}", lambda o, v: (o[:-1], v) if o else None),
        ("[o.Count() > 0] d{v = o.Pop();}", lambda o, v: (o[:-1], o[-1]) if o else None),
        ("[o.Count() > 1] e{v = o.Peek();}", lambda o, v: (o, o[-1]) if len(o) > 1 else None),
        ("[o.Contains(2)] f{o.Clear();}", lambda o, v: ((), v) if 2 in o else None),
    ],
    "Set": [
        ("a{o.Add(2);}", lambda o, v: (sorted_with(o, 2), v)),
        ("b{o.Add(0 - 1);}", lambda o, v: (sorted_with(o, -1), v)),
        ("c{v = o.Add(1);}", lambda o, v: (sorted_with(o, 1), int(1 not in o))),
        ("d{o.Remove(2);}", lambda o, v: (without(o, 2), v)),
        ("e{v = o.Remove(0 - 1);}", lambda o, v: (without(o, -1), int(-1 in o))),
        ("[o.Count() > 1] f{v = o.Get(1);}", lambda o, v: (o, o[1]) if len(o) > 1 else None),
        ("[o.Contains(v)] g{o.Clear();}", lambda o, v: ((), v) if v in o else None),
    ],
}


def reached(operations: list[Operation]) -> tuple[int, int]:
    """Returns the number of states and steps that the functions reach."""
    start: State = ((), 0)
    seen, waiting, steps = {start}, [start], 0
    while waiting:
        items, v = waiting.pop()
        for _, operation in operations:
            after = operation(items, v)
            if after is not None:
                steps += 1
                if after not in seen:
                    seen.add(after)
                    waiting.append(after)
    return len(seen), steps


def model(type_: str, *branches: str) -> str:
    body = " [] ".join(f"{branch} -> P()" for branch in branches)
    return f'#import "PAT.Lib.{type_}";\nvar<{type_}> o;\nvar v = 0;\nP() = {body};'


@pytest.mark.parametrize("type_", OPERATIONS)
def test_objects_are_those_of_python(type_: str) -> None:
    operations = OPERATIONS[type_]
    expected = reached(operations)
    assert expected[0] >= 20
    assert counts(model(type_, *(text for text, _ in operations))) == expected


def test_a_table_keeps_the_first_value_of_a_key() -> None:
    # Keys 5 and 1 each have no value or one of two: 9 tables. Each step adds a key or does nothing.
    steps = [f"a.{key}.{value}{{o.Add({key}, {value});}}" for key in (5, 1) for value in (7, 8)]
    assert counts(model("HashTable", *steps)) == (9, 36)
    # Then v is the value of 5, in the 6 tables that have it: of 0, and 7 in 3 tables or 8 in 3 others.
    read_it = "[o.ContainsKey(5)] g{v = o.GetValue(5);}"
    assert counts(model("HashTable", *steps, read_it)) == (15, 15 * 4 + 12)


def test_objects_in_conditions_formulas_and_events() -> None:
    text = """#import "PAT.Lib.Queue";
    var<Queue> q = new Queue();
    #define full q.Count() == 2;
    #define put {q.Enqueue(q.Count() + 4);};
    P() = [!full] in{put;} -> P() [] [q.Count() > 0] out.q.First(){q.Dequeue();} -> P();
    #assert P() reaches full;
    #assert P() |= [] (full -> X !full);
    #assert P() |= [] (out.5 -> X in);
    #assert P() deadlockfree;
    """
    # After out.5 of [5, 5], another out.5 is possible.
    found = {one.property: one for one in vs.check(read_models(Source("m.csp", text), {})[0])}
    assert [word(one.verdict) for one in found.values()] == ["holds", "holds", "violated", "holds"]


@pytest.mark.parametrize(
    ("type_", "step", "message"),
    [
        ("List", "a{o.Add(1);}", "33 is outside the range 0..32 of o__count"),
        ("List", "a{v = o.Get(0);}", "index 32 is outside 0..31 of o__items"),
        ("List", "a{o.RemoveAt(0);}", "index 32 is outside 0..31 of o__items"),
        ("Queue", "a{o.Dequeue();}", "-1 is outside the range 0..32 of o__count"),
        ("Stack", "a{v = o.Peek();}", "index -1 is outside 0..31 of o__items"),
        ("HashTable", "a{v = o.GetValue(1);}", "index 32 is outside 0..31 of o__values"),
    ],
)
def test_a_wrong_access_is_a_run_time_error_at_the_call(type_: str, step: str, message: str) -> None:
    text = model(type_, step)
    (result,) = vs.check(read_models(Source("m.csp", text), {})[0])
    assert isinstance(result.verdict, Unknown) and result.verdict.fault is not None
    assert result.verdict.fault.message == message
    assert result.verdict.fault.span.place.startswith("m.csp:4:")


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('#import "PAT.Math";\nP = Skip;', "the C# library PAT.Math is not supported", "PAT.Lib.List"),
        ("var<Lists> l;\nP = Skip;", "the C# type Lists is not supported", "did you mean `List`?"),
        ("var<List> l[2];\nP = Skip;", "an array of objects is not supported", "var<List> l0, l1;"),
        ("var<List> l = new List(3);\nP = Skip;", "a List starts empty", "var<List> l;"),
        (
            "var<Set> s;\nP = a{s.Union(1);} -> Skip;",
            "the member Union of Set is not supported",
            "Contains",
        ),
        ("var<Set> s;\nP = a{t.Add(1);} -> Skip;", "`t` is no object of the library", "declare it"),
        ("var<Set> s;\nP = a{s.Add();} -> Skip;", "Set.Add takes 1 argument, not 0", ""),
        ("var<Set> s;\nP = [s.Add(1)] Skip;", "Add changes `s`", "{x = s.Add(...);}"),
        ("var<Set> s;\nP = a{s.Count();} -> Skip;", "this statement has no effect", "only returns"),
        (
            "var<List> s;\nvar x;\nP = a{x = s.Add(1);} -> Skip;",
            "Add returns nothing",
            "`s.Add(...);` alone",
        ),
        ("var<List> s;\nP = a.s -> Skip;", "`s` is a List, not a value", "s.Count()"),
        ("var<List> s;\nvar s;\nP = Skip;", "`s` is already declared as a C# object", "rename"),
    ],
)
def test_what_is_not_supported_is_named(text: str, message: str, hint: str) -> None:
    with pytest.raises(ModelError) as raised:
        read(text)
    assert message in raised.value.message
    assert hint in raised.value.hint


def test_a_class_beside_the_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.csp").write_text('#import "PAT.Lib.List";\nvar<List> l;\nP = Skip;\n', encoding="utf-8")
    assert vs.load(tmp_path / "m.csp").name == "P"
    (tmp_path / "List.cs").write_text("namespace PAT.Lib {}\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"`List.cs` beside the model is C#, which is not supported"):
        vs.load(tmp_path / "m.csp")
