"""The names of a file with what it includes, and what is known of them at a place in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from veristream.errors import ModelError
from veristream.ir.text.read_tree import Branch, Node, span_of, suggest
from veristream.languages.csp.syntax import Bound, Channel, Expr, Variable
from veristream.source import Source, Span


@dataclass(frozen=True, slots=True)
class Constant:
    """A number with a name; `boolean` says that it is true or false."""

    value: int
    boolean: bool
    span: Span


@dataclass(frozen=True, slots=True)
class Define:
    """`#define name(parameters) body;`: text that stands for the name, kept as it was parsed."""

    name: str
    parameters: tuple[str, ...]
    body: Node
    source: Source
    span: Span


@dataclass(frozen=True, slots=True)
class Names:
    """All that is declared; the tables grow while declarations are read, in the order of need."""

    kinds: dict[str, tuple[str, Span]] = field(default_factory=dict)
    constants: dict[str, Constant] = field(default_factory=dict)
    defines: dict[str, Define] = field(default_factory=dict)
    macros: dict[tuple[str, int], Define] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)
    channels: dict[str, Channel] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)
    events: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Scope:
    """What names mean at a place.

    `bound` holds what a process or macro binds; `local` the local variables of a program, `arrays` the
    arrays among them with their sizes. `taken` are the names that are bound around or in the program so
    far: it is shared by all places of one program, so that each variable gets a name of its own.
    """

    names: Names
    source: Source
    bound: Mapping[str, Expr] = field(default_factory=dict)
    local: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    expanding: tuple[str, ...] = ()

    def span(self, branch: Branch) -> Span:
        """The characters that a part of the tree was read from."""
        return span_of(self.source, branch)

    def error(self, branch: Branch, message: str, hint: str = "") -> ModelError:
        """A ModelError at a part of the tree."""
        return ModelError(message, self.span(branch), hint)

    def binding(self, *names: str) -> Scope:
        """The scope in which these names are bound too."""
        return replace(self, bound={**self.bound, **{name: Bound(name) for name in names}})


def declare(names: Names, name: str, kind: str, span: Span) -> None:
    """Notes what a name is; raises ModelError where it is something already."""
    known = names.kinds.get(name)
    if known is not None and not (kind == known[0] == "macro"):
        before = known[1]
        place = f"line {before.line}" if before.source is span.source else before.place
        raise ModelError(
            f"`{name}` is already the name of a {known[0]}, see {place}", span, "rename one of them"
        )
    names.kinds[name] = (kind, span)


def check_fresh(scope: Scope, branch: Branch, name: str, what: str) -> None:
    """Raises ModelError where a name that is to be bound would hide another; PAT refuses that too."""
    if name in scope.bound or name in scope.local:
        raise scope.error(branch, f"`{name}` is bound here already", f"give this {what} another name")
    kind = scope.names.kinds.get(name, ("", None))[0]
    if kind in {"constant", "variable", "definition"}:
        raise scope.error(
            branch, f"`{name}` is already the name of a {kind}", f"give this {what} another name"
        )


def unknown(scope: Scope, branch: Branch, name: str) -> ModelError:
    """The ModelError of a name that means nothing in an expression."""
    names = scope.names
    if name in names.channels:
        hint = f"a channel is asked by `call(ccount, {name})`, `call(cempty, {name})` and the like"
        return scope.error(branch, f"`{name}` is a channel, not a value", hint)
    if name in names.processes:
        return scope.error(
            branch, f"`{name}` is a process, not a value", "processes stand after `->` or an operator"
        )
    if names.kinds.get(name, ("", None))[0] == "variable":
        return scope.error(branch, f"`{name}` is declared only later", "declare it before it is used here")
    candidates = [*scope.bound, *scope.local, *names.constants, *names.defines, *names.variables]
    hint = suggest(name, candidates, f"declare it: `var {name} = 0;` or `#define {name} 0;`")
    return scope.error(branch, f"`{name}` is not known here", hint)
