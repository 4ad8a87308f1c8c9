"""The step rules of CSP# in the oracle, one function for each operator.

A term has *steps* and *offers*: an offer is an output or an input on a rendezvous channel that waits for
its partner. It can build the whole term after the offering part has advanced, so that any `|||` or `||`
above can join two offers of different branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

from tests.csp.oracle_terms import (
    SKIP,
    STOP,
    UNBOUNDED,
    Bag,
    Barrier,
    Hidden,
    Interleave,
    Term,
    activate,
    bag,
    choice,
    event_name,
    hidden,
    interleave,
    rebuilt,
    sequence,
    substitute,
    unfold,
    without,
)
from tests.csp.oracle_values import (
    Buffers,
    Memory,
    Message,
    OracleFault,
    Values,
    channel_slot,
    evaluate,
    run,
    substitute_expr,
    substitute_program,
)
from veristream.languages.csp import syntax as csp

TAU = "tau"
TERMINATE = "terminate"


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `data` is set if its event never synchronises."""

    event: str
    atomic: bool
    data: bool
    term: Term
    values: Values
    buffers: Buffers


@dataclass(frozen=True, slots=True)
class Offer:
    """An output or input that waits for a partner; `whole` builds the term around its continuation."""

    node: csp.Output | csp.Input
    atomic: bool
    whole: Callable[[Term], Term]


Moves = tuple[list[Step], list[Offer]]


def moves(term: Term, memory: Memory) -> Moves:
    """Returns all steps and offers of an active term, before atomic steps take priority."""
    match term:
        case csp.Stop():
            return [], []
        case csp.Skip():
            return [silent(memory, STOP, TERMINATE)], []
        case csp.Ref():
            arguments = [evaluate(argument, memory) for argument in term.arguments]
            return moves(activate(unfold(term, arguments, memory.tables), memory.tables), memory)
        case csp.Prefix():
            return [prefix_step(term, memory)], []
        case csp.Output() | csp.Input():
            return channel_moves(term, memory)
        case csp.Choice():
            return choice_moves(term, memory)
        case csp.Guard(condition, inner):
            return moves(inner, memory) if evaluate(condition, memory) else ([], [])
        case csp.Conditional() | csp.Case() | csp.Assert():
            return conditional_moves(term, memory)
        case csp.Atomic(inner):
            steps, offers = within(moves(inner, memory), csp.Atomic)
            return [replace(step, atomic=True) for step in steps], [
                replace(offer, atomic=True) for offer in offers
            ]
        case csp.Sequence():
            return sequence_moves(term, memory)
        case csp.Interrupt():
            return interrupt_moves(term, memory)
        case Hidden():
            return hidden_moves(term, memory)
        case Interleave():
            return interleave_moves(term, memory)
        case Bag():
            return bag_moves(term, memory)
        case Barrier():
            return barrier_moves(term, memory)
    raise TypeError(term)


def silent(memory: Memory, term: Term, event: str = TAU) -> Step:
    """Builds a step that changes no values."""
    return Step(event, False, False, term, memory.values, memory.buffers)


def within(found: Moves, wrap: Callable[[Term], Term]) -> Moves:
    """Lifts the moves of a subterm to moves of the term around it."""
    steps, offers = found
    return [replace(step, term=wrap(step.term)) for step in steps], [
        lifted(offer, wrap) for offer in offers
    ]


def lifted(offer: Offer, wrap: Callable[[Term], Term]) -> Offer:
    """Lifts an offer of a subterm to an offer of the term around it."""
    inner = offer.whole
    return replace(offer, whole=lambda term: wrap(inner(term)))


# --- Prefixes and channels --------------------------------------------------------------------------


def prefix_step(term: csp.Prefix, memory: Memory) -> Step:
    """A prefix: the arguments of the event are evaluated before the program runs."""
    then = activate(term.then, memory.tables)
    after = run(term.program, memory)
    data = term.program is not None
    if term.event is None or term.event.name == TAU:
        return Step(TAU, False, data, then, after, memory.buffers)
    shown = event_name(term.event.name, [evaluate(part, memory) for part in term.event.arguments])
    return Step(shown, False, data, then, after, memory.buffers)


