"""PAT's C# library: List, Queue, Stack, Set and HashTable of integers, written as CSP#.

An object is declared as an array of its elements with their number, and each method as a macro. Elements
beyond the number are 0, and sets and tables are sorted, so that equal objects are equal states. In the
texts below, `~` begins a name that belongs to the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SIZE = 32
"""The maximum number of elements of an object; one more is a run-time error."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method as macros: the `value` that it returns, the `program` that changes the object, or both."""

    parameters: tuple[str, ...] = ()
    value: str = ""
    program: str = ""


_APPEND = "var ~e = ~x; ~count = ~count + 1; ~items[~count - 1] = ~e;"
_CUT = """~count = ~count - 1;
    while (~k < ~count) { ~items[~k] = ~items[~k + 1]; ~k = ~k + 1; }
    ~items[~k] = 0;"""
_REMOVE = f"""var ~e = ~x; var ~k = 0;
    while (~k < ~count && ~items[~k] != ~e) {{ ~k = ~k + 1; }}
    if (~k < ~count) {{ {_CUT} }}"""
_AT = f"~items[~x + {SIZE} * (~x >= ~count)]"  # an index that is too large is one outside of the array
_CONTAINS = f"|| ~i:{{0..{SIZE - 1}}}@(~i < ~count && ~items[~i] == ~x)"
_FIND = " + ".join(f"{at} * ({at} < ~count && ~items[{at}] == ~x)" for at in range(SIZE))
_X, _XY = ("~x",), ("~x", "~y")

_COUNT = {"Count": Method(value="~count")}
_COMMON = {
    **_COUNT,
    "Contains": Method(_X, value=_CONTAINS),
    "Clear": Method(program="while (~count > 0) { ~count = ~count - 1; ~items[~count] = 0; }"),
}
_TYPES: Mapping[str, Mapping[str, Method]] = {
    "List": {
        **_COMMON,
        "Add": Method(_X, program=_APPEND),
        "Get": Method(_X, value=_AT),
        "Set": Method(_XY, program=f"var ~e = ~y; {_AT} = ~e;"),
        "Insert": Method(
            _XY,
            program=f"""var ~k = ~x; var ~e = ~y; ~count = ~count + 1; var ~j = ~count - 1;
            while (~j > ~k) {{ ~items[~j] = ~items[~j - 1]; ~j = ~j - 1; }}
            ~items[~k + {SIZE} * (~k >= ~count)] = ~e;""",
        ),
        "Remove": Method(_X, program=_REMOVE),
        "RemoveAt": Method(_X, program=f"var ~k = ~x; ~items[~k + {SIZE} * (~k >= ~count)] = 0; {_CUT}"),
    },
    "Queue": {
        **_COMMON,
        "Enqueue": Method(_X, program=_APPEND),
        "Dequeue": Method(value=f"~items[{SIZE} * (~count == 0)]", program=f"var ~k = 0; {_CUT}"),
        "First": Method(value=f"~items[{SIZE} * (~count == 0)]"),
        "Last": Method(value="~items[~count - 1]"),
    },
    "Stack": {
        **_COMMON,
        "Push": Method(_X, program=_APPEND),
        "Pop": Method(value="~items[~count - 1]", program="~count = ~count - 1; ~items[~count] = 0;"),
        "Peek": Method(value="~items[~count - 1]"),
    },
    "Set": {
        **_COMMON,
        "Add": Method(
            _X,
            value="!call(~Contains, ~x)",
            program="""var ~e = ~x;
            if (!call(~Contains, ~e)) {
                ~count = ~count + 1; var ~k = ~count - 1;
                while (~k > 0 && ~items[~k - 1] > ~e) { ~items[~k] = ~items[~k - 1]; ~k = ~k - 1; }
                ~items[~k] = ~e;
            }""",
        ),
        "Remove": Method(_X, value="call(~Contains, ~x)", program=_REMOVE),
        "Get": Method(_X, value=_AT),
    },
    "HashTable": {
        **_COUNT,
        "ContainsKey": Method(_X, value=_CONTAINS),
        "GetValue": Method(_X, value=f"~values[{SIZE} * (!call(~ContainsKey, ~x)) + {_FIND}]"),
        "Add": Method(
            _XY,
            program="""var ~e = ~x; var ~f = ~y;
            if (!call(~ContainsKey, ~e)) {
                ~count = ~count + 1; var ~k = ~count - 1;
                while (~k > 0 && ~items[~k - 1] > ~e) {
                    ~items[~k] = ~items[~k - 1]; ~values[~k] = ~values[~k - 1]; ~k = ~k - 1;
                }
                ~items[~k] = ~e; ~values[~k] = ~f;
            }""",
        ),
    },
}
TYPES = tuple(_TYPES)
MODULES = {f"PAT.Lib.{name}": name for name in TYPES}
"""What `#import` names, with the type that it brings."""


def methods_of(type_: str) -> Mapping[str, Method]:
    """Returns the methods of a type of the library."""
    return _TYPES[type_]


def macro_name(name: str, method: str, *, program: bool = False) -> str:
    """Names the macro of a method of an object: what it returns, or what it does."""
    return f"{name}__{method}{'__do' if program else ''}"


def declarations_of(name: str, type_: str) -> str:
    """Returns the declarations of an object in CSP#."""
    more = f"var ~values[{SIZE}];" if type_ == "HashTable" else ""
    lines = [f"var ~items[{SIZE}]; {more} var ~count:{{0..{SIZE}}} = 0;"]
    for word, method in _TYPES[type_].items():
        given = f"({', '.join(method.parameters)})" if method.parameters else ""
        if method.value:
            lines.append(f"#define ~{word}{given} ({method.value});")
        if method.program:
            lines.append(f"#define ~{word}__do{given} {{ {method.program} }};")
    return "\n".join(lines).replace("~", f"{name}__")
