"""Process terms: instances of definitions, in the form that PAT writes them.

A term is a process with its parameters' values put in. A value that is known only at run time (it
was received, or was computed from a global variable) is a bound name; `canonical` gives those names
in the order they are first used, so that one location of a component stands for all their values.

`Running` is a parallel composition that has begun; it exists only in terms, not in the syntax.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from veristream.errors import ModelError
from veristream.languages.csp.expressions import (
    Values,
    bound_names,
    names_of_program,
    put_in,
    put_in_program,
    reads_state,
)
from veristream.languages.csp.syntax import (
    Assert,
    Atomic,
    Binder,
    Bound,
    Case,
    Choice,
    ChoiceKind,
    Conditional,
    Copies,
    Domain,
    Event,
    Events,
    Expr,
    Guard,
    Hide,
    Index,
    Input,
    Interrupt,
    Number,
    Output,
    Parallel,
    Prefix,
    Process,
    Program,
    Ref,
    Replicated,
    Sequence,
    Skip,
    Stop,
)
from veristream.source import NOWHERE, Span

COPIES_MAX = 4
"""How many copies of `|||{..}@P` run at a time."""
BRANCHES_MAX = 4096

Name = tuple[str, tuple[int, ...]]
"""An event with the values of its arguments."""
Alphabet = frozenset[Name]


@dataclass(frozen=True, slots=True)
class Running:
    """A parallel composition under way; for `||` the alphabets of its branches, fixed at its start.

    `origin` are the branches as they were then: a component is called after them. A `bag` is an
    interleaving that began with equal branches: their order does not matter from then on. `endless` is
    the process that `|||{..}@P` has any number of copies of; at most `COPIES_MAX` run at a time.
    """

    interleave: bool
    branches: tuple[Term, ...]
    alphabets: tuple[Alphabet, ...]
    origin: tuple[Term, ...] = field(compare=False, repr=False)
    bag: bool = False
    endless: Term | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Term = Process | Running


def instantiate(process: Term, values: Values) -> Process:
    """The process with the values in it, its indexed forms written out."""
    match process:
        case Stop() | Skip():
            return process
        case Running(branches=parts):
            begun = tuple(instantiate(part, values) for part in parts)
            more = None if process.endless is None else instantiate(process.endless, values)
            return cast("Process", replace(process, branches=begun, endless=more))
        case Ref(arguments=arguments):
            return replace(process, arguments=_all(arguments, values))
        case Prefix(event=event, program=program, then=then):
            return replace(
                process,
                event=None if event is None else _event(event, values),
                program=_program(program, values),
                then=instantiate(then, values),
            )
        case Output() | Input():
            return _communication(process, values)
        case Choice(kind=kind, branches=branches):
            return choice(kind, [instantiate(branch, values) for branch in branches], process.span)
        case Guard(condition=condition, process=inner):
            return replace(process, condition=put_in(condition, values), process=instantiate(inner, values))
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            return replace(
                process,
                condition=put_in(condition, values),
                then=instantiate(then, values),
                otherwise=instantiate(otherwise, values),
            )
        case Case(branches=cases, default=default):
            new = tuple((put_in(test, values), instantiate(branch, values)) for test, branch in cases)
            return replace(process, branches=new, default=instantiate(default, values))
        case Atomic(process=inner):
            return atomic(instantiate(inner, values), process.span)
        case Sequence(first=first, second=second):
            return sequence(instantiate(first, values), instantiate(second, values), process.span)
        case Parallel(interleave=interleave, branches=branches):
            return parallel(interleave, [instantiate(branch, values) for branch in branches], process.span)
        case Replicated():
            return _replicated(process, values)
        case Copies(count=count, body=body):
            return _copies(process, count, instantiate(body, values), values)
        case Interrupt(process=inner, by=by):
            return replace(process, process=instantiate(inner, values), by=instantiate(by, values))
        case Hide(process=inner, events=events):
            hidden = tuple(event for each in events for event in write_out(each, values))
            return hide(instantiate(inner, values), hidden, process.span)
        case Assert(condition=condition):
            return replace(process, condition=put_in(condition, values))


def _all(exprs: Iterable[Expr], values: Values) -> tuple[Expr, ...]:
    return tuple(put_in(expr, values) for expr in exprs)


def _program(program: Program | None, values: Values) -> Program | None:
    return None if program is None else put_in_program(program, values)


def _event(event: Event, values: Values) -> Event:
    return replace(event, arguments=_all(event.arguments, values))


def _communication(process: Output | Input, values: Values) -> Process:
    indices, then = _all(process.indices, values), instantiate(process.then, values)
    program = _program(process.program, values)
    if isinstance(process, Output):
        sent = _all(process.values, values)
        return replace(process, indices=indices, values=sent, program=program, then=then)
    fields = tuple(part if isinstance(part, Binder) else put_in(part, values) for part in process.fields)
    condition = None if process.condition is None else put_in(process.condition, values)
    return replace(process, indices=indices, fields=fields, condition=condition, program=program, then=then)


def _replicated(process: Replicated, values: Values) -> Process:
    branches = [instantiate(process.body, one) for one in assignments(process.indices, values)]
    if not branches:
        raise ModelError(
            "the indices have no value at all", process.span, "give each index a set that is not empty"
        )
    match process.operator:
        case "interleave" | "parallel":
            return parallel(process.operator == "interleave", branches, process.span)
        case "sequence":
            result = branches[-1]
            for branch in reversed(branches[:-1]):
                result = sequence(branch, result, process.span)
            return result
        case "general" | "external" | "internal":
            return choice(process.operator, branches, process.span)


def _copies(process: Copies, count: Expr | None, body: Process, values: Values) -> Process:
    if count is None:
        return replace(process, body=body)
    size = constant(put_in(count, values), "the number of copies")
    if not 0 < size <= BRANCHES_MAX:
        raise ModelError(
            f"there cannot be {size} copies", process.span, f"give a number from 1 to {BRANCHES_MAX}"
        )
    return parallel(True, [body] * size, process.span)


def constant(expr: Expr, what: str) -> int:
    """The number that an expression without unknown names is."""
    if isinstance(expr, Number):
        return expr.value
    raise ModelError(
        f"{what} must be known before the run", expr.span, "use constants and parameters with known values"
    )


def assignments(indices: tuple[Index, ...], values: Values) -> Iterator[dict[str, Expr]]:
    """The values with those of the indices, the last index fastest; a range may use earlier indices."""
    if not indices:
        yield dict(values)
        return
    first, *rest = indices
    for number in _members(first.domain, values):
        yield from assignments(tuple(rest), {**values, first.name: Number(number)})


def _members(domain: Domain, values: Values) -> Iterable[int]:
    if domain.low is None or domain.high is None:
        return [constant(put_in(value, values), "a value of an index") for value in domain.values]
    low = constant(put_in(domain.low, values), "the range of an index")
    high = constant(put_in(domain.high, values), "the range of an index")
    if high - low >= BRANCHES_MAX:
        raise ModelError(
            f"the range {low}..{high} is too large to be written out", domain.span, "make it smaller"
        )
    return range(low, high + 1)


def write_out(events: Events, values: Values) -> Iterator[Events]:
    """One entry for each event that the entry stands for."""
    for one in assignments(events.indices, values):
        yield Events(_event(events.event, one))


def names_of(events: Iterable[Events], what: str) -> Alphabet:
    """The names of events that were written out."""
    out: set[Name] = set()
    for one in events:
        out.add((one.event.name, tuple(constant(each, what) for each in one.event.arguments)))
    return frozenset(out)


# --- Written forms ----------------------------------------------------------------------------------


def is_skip(term: Term) -> bool:
    """Whether the term terminates at once and a sequence after it simply begins."""
    match term:
        case Skip():
            return True
        case Atomic(process=inner):
            return is_skip(inner)
        case Sequence(first=first, second=second):
            return is_skip(first) and is_skip(second)
        case Choice(kind="general" | "external", branches=branches):
            return all(is_skip(branch) for branch in branches)
        case Parallel(interleave=True, branches=parts) | Running(interleave=True, branches=parts):
            return all(is_skip(branch) for branch in parts)
        case _:
            return False


def sequence(first: Term, second: Process, span: Span) -> Process:
    """`first; second`, which is `second` where the first is Skip and Stop where it is Stop."""
    if is_skip(first):
        return second
    if isinstance(first, Stop) or (isinstance(first, Atomic) and isinstance(first.process, Stop)):
        return Stop(span)
    return Sequence(cast("Process", first), second, span)


def choice(kind: ChoiceKind, branches: Iterable[Process], span: Span) -> Process:
    """The choice as it begins: without branches that are Stop."""
    if kind == "internal":
        return Choice(kind, tuple(branches), span)
    able = tuple(branch for branch in branches if not isinstance(branch, Stop))
    if not able:
        return Stop(span)
    return external(able, span) if kind == "external" else Choice(kind, able, span)


def external(branches: Iterable[Process], span: Span) -> Process:
    """An external choice: flat, without duplicates, in whatever order."""
    flat: list[Process] = []
    for branch in branches:
        within = isinstance(branch, Choice) and branch.kind == "external"
        flat += branch.branches if within and isinstance(branch, Choice) else (branch,)
    flat = sorted(dict.fromkeys(flat), key=repr)
    return flat[0] if len(flat) == 1 else Choice("external", tuple(flat), span)


def parallel(interleave: bool, branches: Iterable[Process], span: Span) -> Process:
    """The composition; interleavings of interleavings are flat."""
    flat: list[Process] = []
    for branch in branches:
        if interleave and isinstance(branch, Parallel) and branch.interleave:
            flat += branch.branches
        else:
            flat.append(branch)
    if len(flat) > BRANCHES_MAX:
        raise ModelError(f"{len(flat)} parallel branches are too many", span, "use fewer")
    return Parallel(interleave, tuple(flat), span)


def atomic(term: Term, span: Span) -> Process:
    """`atomic{term}`; twice is once."""
    return term if isinstance(term, Atomic) else Atomic(cast("Process", term), span)


def hide(term: Term, events: tuple[Events, ...], span: Span) -> Process:
    """The term without the events; hiding twice is hiding once, of both sets."""
    if isinstance(term, Hide):
        return Hide(term.process, tuple(dict.fromkeys(term.events + events)), span)
    return Hide(cast("Process", term), events, span)


# --- Names known at run time ------------------------------------------------------------------------


Widened = frozenset[tuple[str, int]]
"""The parameters, by process and position, whose values are kept in slots even where they are known."""


@dataclass(slots=True)
class _Slots:
    """The values that stand for the bound names of a term, in the order they were first used."""

    widened: Widened
    values: list[Expr] = field(default_factory=list)
    names: dict[str, Expr] = field(default_factory=dict)

    def add(self, value: Expr) -> Expr:
        self.values.append(value)
        return Bound(slot_name(len(self.values) - 1), value.span)

    def of(self, name: str) -> Expr:
        if name not in self.names:
            self.names[name] = self.add(Bound(name))
        return self.names[name]


def slot_name(position: int) -> str:
    """The bound name of a component's variable at the position."""
    return f"${position}"