def channel_moves(term: csp.Output | csp.Input, memory: Memory) -> Moves:
    """A communication: an offer on a rendezvous channel, else at most one step."""
    slot, channel, shown = channel_slot(memory.tables, term.channel, term.indices, memory)
    if channel.capacity == 0:
        return [], [Offer(term, False, lambda then: then)]
    held = memory.buffers[slot]
    if isinstance(term, csp.Output):
        if len(held) >= channel.capacity:
            return [], []
        message = tuple(evaluate(value, memory) for value in term.values)
        then, program, mark, kept = term.then, term.program, "!", (*held, message)
    else:
        received = receive(term, held[0], memory) if held else None
        if received is None:
            return [], []
        message, (then, program), mark, kept = held[0], received, "?", held[1:]
    buffers = (*memory.buffers[:slot], kept, *memory.buffers[slot + 1 :])
    event = shown + mark + ".".join(map(str, message))
    after = run(program, Memory(memory.tables, memory.values, buffers))
    return [Step(event, False, True, activate(then, memory.tables), after, buffers)], []


def receive(
    term: csp.Input, message: Message, memory: Memory
) -> tuple[csp.Process, csp.Program | None] | None:
    """Returns the continuation of an input for a message, and its program; None if it does not match."""
    if len(term.fields) != len(message):
        return None
    names: dict[str, int] = {}
    for part, value in zip(term.fields, message, strict=True):
        if isinstance(part, csp.Binder):
            names[part.name] = value
        elif evaluate(substitute_expr(part, names), memory) != value:
            return None
    if term.condition is not None and not evaluate(substitute_expr(term.condition, names), memory):
        return None
    program = None if term.program is None else substitute_program(term.program, names)
    return substitute(term.then, names), program


def rendezvous(
    left: Iterable[Offer], right: Iterable[Offer], memory: Memory, join: Callable[[Term, Term], Term]
) -> Iterator[Step]:
    """Joins every output of one side with every input of the other; `join` takes left and right."""
    left, right = list(left), list(right)
    for one, other in product(left, right):
        if isinstance(one.node, csp.Output) and isinstance(other.node, csp.Input):
            yield from meeting(one, other, memory, join)
        if isinstance(other.node, csp.Output) and isinstance(one.node, csp.Input):
            yield from meeting(other, one, memory, lambda sent, got: join(got, sent))


def meeting(
    sender: Offer, receiver: Offer, memory: Memory, join: Callable[[Term, Term], Term]
) -> Iterator[Step]:
    """Returns the step of an output with an input, if they match; the output's program runs first."""
    output, wanted = sender.node, receiver.node
    assert isinstance(output, csp.Output) and isinstance(wanted, csp.Input)
    slot, _, shown = channel_slot(memory.tables, output.channel, output.indices, memory)
    if slot != channel_slot(memory.tables, wanted.channel, wanted.indices, memory)[0]:
        return
    message = tuple(evaluate(value, memory) for value in output.values)
    received = receive(wanted, message, memory)
    if received is None:
        return
    then, program = received
    sent = Memory(memory.tables, run(output.program, memory), memory.buffers)
    after = run(program, sent)
    term = join(
        sender.whole(activate(output.then, memory.tables)), receiver.whole(activate(then, memory.tables))
    )
    event = event_name(shown, message)
    yield Step(event, sender.atomic or receiver.atomic, True, term, after, memory.buffers)


# --- Choices ----------------------------------------------------------------------------------------


