"""Symbol tables: the names a model declares, and the scope at a place in it.

`declarations` fills the tables; the `resolve_*` modules look names up in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

from veristream.errors import ModelError, suggest
from veristream.ir.text.read_tree import Branch, Node, span_of
from veristream.languages.csp.syntax import Bound, Channel, Expr, Variable
from veristream.source import Source, Span


@dataclass(frozen=True, slots=True)
class Constant:
    """A named number; `boolean` is set if it is a truth value."""

    value: int
    boolean: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Define:
    """`#define name(parameters) body;`: a definition or macro, kept as a parse tree until it is used."""

    name: str
    parameters: tuple[str, ...]
    body: Node
    source: Source
    span: Span


@dataclass(frozen=True, slots=True)
class Array:
    """The elements of an array that a process binds, passes or sends, row by row."""

    elements: tuple[Expr, ...]
    shape: tuple[int, ...]


Field = tuple[str, int, int]
"""A channel, the number of fields that a message is written with, and the position of one of them."""


@dataclass(frozen=True, slots=True)
class Names:
    """All declarations of a model; the tables are filled while the declarations are read.

    `array_parameters`, by process and position, and `array_fields` have the shapes of what is an array.
    """

    kinds: dict[str, tuple[str, Span]] = field(default_factory=dict)
    constants: dict[str, Constant] = field(default_factory=dict)
    defines: dict[str, Define] = field(default_factory=dict)
    macros: dict[tuple[str, int], Define] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)  # the types of C# objects
    channels: dict[str, Channel] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)
    events: set[str] = field(default_factory=set)
    array_parameters: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    array_fields: dict[Field, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scope:
    """The meaning of names at a place in the model.

    `bound` holds the names that a process or macro binds, `local` the local variables of a program and
    `arrays` the shapes of the arrays among them. `taken` is the set of names already bound in or around
    the program; all scopes of one program share it, so that each local variable gets a unique name.
    `expanding` lists the definitions being expanded, to detect circular ones.
    """

    names: Names
    source: Source
    bound: Mapping[str, Expr | Array] = field(default_factory=dict)
    local: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    expanding: tuple[str, ...] = ()

    def span(self, branch: Branch) -> Span:
        """Returns the source span of a part of the parse tree."""
        return span_of(self.source, branch)

    def error(self, branch: Branch, message: str, hint: str = "") -> ModelError:
        """Returns a ModelError located at a part of the parse tree."""
        return ModelError(message, self.span(branch), hint)

    def binding(self, *names: str) -> Scope:
        """Returns this scope with more names bound."""
        return replace(self, bound={**self.bound, **{name: Bound(name) for name in names}})

    def binding_array(self, name: str, shape: tuple[int, ...]) -> Scope:
        """Returns this scope with an array bound to a name."""
        elements = tuple(Bound(element) for element in element_names(name, shape))
        return replace(self, bound={**self.bound, name: Array(elements, shape)})


def element_names(name: str, shape: tuple[int, ...]) -> list[str]:
    """Names the elements of an array that a process binds."""
    return [f"{name}[{position}]" for position in range(prod(shape))]


def declare(names: Names, name: str, kind: str, span: Span) -> None:
    """Records the kind of a name; raises ModelError if the name is already declared."""
    known = names.kinds.get(name)
    if known is not None and not (kind == known[0] == "macro"):
        before = known[1]
        place = f"line {before.line}" if before.source is span.source else before.place
        raise ModelError(
            f"`{name}` is already declared as a {known[0]}, see {place}", span, "rename one of them"
        )
    names.kinds[name] = (kind, span)


def check_fresh(scope: Scope, branch: Branch, name: str, what: str) -> None:
    """Raises ModelError if binding a name would hide another, which PAT rejects too."""
    if name in scope.bound or name in scope.local:
        raise scope.error(branch, f"`{name}` is already bound here", f"give this {what} another name")
    kind = scope.names.kinds.get(name, ("", None))[0]
    if kind in {"constant", "variable", "definition", "C# object"}:
        raise scope.error(
            branch, f"`{name}` is already declared as a {kind}", f"give this {what} another name"
        )


def unknown(scope: Scope, branch: Branch, name: str) -> ModelError:
    """Returns the ModelError for a name that has no value in this scope."""
    names = scope.names
    if name in names.channels:
        hint = f"query a channel with `call(ccount, {name})`, `call(cempty, {name})` and so on"
        return scope.error(branch, f"`{name}` is a channel, not a value", hint)
    if name in names.objects:
        hint = f"call a method of it: `{name}.Count()`"
        return scope.error(branch, f"`{name}` is a {names.objects[name]}, not a value", hint)
    if name in names.processes:
        return scope.error(
            branch, f"`{name}` is a process, not a value", "a process can only follow `->` or an operator"
        )
    if names.kinds.get(name, ("", None))[0] == "variable":
        return scope.error(branch, f"`{name}` is used before its declaration", "move its declaration up")
    candidates = [*scope.bound, *scope.local, *names.constants, *names.defines, *names.variables]
    hint = suggest(name, candidates, f"declare it: `var {name} = 0;` or `#define {name} 0;`")
    return scope.error(branch, f"cannot find `{name}` in this scope", hint)
