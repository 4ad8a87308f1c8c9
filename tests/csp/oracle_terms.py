"""Terms of CSP# as the oracle rewrites them: substitution, normal form, alphabets.

A *closed* process has numbers in place of all bound names. An *active* term is a closed process that
has started: its operators are in normal form, so that two active terms are equal exactly if PAT prints
them alike. A process after a prefix has not started and keeps its form.

One thing goes beyond PAT's normal form: an interleaving that dropped a Stop remembers it. Otherwise
`A ||| Stop` and `A ||| Skip` would be one state, though only the second can terminate. For the same
reason the alphabets of a running `||` belong to the term.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from tests.csp.oracle_values import (
    OracleFault,
    Tables,
    evaluate,
    is_constant,
    substitute_expr,
    substitute_program,
)
from veristream.languages.csp import syntax as csp

ALPHABET_REFERENCES_MAX = 5_000

UNBOUNDED = -1
"""The count of a branch with an unlimited number of copies."""


@dataclass(frozen=True, slots=True)
class Interleave:
    """A running `|||` without branches that are Skip or Stop; `stopped` is set if one was Stop."""

    branches: tuple[Term, ...]
    stopped: bool


@dataclass(frozen=True, slots=True)
class Bag:
    """A running `|||` that started with equal branches: sorted branches with counts."""

    members: tuple[tuple[Term, int], ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """A running `||` with the alphabets fixed at its start."""

    branches: tuple[Term, ...]
    alphabets: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class Hidden:
    """A running hiding; nested ones, `P \\ A \\ B`, are merged."""

    process: Term
    names: frozenset[str]


Term = csp.Process | Interleave | Bag | Barrier | Hidden

STOP = csp.Stop()
SKIP = csp.Skip()


# --- Substitution -----------------------------------------------------------------------------------


def substitute(process: csp.Process, names: Mapping[str, int]) -> csp.Process:
    """Substitutes numbers for the bound names of a process."""
    value = partial(substitute_expr, names=names)
    again = partial(substitute, names=names)

    def each(exprs: tuple[csp.Expr, ...]) -> tuple[csp.Expr, ...]:
        return tuple(map(value, exprs))

    def program(code: csp.Program | None) -> csp.Program | None:
        return None if code is None else substitute_program(code, names)

    match process:
        case csp.Stop() | csp.Skip():
            return process
        case csp.Ref(name, arguments):
            return csp.Ref(name, each(arguments))
        case csp.Prefix(event, code, then):
            shown = None if event is None else csp.Event(event.name, each(event.arguments))
            return csp.Prefix(shown, program(code), again(then))
        case csp.Output(channel, indices, values, code, then):
            return csp.Output(channel, each(indices), each(values), program(code), again(then))
        case csp.Input(channel, indices, fields, condition, code, then):
            found = tuple(part if isinstance(part, csp.Binder) else value(part) for part in fields)
            test = None if condition is None else value(condition)
            return csp.Input(channel, each(indices), found, test, program(code), again(then))
        case csp.Choice(kind, branches):
            return csp.Choice(kind, tuple(map(again, branches)))
        case csp.Guard(condition, inner):
            return csp.Guard(value(condition), again(inner))
        case csp.Conditional(condition, then, otherwise, atomic):
            return csp.Conditional(value(condition), again(then), again(otherwise), atomic)
        case csp.Case(cases, default):
            return csp.Case(tuple((value(test), again(then)) for test, then in cases), again(default))
        case csp.Atomic(inner):
            return csp.Atomic(again(inner))
        case csp.Sequence(first, second):
            return csp.Sequence(again(first), again(second))
        case csp.Parallel(interleave, branches):
            return csp.Parallel(interleave, tuple(map(again, branches)))
        case csp.Replicated(operator, indices, body):
            return csp.Replicated(operator, substitute_indices(indices, names), again(body))
        case csp.Copies(count, body):
            return csp.Copies(None if count is None else value(count), again(body))
        case csp.Interrupt(inner, by):
            return csp.Interrupt(again(inner), again(by))
        case csp.Hide(inner, events):
            return csp.Hide(again(inner), substitute_events(events, names))
        case csp.Assert(condition):
            return csp.Assert(value(condition))
    raise TypeError(process)


def substitute_indices(indices: tuple[csp.Index, ...], names: Mapping[str, int]) -> tuple[csp.Index, ...]:
    """Substitutes numbers in index sets."""

    def put(expr: csp.Expr | None) -> csp.Expr | None:
        return None if expr is None else substitute_expr(expr, names)

    found = []
    for index in indices:
        domain = index.domain
        values = tuple(substitute_expr(value, names) for value in domain.values)
        found.append(csp.Index(index.name, csp.Domain(put(domain.low), put(domain.high), values)))
    return tuple(found)


def substitute_events(events: tuple[csp.Events, ...], names: Mapping[str, int]) -> tuple[csp.Events, ...]:
    """Substitutes numbers in the events of an alphabet or a hidden set."""
    return tuple(
        csp.Events(
            csp.Event(part.event.name, tuple(substitute_expr(arg, names) for arg in part.event.arguments)),
            substitute_indices(part.indices, names),
        )
        for part in events
    )


def environments(indices: tuple[csp.Index, ...]) -> Iterator[dict[str, int]]:
    """Yields every assignment of the indices, the last varying fastest; a set may use earlier indices."""
    if not indices:
        yield {}
        return
    head, rest = indices[0], indices[1:]
    for value in domain_values(head.domain):
        for others in environments(substitute_indices(rest, {head.name: value})):
            yield {head.name: value, **others}


def domain_values(domain: csp.Domain) -> Iterable[int]:
    """Returns the values of an index, which must not depend on the state."""
    if domain.low is not None and domain.high is not None:
        return range(evaluate(domain.low, None), evaluate(domain.high, None) + 1)
    return [evaluate(value, None) for value in domain.values]


# --- Events and alphabets ---------------------------------------------------------------------------


def event_name(name: str, arguments: Iterable[int]) -> str:
    """Spells an event as PAT does: `a.1.2`."""
    return ".".join([name, *map(str, arguments)])


def event_names(events: tuple[csp.Events, ...]) -> frozenset[str]:
    """Evaluates the names of a set of events."""
    found = set()
    for part in events:
        for names in environments(part.indices):
            arguments = [substitute_expr(argument, names) for argument in part.event.arguments]
            if not all(map(is_constant, arguments)):
                raise OracleFault(f"the set of events with {part.event.name} depends on the state")
            found.add(event_name(part.event.name, [evaluate(argument, None) for argument in arguments]))
    return frozenset(found)


def alphabet(process: csp.Process, tables: Tables, seen: set[csp.Ref] | None = None) -> frozenset[str]:
    """Returns the alphabet of a branch of `||`."""
    seen = set() if seen is None else seen
    match process:
        case csp.Ref():
            return reference_alphabet(process, tables, seen)
        case csp.Prefix(event, code, then):
            rest = alphabet(then, tables, seen)
            return rest if event is None or code is not None else rest | own_event(event)
        case csp.Hide(inner, events):
            return alphabet(inner, tables, seen) - event_names(events)
        case csp.Replicated(_, indices, body):
            instances = [substitute(body, names) for names in environments(indices)]
            return union(instances, tables, seen)
    return union(parts(process), tables, seen)


def parts(process: csp.Process) -> tuple[csp.Process, ...]:
    """Returns the direct subprocesses."""
    match process:
        case csp.Output() | csp.Input():
            return (process.then,)
        case csp.Choice(_, branches) | csp.Parallel(_, branches):
            return branches
        case csp.Guard(_, inner) | csp.Atomic(inner) | csp.Copies(_, inner):
            return (inner,)
        case csp.Conditional(_, then, otherwise):
            return then, otherwise
        case csp.Case(cases, default):
            return (*(then for _, then in cases), default)
        case csp.Sequence(first, second) | csp.Interrupt(first, second):
            return first, second
    return ()


def union(processes: Iterable[csp.Process], tables: Tables, seen: set[csp.Ref]) -> frozenset[str]:
    """Returns the union of the processes' alphabets."""
    found: frozenset[str] = frozenset()
    for process in processes:
        found |= alphabet(process, tables, seen)
    return found