def choice_moves(term: csp.Choice, memory: Memory) -> Moves:
    """General: any step resolves it. External: a tau does not. Internal: a tau to each branch."""
    if term.kind == "internal":
        return [silent(memory, activate(branch, memory.tables)) for branch in term.branches], []
    steps: list[Step] = []
    offers: list[Offer] = []
    for at, branch in enumerate(term.branches):
        others = [*term.branches[:at], *term.branches[at + 1 :]]
        found, waiting = moves(branch, memory)
        offers += waiting
        for step in found:
            if term.kind == "external" and step.event == TAU:
                step = replace(step, term=choice("external", [step.term, *others]))
            steps.append(step)
    return steps, offers


def conditional_moves(term: csp.Conditional | csp.Case | csp.Assert, memory: Memory) -> Moves:
    """`if` and `case` decide with a tau, `ifa` without a step; `assert` is Skip or an error."""
    match term:
        case csp.Conditional(condition, then, otherwise, atomic):
            taken = activate(then if evaluate(condition, memory) else otherwise, memory.tables)
            return moves(taken, memory) if atomic else ([silent(memory, taken)], [])
        case csp.Case(cases, default):
            taken = next((then for test, then in cases if evaluate(test, memory)), default)
            return [silent(memory, activate(taken, memory.tables))], []
        case csp.Assert(condition):
            if not evaluate(condition, memory):
                raise OracleFault("an assertion of the model does not hold")
            return moves(SKIP, memory)


# --- Sequence, interrupt, hiding --------------------------------------------------------------------


def sequence_moves(term: csp.Sequence, memory: Memory) -> Moves:
    """Steps of the first part; its termination is a tau to the second."""
    steps: list[Step] = []
    found, waiting = moves(term.first, memory)
    for step in found:
        if step.event == TERMINATE:
            steps.append(replace(step, event=TAU, term=activate(term.second, memory.tables)))
        else:
            steps.append(replace(step, term=sequence(step.term, term.second, memory.tables)))
    return steps, [
        lifted(offer, lambda first: sequence(first, term.second, memory.tables)) for offer in waiting
    ]


def interrupt_moves(term: csp.Interrupt, memory: Memory) -> Moves:
    """The first process runs inside; the second takes over with a visible step."""
    own, own_offers = moves(term.process, memory)
    other, other_offers = moves(term.by, memory)

    def stays(inner: Term) -> Term:
        return csp.Interrupt(inner, term.by)

    steps = [replace(step, term=STOP if step.event == TERMINATE else stays(step.term)) for step in own]
    for step in other:
        waits = csp.Interrupt(term.process, step.term)
        steps.append(replace(step, term=waits) if step.event == TAU else step)
    return steps, [*(lifted(offer, stays) for offer in own_offers), *other_offers]


def hidden_moves(term: Hidden, memory: Memory) -> Moves:
    """Hidden events become tau; termination stays visible and leads to a hidden Stop."""
    steps, offers = within(moves(term.process, memory), lambda inner: hidden(inner, term.names))
    return [replace(step, event=TAU) if step.event in term.names else step for step in steps], offers


# --- Interleaving and parallel ----------------------------------------------------------------------


def proper(steps: list[Step]) -> list[Step]:
    """Returns the steps other than termination."""
    return [step for step in steps if step.event != TERMINATE]


def common_end(found: list[list[Step]], memory: Memory) -> list[Step]:
    """Returns the joint termination if every branch can terminate."""
    ends = [[step for step in steps if step.event == TERMINATE] for steps in found]
    if not all(ends):
        return []
    atomic = any(step.atomic for steps in ends for step in steps)
    return [replace(silent(memory, STOP, TERMINATE), atomic=atomic)]


def interleave_moves(term: Interleave, memory: Memory) -> Moves:
    """Single branches step alone, two by rendezvous, all by termination."""

    def put(*places: tuple[int, Term]) -> Term:
        branches = dict(enumerate(term.branches)) | dict(places)
        return interleave([*branches.values(), *([STOP] if term.stopped else [])])

    found = [moves(branch, memory) for branch in term.branches]
    steps: list[Step] = []
    offers: list[Offer] = []
    for at, (own, waiting) in enumerate(found):
        steps += [replace(step, term=put((at, step.term))) for step in proper(own)]
        offers += [lifted(offer, lambda inner, at=at: put((at, inner))) for offer in waiting]
    for one in range(len(found)):
        for other in range(one + 1, len(found)):
            steps += rendezvous(
                found[one][1],
                found[other][1],
                memory,
                lambda left, right, i=one, j=other: put((i, left), (j, right)),
            )
    if not term.stopped:
        steps += common_end([own for own, _ in found], memory)
    return steps, offers


