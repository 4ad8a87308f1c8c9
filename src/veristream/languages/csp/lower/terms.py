"""Process terms: instances of definitions in the form PAT prints, the states of lowering.

A term is a process with values substituted for its parameters. A value known only at run time (received,
or computed from a global variable) stays a bound name; `slots.canonical` numbers those names, so that one
location of a component stands for all their values. `steps` derives the steps of a term.

`Running` and `Forked` exist only in terms, not in the syntax.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import cast

from veristream.errors import ModelError
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.expressions import Values, put_in, put_in_program
from veristream.source import Node, Span

COPIES_MAX = 4
"""The maximum number of concurrent copies of `|||{..}@P`."""
BRANCHES_MAX = 4096

Name = tuple[str, tuple[int, ...]]
"""An event with the values of its arguments."""
Alphabet = frozenset[Name]


@dataclass(frozen=True, slots=True)
class Running(Node):
    """A parallel composition that has started; for `||`, with the alphabets fixed at its start.

    `origin` holds the initial branches, which give components their names. A `bag` is an interleaving that
    started with equal branches, whose order is irrelevant from then on. `endless` is the body of
    `|||{..}@P`; at most `COPIES_MAX` copies run at a time.
    """

    interleave: bool
    branches: tuple[Term, ...]
    alphabets: tuple[Alphabet, ...]
    origin: tuple[Term, ...] = field(compare=False, repr=False)
    bag: bool = False
    endless: Term | None = None


@dataclass(frozen=True, slots=True)
class Forked(Node):
    """A placeholder for a composition with branches that run as separate components."""

    number: int


Term = csp.Process | Running | Forked


def end_name(forked: Forked) -> str:
    """Returns the bound name for the condition that every branch can terminate."""
    return f"✓{forked.number}"


def first_end_name(forked: Forked) -> str:
    """Returns the bound name for the condition that all branches can terminate, one of them atomically."""
    return f"✓{forked.number} first"


def instantiate(process: Term, values: Values) -> csp.Process:
    """Substitutes values for bound names and expands indexed forms."""
    match process:
        case csp.Stop() | csp.Skip():
            return process
        case Forked():
            return cast("csp.Process", process)
        case Running(branches=parts):
            begun = tuple(instantiate(part, values) for part in parts)
            more = None if process.endless is None else instantiate(process.endless, values)
            return cast("csp.Process", replace(process, branches=begun, endless=more))
        case csp.Ref(arguments=arguments):
            return replace(process, arguments=_all(arguments, values))
        case csp.Prefix(event=event, program=program, then=then):
            return replace(
                process,
                event=None if event is None else _event(event, values),
                program=_program(program, values),
                then=instantiate(then, values),
            )
        case csp.Output() | csp.Input():
            return _communication(process, values)
        case csp.Choice(kind=kind, branches=branches):
            return choice(kind, [instantiate(branch, values) for branch in branches], process.span)
        case csp.Guard(condition=condition, process=inner):
            return replace(process, condition=put_in(condition, values), process=instantiate(inner, values))
        case csp.Conditional(condition=condition, then=then, otherwise=otherwise):
            return replace(
                process,
                condition=put_in(condition, values),
                then=instantiate(then, values),
                otherwise=instantiate(otherwise, values),
            )
        case csp.Case(branches=cases, default=default):
            new = tuple((put_in(test, values), instantiate(branch, values)) for test, branch in cases)
            return replace(process, branches=new, default=instantiate(default, values))
        case csp.Atomic(process=inner):
            return atomic(instantiate(inner, values), process.span)
        case csp.Sequence(first=first, second=second):
            return sequence(instantiate(first, values), instantiate(second, values), process.span)
        case csp.Parallel(interleave=interleave, branches=branches):
            return parallel(interleave, [instantiate(branch, values) for branch in branches], process.span)
        case csp.Replicated():
            return _replicated(process, values)
        case csp.Copies(count=count, body=body):
            return _copies(process, count, instantiate(body, values), values)
        case csp.Interrupt(process=inner, by=by):
            return replace(process, process=instantiate(inner, values), by=instantiate(by, values))
        case csp.Hide(process=inner, events=events):
            hidden = tuple(event for each in events for event in write_out(each, values))
            return hide(instantiate(inner, values), hidden, process.span)
        case csp.Assert(condition=condition):
            return replace(process, condition=put_in(condition, values))


def _all(exprs: Iterable[csp.Expr], values: Values) -> tuple[csp.Expr, ...]:
    return tuple(put_in(expr, values) for expr in exprs)


def _program(program: csp.Program | None, values: Values) -> csp.Program | None:
    return None if program is None else put_in_program(program, values)


def _event(event: csp.Event, values: Values) -> csp.Event:
    return replace(event, arguments=_all(event.arguments, values))


def _communication(process: csp.Output | csp.Input, values: Values) -> csp.Process:
    indices, then = _all(process.indices, values), instantiate(process.then, values)
    program = _program(process.program, values)
    if isinstance(process, csp.Output):
        sent = _all(process.values, values)
        return replace(process, indices=indices, values=sent, program=program, then=then)
    fields = tuple(
        part if isinstance(part, csp.Binder) else put_in(part, values) for part in process.fields
    )
    condition = None if process.condition is None else put_in(process.condition, values)
    return replace(process, indices=indices, fields=fields, condition=condition, program=program, then=then)


def _replicated(process: csp.Replicated, values: Values) -> csp.Process:
    branches = [instantiate(process.body, one) for one in assignments(process.indices, values)]
    if not branches:
        raise ModelError("an index has no values", process.span, "give each index a set that is not empty")
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


def _copies(process: csp.Copies, count: csp.Expr | None, body: csp.Process, values: Values) -> csp.Process:
    if count is None:
        return replace(process, body=body)
    size = constant(put_in(count, values), "the number of copies")
    if not 0 < size <= BRANCHES_MAX:
        raise ModelError(
            f"cannot run {size} copies", process.span, f"use a number from 1 to {BRANCHES_MAX}"
        )
    return parallel(True, [body] * size, process.span)


def constant(expr: csp.Expr, what: str) -> int:
    """Returns the value of a constant expression; raises ModelError, naming `what`, if it is not one."""
    if isinstance(expr, csp.Number):
        return expr.value
    raise ModelError(
        f"{what} must be known before the search", expr.span, "use constants and constant arguments"
    )


def assignments(indices: tuple[csp.Index, ...], values: Values) -> Iterator[dict[str, csp.Expr]]:
    """Yields the values extended by each assignment of the indices; the last index varies fastest.

    The range of an index may use earlier indices.
    """
    if not indices:
        yield dict(values)
        return
    first, *rest = indices
    for number in _members(first.domain, values):
        yield from assignments(tuple(rest), {**values, first.name: csp.Number(number)})


def _members(domain: csp.Domain, values: Values) -> Iterable[int]:
    if domain.low is None or domain.high is None:
        return [constant(put_in(value, values), "a value of an index") for value in domain.values]
    low = constant(put_in(domain.low, values), "the range of an index")
    high = constant(put_in(domain.high, values), "the range of an index")
    if high - low >= BRANCHES_MAX:
        raise ModelError(
            f"the range {low}..{high} is too large", domain.span, f"use at most {BRANCHES_MAX} values"
        )
    return range(low, high + 1)


def write_out(events: csp.Events, values: Values) -> Iterator[csp.Events]:
    """Expands the indices of an entry; yields one entry for each event."""
    for one in assignments(events.indices, values):
        yield csp.Events(_event(events.event, one))


def names_of(events: Iterable[csp.Events], what: str) -> Alphabet:
    """Returns the names of expanded events; raises ModelError if an argument is not constant."""
    out: set[Name] = set()
    for one in events:
        out.add((one.event.name, tuple(constant(each, what) for each in one.event.arguments)))
    return frozenset(out)


# --- Simplifying constructors -----------------------------------------------------------------------


def is_skip(term: Term) -> bool:
    """Whether PAT treats the term as Skip, so that a sequence continues with its second process at once."""
    match term:
        case csp.Skip():
            return True
        case csp.Atomic(process=inner):
            return is_skip(inner)
        case csp.Sequence(first=first, second=second):
            return is_skip(first) and is_skip(second)
        case csp.Choice(kind="general" | "external", branches=branches):
            return all(is_skip(branch) for branch in branches)
        case csp.Parallel(interleave=True, branches=parts) | Running(interleave=True, branches=parts):
            return all(is_skip(branch) for branch in parts)
        case _:
            return False


def sequence(first: Term, second: csp.Process, span: Span) -> csp.Process:
    """Builds `first; second`: `second` if the first is Skip, Stop if the first is Stop."""
    if is_skip(first):
        return second
    if isinstance(first, csp.Stop) or (
        isinstance(first, csp.Atomic) and isinstance(first.process, csp.Stop)
    ):
        return csp.Stop(span=span)
    return csp.Sequence(cast("csp.Process", first), second, span=span)


def choice(kind: csp.ChoiceKind, branches: Iterable[csp.Process], span: Span) -> csp.Process:
    """Builds a choice; a general or external one drops branches that are Stop."""
    if kind == "internal":
        return csp.Choice(kind, tuple(branches), span=span)
    able = tuple(branch for branch in branches if not isinstance(branch, csp.Stop))
    if not able:
        return csp.Stop(span=span)
    return external(able, span) if kind == "external" else csp.Choice(kind, able, span=span)


def external(branches: Iterable[csp.Process], span: Span) -> csp.Process:
    """Builds an external choice, flattened, sorted and without duplicates."""
    flat: list[csp.Process] = []
    for branch in branches:
        within = isinstance(branch, csp.Choice) and branch.kind == "external"
        flat += branch.branches if within and isinstance(branch, csp.Choice) else (branch,)
    flat = sorted(dict.fromkeys(flat), key=repr)
    return flat[0] if len(flat) == 1 else csp.Choice("external", tuple(flat), span=span)


def parallel(interleave: bool, branches: Iterable[csp.Process], span: Span) -> csp.Process:
    """Builds a composition; nested interleavings are flattened."""
    flat: list[csp.Process] = []
    for branch in branches:
        if interleave and isinstance(branch, csp.Parallel) and branch.interleave:
            flat += branch.branches
        else:
            flat.append(branch)
    if len(flat) > BRANCHES_MAX:
        hint = f"use at most {BRANCHES_MAX}"
        raise ModelError(f"{len(flat)} parallel branches are too many", span, hint)
    return csp.Parallel(interleave, tuple(flat), span=span)


def atomic(term: Term, span: Span) -> csp.Process:
    """Builds `atomic{term}`, which is idempotent."""
    return term if isinstance(term, csp.Atomic) else csp.Atomic(cast("csp.Process", term), span=span)


def hide(term: Term, events: tuple[csp.Events, ...], span: Span) -> csp.Process:
    """Builds the term with events hidden; nested hidings merge."""
    if isinstance(term, csp.Hide):
        return csp.Hide(term.process, tuple(dict.fromkeys(term.events + events)), span=span)
    return csp.Hide(cast("csp.Process", term), events, span=span)


# --- Running compositions ---------------------------------------------------------------------------


def begin(term: csp.Parallel | csp.Copies, alphabets: tuple[Alphabet, ...], *, counted: bool) -> Running:
    """Returns the composition in its initial state; without `counted`, no bag is formed."""
    if isinstance(term, csp.Copies):
        if counted:
            return Running(True, (), (), (term.body,), True, term.body, span=term.span)
        branches: tuple[csp.Process, ...] = (term.body,) * COPIES_MAX
        return Running(True, branches, (), branches, span=term.span)
    alike = counted and term.interleave and len(set(term.branches)) < len(term.branches)
    ordered = tuple(sorted(term.branches, key=repr)) if alike else term.branches
    return Running(term.interleave, ordered, alphabets, term.branches, alike, span=term.span)


def go_on(term: Running, branches: Iterable[Term]) -> Running | None:
    """Returns the composition with other branches, or None if too many copies would run."""
    kept = list(branches)
    if term.endless is not None:
        kept = [one for one in kept if one != term.endless and not isinstance(one, csp.Skip | csp.Stop)]
        if len(kept) > COPIES_MAX:
            return None
    return replace(term, branches=tuple(sorted(kept, key=repr) if term.bag else kept))