def own_event(event: csp.Event) -> frozenset[str]:
    """Evaluates the event of a prefix."""
    if event.name == "tau":
        return frozenset()
    if not all(map(is_constant, event.arguments)):
        raise OracleFault(f"the alphabet with {event.name} depends on the state; declare it with #alphabet")
    return frozenset({event_name(event.name, [evaluate(part, None) for part in event.arguments])})


def reference_alphabet(ref: csp.Ref, tables: Tables, seen: set[csp.Ref]) -> frozenset[str]:
    """Returns the `#alphabet` of a reference, else the events of its body; follows each reference once."""
    definition = tables.definitions[ref.name]
    fixed = all(map(is_constant, ref.arguments))
    if definition.alphabet is not None:
        names = {
            parameter.name: evaluate(argument, None)
            for parameter, argument in zip(definition.parameters, ref.arguments, strict=True)
            if is_constant(argument)
        }
        return event_names(substitute_events(definition.alphabet, names))
    if not fixed:
        raise OracleFault(f"the alphabet of {ref.name} depends on the state; declare it with #alphabet")
    if ref in seen:
        return frozenset()
    seen.add(ref)
    if len(seen) > ALPHABET_REFERENCES_MAX:
        raise OracleFault(f"the alphabet of {ref.name} is unbounded; declare it with #alphabet")
    return alphabet(unfold(ref, [evaluate(part, None) for part in ref.arguments], tables), tables, seen)