def canonical(term: Term, widened: Widened = frozenset()) -> tuple[Term, tuple[Expr, ...]]:
    """The term with the slots 0, 1, ... for its bound names, and the value of each slot.

    The arguments of a reference that comes first have a slot each, as PAT writes their values; other
    names share one wherever they occur.
    """
    slots = _Slots(widened)
    return _canonical(term, slots), tuple(slots.values)


def _canonical(term: Term, slots: _Slots) -> Term:
    match term:
        case Ref(arguments=arguments):
            new = tuple(
                _argument(argument, slots, (term.name, position) in slots.widened)
                for position, argument in enumerate(arguments)
            )
            return replace(term, arguments=new)
        case Sequence(first=first, second=second):
            head = cast("Process", _canonical(first, slots))
            return replace(term, first=head, second=_rename(second, slots))
        case Atomic(process=inner) | Hide(process=inner):
            return replace(term, process=cast("Process", _canonical(inner, slots)))
        case Running(branches=branches, endless=endless):
            shown = tuple(_canonical(branch, slots) for branch in _written(term, branches))
            more = None if endless is None else _canonical(endless, slots)
            return replace(term, branches=shown, endless=more) if shown or more else Skip(term.span)
        case Parallel(branches=parts):
            done = tuple(cast("Process", _canonical(part, slots)) for part in parts)
            return replace(term, branches=done)
        case Interrupt(process=inner, by=by):
            body = cast("Process", _canonical(inner, slots))
            return replace(term, process=body, by=_rename(by, slots))
        case _:
            return _rename(term, slots)


