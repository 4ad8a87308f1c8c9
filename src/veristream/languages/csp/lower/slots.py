"""Canonical terms: replaces values known only at run time by numbered slots, and detects growing terms.

`automata` gives each canonical term a location; the slots become variables of the component.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from veristream.errors import ModelError
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.expressions import bound_names, names_of_program, put_in, reads_state
from veristream.languages.csp.lower.terms import Forked, Running, Term, instantiate

NESTING_MAX = 60


Widened = frozenset[tuple[str, int]]
"""The parameters, by process and position, that are kept in slots even if their values are known."""


@dataclass(slots=True)
class _Slots:
    """The slots allocated so far, in the order of first use."""

    widened: Widened
    values: list[csp.Expr] = field(default_factory=list)
    names: dict[str, csp.Expr] = field(default_factory=dict)

    def add(self, value: csp.Expr) -> csp.Expr:
        self.values.append(value)
        return csp.Bound(slot_name(len(self.values) - 1), span=value.span)

    def of(self, name: str) -> csp.Expr:
        if name not in self.names:
            self.names[name] = self.add(csp.Bound(name))
        return self.names[name]


def slot_name(position: int) -> str:
    """Returns the bound name that stands for a slot in a canonical term."""
    return f"${position}"


def other_slot_name(position: int) -> str:
    """Returns the bound name of a slot of the second of two members that meet."""
    return f"$'{position}"


def canonical(term: Term, widened: Widened = frozenset()) -> tuple[Term, tuple[csp.Expr, ...]]:
    """Returns the term with slots 0, 1, ... in place of its bound names, and the value of each slot.

    Each argument of a leading reference has a slot of its own, since PAT prints its value there; every
    other name has one slot for all its occurrences.
    """
    slots = _Slots(widened)
    return _canonical(term, slots), tuple(slots.values)


def _canonical(term: Term, slots: _Slots) -> Term:
    match term:
        case csp.Ref(arguments=arguments):
            new = tuple(
                _argument(argument, slots, (term.name, position) in slots.widened)
                for position, argument in enumerate(arguments)
            )
            return replace(term, arguments=new)
        case csp.Sequence(first=first, second=second):
            head = cast("csp.Process", _canonical(first, slots))
            return replace(term, first=head, second=_rename(second, slots))
        case csp.Atomic(process=inner) | csp.Hide(process=inner):
            return replace(term, process=cast("csp.Process", _canonical(inner, slots)))
        case Running(branches=branches, endless=endless):
            shown = tuple(_canonical(branch, slots) for branch in _written(term, branches))
            more = None if endless is None else _canonical(endless, slots)
            return (
                replace(term, branches=shown, endless=more) if shown or more else csp.Skip(span=term.span)
            )
        case csp.Parallel(branches=parts):
            done = tuple(cast("csp.Process", _canonical(part, slots)) for part in parts)
            return replace(term, branches=done)
        case csp.Interrupt(process=inner, by=by):
            body = cast("csp.Process", _canonical(inner, slots))
            return replace(term, process=body, by=_rename(by, slots))
        case _:
            return _rename(cast("csp.Process", term), slots)


def _written(term: Running, branches: tuple[Term, ...]) -> Iterator[Term]:
    """Yields the branches that PAT prints: it flattens interleavings and drops terminated branches."""
    for branch in branches:
        if not term.interleave or term.bag:
            yield branch
        elif isinstance(branch, csp.Parallel | Running) and branch.interleave:
            yield from _written(term, branch.branches)
        elif not isinstance(branch, csp.Skip):
            yield branch


def _argument(argument: csp.Expr, slots: _Slots, widened: bool) -> csp.Expr:
    names = list(bound_names(argument))
    if not names and not (widened and isinstance(argument, csp.Number)):
        return argument
    if reads_state(argument):  # PAT evaluates it when the reference takes a step
        return put_in(argument, {name: slots.of(name) for name in names})
    return slots.add(argument)


def _rename(process: csp.Process, slots: _Slots) -> csp.Process:
    names = list(dict.fromkeys(free_names(process)))
    if not names:
        return process
    return instantiate(process, {name: slots.of(name) for name in names})


def free_names(process: Term) -> Iterator[str]:
    """Yields the free names of a term in textual order."""
    match process:
        case csp.Stop() | csp.Skip() | Forked():
            return
        case csp.Ref(arguments=arguments):
            yield from _names(arguments)
        case csp.Prefix(event=event, program=program, then=then):
            yield from _names(() if event is None else event.arguments)
            yield from names_of_program(program or ())
            yield from free_names(then)
        case csp.Output(indices=indices, values=sent, program=program, then=then):
            yield from _names(indices + sent)
            yield from names_of_program(program or ())
            yield from free_names(then)
        case csp.Input():
            yield from _names_of_input(process)
        case csp.Choice(branches=branches) | csp.Parallel(branches=branches):
            for branch in branches:
                yield from free_names(branch)
        case Running(branches=parts, endless=endless):
            for part in parts:
                yield from free_names(part)
            if endless is not None:
                yield from free_names(endless)
        case csp.Copies(body=body):
            yield from free_names(body)
        case csp.Guard(condition=condition, process=inner):
            yield from bound_names(condition)
            yield from free_names(inner)
        case csp.Conditional(condition=condition, then=then, otherwise=otherwise):
            yield from bound_names(condition)
            yield from free_names(then)
            yield from free_names(otherwise)
        case csp.Case(branches=cases, default=default):
            for test, branch in cases:
                yield from bound_names(test)
                yield from free_names(branch)
            yield from free_names(default)
        case csp.Atomic(process=inner) | csp.Hide(process=inner):
            yield from free_names(inner)
        case csp.Sequence(first=first, second=second):
            yield from free_names(first)
            yield from free_names(second)
        case csp.Interrupt(process=inner, by=by):
            yield from free_names(inner)
            yield from free_names(by)
        case csp.Assert(condition=condition):
            yield from bound_names(condition)
        case csp.Replicated():
            raise AssertionError("expanded by instantiate")


def _names(exprs: Iterable[csp.Expr]) -> Iterator[str]:
    for expr in exprs:
        yield from bound_names(expr)


def _names_of_input(process: csp.Input) -> Iterator[str]:
    binders = {part.name for part in process.fields if isinstance(part, csp.Binder)}
    yield from _names(process.indices)
    yield from _names(part for part in process.fields if not isinstance(part, csp.Binder))
    inner: list[str] = []
    if process.condition is not None:
        inner += bound_names(process.condition)
    inner += names_of_program(process.program or ())
    inner += free_names(process.then)
    yield from (name for name in inner if name not in binders)


def forked_number(term: Term) -> int | None:
    """Returns the number of the composition that the term has forked, or None."""
    while True:
        match term:
            case Forked(number=number):
                return number
            case csp.Hide(process=inner) | csp.Atomic(process=inner) | csp.Interrupt(process=inner):
                term = inner
            case csp.Sequence(first=inner):
                term = inner
            case _:
                return None


class GrowthError(ModelError):
    """A term is so large that recursion must be growing it."""


def refuse_growth(term: Term) -> None:
    """Raises GrowthError if a term is nested so deeply that recursion must be growing it."""
    layer: list[Term] = [term]
    for _ in range(NESTING_MAX):
        layer = [part for one in layer for part in _heads(one)]
        if not layer:
            return
    raise GrowthError(
        "this process grows without bound: it does not recurse in the last place",
        layer[0].span,
        "recurse in the last place: `P = a -> Skip; P`, not `P = (a -> P); Skip`",
    )


def _heads(term: Term) -> tuple[Term, ...]:
    """Returns the subterms that take steps while the operator around them remains."""
    match term:
        case csp.Sequence(first=first):
            return (first,)
        case csp.Interrupt(process=inner, by=by):
            return (inner, by)
        case csp.Hide(process=inner) | csp.Atomic(process=inner):
            return (inner,)
        case Running(branches=parts):
            return parts
        case csp.Parallel(branches=branches) | csp.Choice(kind="external", branches=branches):
            return branches
        case _:
            return ()