def unfold(ref: csp.Ref, arguments: list[int], tables: Tables) -> csp.Process:
    """Returns the body of the definition with the arguments substituted."""
    definition = tables.definitions[ref.name]
    names = [parameter.name for parameter in definition.parameters]
    return substitute(definition.body, dict(zip(names, arguments, strict=True)))


# --- Starting a process -----------------------------------------------------------------------------


def activate(process: csp.Process, tables: Tables) -> Term:
    """Returns the normal form of a closed process that starts."""
    start = partial(activate, tables=tables)
    match process:
        case csp.Ref(name, arguments):
            return csp.Ref(name, tuple(substitute_expr(argument, {}) for argument in arguments))
        case csp.Choice("internal", _):
            return process
        case csp.Choice(kind, branches):
            return choice(kind, [start(branch) for branch in branches])
        case csp.Guard(condition, inner):
            return csp.Guard(condition, start(inner))
        case csp.Atomic(inner):
            return csp.Atomic(start(inner))
        case csp.Sequence(first, second):
            return sequence(start(first), second, tables)
        case csp.Interrupt(inner, by):
            return csp.Interrupt(start(inner), start(by))
        case csp.Hide(inner, events):
            return hidden(start(inner), event_names(events))
        case csp.Parallel(False, branches):
            found = tuple(alphabet(branch, tables) for branch in branches)
            return barrier(tuple(map(start, branches)), found)
        case csp.Parallel(True) | csp.Copies() | csp.Replicated("interleave"):
            return interleaving(flatten(process, tables))
        case csp.Replicated():
            return start(expand(process))
    return process


def expand(process: csp.Replicated) -> csp.Process:
    """Applies an n-ary operator to the instances."""
    instances = tuple(substitute(process.body, names) for names in environments(process.indices))
    match process.operator:
        case "parallel":
            return csp.Parallel(False, instances) if instances else SKIP
        case "interleave":
            return csp.Parallel(True, instances)
        case "sequence":
            if not instances:
                return SKIP
            whole = instances[-1]
            for instance in reversed(instances[:-1]):
                whole = csp.Sequence(instance, whole)
            return whole
    return csp.Choice(process.operator, instances)


def is_skip(term: Term) -> bool:
    """Whether a sequence continues with its second process without a step."""
    match term:
        case csp.Skip():
            return True
        case csp.Choice("general" | "external", branches) | Interleave(branches, False):
            return bool(branches) and all(map(is_skip, branches))
        case Bag(members):
            return all(is_skip(member) for member, _ in members)
        case csp.Atomic(inner):
            return is_skip(inner)
    return False