def bag_moves(term: Bag, memory: Memory) -> Moves:
    """Like an interleaving, but equal branches contribute once."""
    found = [(member, count, moves(member, memory)) for member, count in term.members]
    steps: list[Step] = []
    offers: list[Offer] = []
    for member, _, (own, waiting) in found:
        rest = without(term.members, member)
        put = partial(bag_with, rest)
        steps += [replace(step, term=put(step.term)) for step in proper(own)]
        offers += [lifted(offer, put) for offer in waiting]
    for at, (member, count, (_, waiting)) in enumerate(found):
        for other, _, (_, partners) in found[at if count == UNBOUNDED or count > 1 else at + 1 :]:
            rest = without(tuple(without(term.members, member)), other)
            join = partial(bag_with, rest)
            if other == member:  # equal branches: it does not matter which of them sends
                senders = [offer for offer in waiting if isinstance(offer.node, csp.Output)]
                steps += rendezvous(senders, partners, memory, join)
            else:
                steps += rendezvous(waiting, partners, memory, join)
    steps += common_end([own for _, _, (own, _) in found], memory)
    return steps, offers


def bag_with(rest: list[tuple[Term, int]], *added: Term) -> Term:
    """Returns the bag with branches added."""
    return bag([*rest, *((term, 1) for term in added)])


def barrier_moves(term: Barrier, memory: Memory) -> Moves:
    """Shared events are joint; other steps are single, by rendezvous of two, or by termination of all."""
    found = [moves(branch, memory) for branch in term.branches]
    steps: list[Step] = []
    offers: list[Offer] = []
    for at, (own, waiting) in enumerate(found):
        alone = [step for step in proper(own) if at not in parties(term, step)]
        steps += [replace(step, term=rebuilt(term, at, step.term)) for step in alone]
        offers += [lifted(offer, lambda inner, at=at: rebuilt(term, at, inner)) for offer in waiting]
    shared = [step.event for at, (own, _) in enumerate(found) for step in own if at in parties(term, step)]
    for event in dict.fromkeys(shared):
        steps += together(term, event, [own for own, _ in found])
    for one in range(len(found)):
        for other in range(one + 1, len(found)):
            steps += rendezvous(
                found[one][1],
                found[other][1],
                memory,
                lambda left, right, i=one, j=other: rebuilt(rebuilt(term, i, left), j, right),
            )
    return steps, offers


def parties(term: Barrier, step: Step) -> list[int]:
    """Returns the branches that must perform an event together; none if one branch performs it alone."""
    if step.event == TERMINATE:
        return list(range(len(term.branches)))
    if step.data or step.event == TAU:
        return []
    having = [at for at, names in enumerate(term.alphabets) if step.event in names]
    return having if len(having) > 1 else []


def together(term: Barrier, event: str, found: list[list[Step]]) -> Iterator[Step]:
    """Yields every combination of steps with a shared event, one step from each branch involved."""
    ready = [[(at, step) for step in steps if step.event == event] for at, steps in enumerate(found)]
    chosen = [
        [(at, step) for at, step in options if at in parties(term, step)]
        for at, options in enumerate(ready)
        if event == TERMINATE or event in term.alphabets[at]
    ]
    for combination in product(*chosen):
        whole = term
        for at, step in combination:
            whole = rebuilt(whole, at, STOP if event == TERMINATE else step.term)
        atomic = any(step.atomic for _, step in combination)
        yield replace(combination[0][1], term=whole, atomic=atomic)