def _written(term: Running, branches: tuple[Term, ...]) -> Iterator[Term]:
    """The branches that PAT writes: an interleaving is flat and forgets what has terminated."""
    for branch in branches:
        if not term.interleave or term.bag:
            yield branch
        elif isinstance(branch, Parallel | Running) and branch.interleave:
            yield from _written(term, branch.branches)
        elif not isinstance(branch, Skip):
            yield branch


def _argument(argument: Expr, slots: _Slots, widened: bool) -> Expr:
    names = list(bound_names(argument))
    if not names and not (widened and isinstance(argument, Number)):
        return argument
    if reads_state(argument):  # PAT looks it up when the reference moves
        return put_in(argument, {name: slots.of(name) for name in names})
    return slots.add(argument)


def _rename(process: Process, slots: _Slots) -> Process:
    names = list(dict.fromkeys(free_names(process)))
    if not names:
        return process
    return instantiate(process, {name: slots.of(name) for name in names})


def free_names(process: Term) -> Iterator[str]:
    """The bound names of a term that it does not bind itself, in the order they are written."""
    match process:
        case Stop() | Skip():
            return
        case Ref(arguments=arguments):
            yield from _names(arguments)
        case Prefix(event=event, program=program, then=then):
            yield from _names(() if event is None else event.arguments)
            yield from names_of_program(program or ())
            yield from free_names(then)
        case Output(indices=indices, values=sent, program=program, then=then):
            yield from _names(indices + sent)
            yield from names_of_program(program or ())
            yield from free_names(then)
        case Input():
            yield from _names_of_input(process)
        case Choice(branches=branches) | Parallel(branches=branches):
            for branch in branches:
                yield from free_names(branch)
        case Running(branches=parts, endless=endless):
            for part in parts:
                yield from free_names(part)
            if endless is not None:
                yield from free_names(endless)
        case Copies(body=body):
            yield from free_names(body)
        case Guard(condition=condition, process=inner):
            yield from bound_names(condition)
            yield from free_names(inner)
        case Conditional(condition=condition, then=then, otherwise=otherwise):
            yield from bound_names(condition)
            yield from free_names(then)
            yield from free_names(otherwise)
        case Case(branches=cases, default=default):
            for test, branch in cases:
                yield from bound_names(test)
                yield from free_names(branch)
            yield from free_names(default)
        case Atomic(process=inner) | Hide(process=inner):
            yield from free_names(inner)
        case Sequence(first=first, second=second):
            yield from free_names(first)
            yield from free_names(second)
        case Interrupt(process=inner, by=by):
            yield from free_names(inner)
            yield from free_names(by)
        case Assert(condition=condition):
            yield from bound_names(condition)
        case Replicated():
            raise AssertionError("written out by instantiate")