def sequence(first: Term, second: csp.Process, tables: Tables) -> Term:
    """Builds `first; second` with an active first process, nested to the right."""
    if is_skip(first):
        return activate(second, tables)
    match first:
        case csp.Stop() | csp.Atomic(csp.Stop()):
            return STOP
        case csp.Sequence(head, rest):
            return csp.Sequence(head, csp.Sequence(rest, second))
    return csp.Sequence(first, second)


def choice(kind: csp.ChoiceKind, branches: list[Term]) -> Term:
    """Builds a choice of active branches: `[]` without Stops, `[*]` flat, sorted and without duplicates."""
    if kind == "general":
        found = [branch for branch in branches if branch != STOP]
    else:
        nested = [
            branch.branches if isinstance(branch, csp.Choice) and branch.kind == "external" else (branch,)
            for branch in branches
        ]
        found = sorted({branch for group in nested for branch in group}, key=repr)
    if not found:
        return STOP
    return found[0] if kind == "external" and len(found) == 1 else csp.Choice(kind, tuple(found))


def hidden(process: Term, names: frozenset[str]) -> Term:
    """Builds a hiding; nested hidings merge."""
    if isinstance(process, Hidden):
        return Hidden(process.process, process.names | names)
    return Hidden(process, names)


def barrier(branches: tuple[Term, ...], alphabets: tuple[frozenset[str], ...]) -> Term:
    """Builds a `||` of active branches."""
    return branches[0] if len(branches) == 1 else Barrier(branches, alphabets)


def flatten(process: csp.Process, tables: Tables) -> list[tuple[Term, int]]:
    """Returns the flattened branches of an interleaving at its start, with counts."""
    match process:
        case csp.Parallel(True, branches):
            return [item for branch in branches for item in flatten(branch, tables)]
        case csp.Replicated("interleave"):
            return flatten(expand(process), tables)
        case csp.Copies(None, body):
            return [(member, UNBOUNDED) for member, _ in flatten(body, tables)]
        case csp.Copies(count, body) if count is not None:
            return flatten(body, tables) * evaluate(count, None)
    return [(activate(process, tables), 1)]


def interleaving(branches: list[tuple[Term, int]]) -> Term:
    """Starts an interleaving: a bag if branches are equal, else a list."""
    terms = [term for term, _ in branches]
    alike = len(set(terms)) < len(terms) or any(count == UNBOUNDED for _, count in branches)
    return bag(branches) if alike else interleave(terms)


def interleave(branches: Iterable[Term]) -> Term:
    """Builds a running interleaving, flattened and in order; a bag stays a branch."""
    found: list[Term] = []
    stopped = False
    for branch in branches:
        if isinstance(branch, Interleave):
            found.extend(branch.branches)
            stopped |= branch.stopped
        elif branch == STOP:
            stopped = True
        elif branch != SKIP:
            found.append(branch)
    if not found:
        return STOP if stopped else SKIP
    return found[0] if len(found) == 1 and not stopped else Interleave(tuple(found), stopped)


def bag(members: Iterable[tuple[Term, int]]) -> Term:
    """Builds a running bag; an interleaving among its branches is flattened."""
    counts: dict[Term, int] = {}
    for member, count in members:
        for part, times in bag_parts(member):
            unbounded = UNBOUNDED in (count, times, counts.get(part))
            counts[part] = UNBOUNDED if unbounded else counts.get(part, 0) + count * times
    return Bag(tuple(sorted(counts.items(), key=repr)))


def bag_parts(member: Term) -> list[tuple[Term, int]]:
    """Returns the flattened branches of a member of a bag."""
    match member:
        case Bag(members):
            return list(members)
        case Interleave(branches, stopped):
            return [(branch, 1) for branch in branches] + ([(STOP, 1)] if stopped else [])
    return [(member, 1)]


def without(members: tuple[tuple[Term, int], ...], gone: Term) -> list[tuple[Term, int]]:
    """Removes one copy of a branch from the bag."""
    found = []
    for member, count in members:
        if member == gone and count != UNBOUNDED:
            count -= 1
        if count:
            found.append((member, count))
    return found


def rebuilt(barrier_term: Barrier, at: int, branch: Term) -> Barrier:
    """Replaces one branch of a `||`."""
    branches = (*barrier_term.branches[:at], branch, *barrier_term.branches[at + 1 :])
    return replace(barrier_term, branches=branches)