def _names(exprs: Iterable[Expr]) -> Iterator[str]:
    for expr in exprs:
        yield from bound_names(expr)


def _names_of_input(process: Input) -> Iterator[str]:
    binders = {part.name for part in process.fields if isinstance(part, Binder)}
    yield from _names(process.indices)
    yield from _names(part for part in process.fields if not isinstance(part, Binder))
    inner: list[str] = []
    if process.condition is not None:
        inner += bound_names(process.condition)
    inner += names_of_program(process.program or ())
    inner += free_names(process.then)
    yield from (name for name in inner if name not in binders)


def begin(term: Parallel | Copies, alphabets: tuple[Alphabet, ...], *, counted: bool) -> Running:
    """The composition as it starts; where bags are not `counted`, all branches are told apart."""
    if isinstance(term, Copies):
        if counted:
            return Running(True, (), (), (term.body,), True, term.body, term.span)
        branches: tuple[Process, ...] = (term.body,) * COPIES_MAX
        return Running(True, branches, (), branches, span=term.span)
    alike = counted and term.interleave and len(set(term.branches)) < len(term.branches)
    ordered = tuple(sorted(term.branches, key=repr)) if alike else term.branches
    return Running(term.interleave, ordered, alphabets, term.branches, alike, span=term.span)


def go_on(term: Running, branches: Iterable[Term]) -> Running | None:
    """The composition with other branches; None where too many copies would run."""
    kept = list(branches)
    if term.endless is not None:
        kept = [one for one in kept if one != term.endless and not isinstance(one, Skip | Stop)]
        if len(kept) > COPIES_MAX:
            return None
    return replace(term, branches=tuple(sorted(kept, key=repr) if term.bag else kept))
