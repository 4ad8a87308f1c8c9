"""PAT's operational semantics: derives the symbolic steps of a term, for `automata` to explore.

Every rule is here; `docs/csp.md` states them in words. A step is described, not executed: its condition,
its effect on the variables and the resulting term, for all values known only at run time at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import count, product
from typing import cast

from veristream.errors import ModelError
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.alphabet import Alphabets, start
from veristream.languages.csp.lower.expressions import put_in, rename_locals
from veristream.languages.csp.lower.moves import (
    Act,
    Happens,
    Meets,
    Move,
    Receives,
    Sends,
    Silent,
    Terminates,
    concrete,
    event_of,
    hidden_name,
    put_in_act,
    split,
    split_sent,
    when,
)
from veristream.languages.csp.lower.rendezvous import may_meet
from veristream.languages.csp.lower.terms import (
    Alphabet,
    Forked,
    Name,
    Running,
    Term,
    atomic,
    begin,
    end_name,
    external,
    go_on,
    hide,
    instantiate,
    is_skip,
    names_of,
    sequence,
)
from veristream.source import Span

LOOK_UPS_MAX = 150
"""The maximum number of definitions that one step may look up."""


class Steps:
    """Derives the steps of terms of one specification; compositions at `uncounted` form no bags."""

    def __init__(
        self,
        definitions: Mapping[str, csp.Definition],
        channels: Mapping[str, csp.Channel],
        alphabets: Alphabets,
        uncounted: frozenset[Span] = frozenset(),
    ) -> None:
        self.endless = False  # whether a `|||{..}` was seen
        self._definitions = definitions
        self._channels = channels
        self._alphabets = alphabets
        self._uncounted = uncounted
        self._fresh = count()
        self._open: set[csp.Ref] = set()

    def of(self, term: Term) -> list[Move]:
        """Returns the steps of a term, except those with a constant false condition."""
        return [move for move in self._of(term) if not _impossible(move)]

    def is_counted(self, composition: Span) -> bool:
        """Whether equal branches of the composition form a bag."""
        return composition not in self._uncounted

    def meets(self, move: Move) -> bool:
        """Whether the move is the sending half of a rendezvous."""
        return isinstance(move.act, Sends) and not self._channels[move.act.channel].capacity

    def may_meet(self, inner: Term, by: Term) -> bool:
        """Whether `inner` may contain the other half of a rendezvous that `by` may begin with."""
        return may_meet(inner, by, self._definitions, self._channels)

    def body(self, ref: csp.Ref) -> csp.Process:
        """Returns the body of a reference with constant arguments; the reference if one is out of range."""
        definition = self._definitions[ref.name]
        values = dict(zip((one.name for one in definition.parameters), ref.arguments, strict=True))
        for parameter in definition.parameters:
            given = values[parameter.name]
            if not isinstance(given, csp.Number) or not in_range(given.value, parameter):
                return ref
        return instantiate(definition.body, values)

    def _of(self, term: Term) -> Iterable[Move]:
        match term:
            case csp.Stop():
                return ()
            case csp.Skip():
                return (Move(Terminates(), csp.Stop(span=term.span), span=term.span),)
            case Forked():
                ends = (csp.Bound(end_name(term), span=term.span),)
                return (Move(Terminates(), csp.Stop(span=term.span), ends, span=term.span),)
            case csp.Assert(condition=condition):
                return (Move(Terminates(), csp.Stop(span=term.span), checks=(condition,), span=term.span),)
            case csp.Ref():
                return self._of_ref(term)
            case csp.Prefix() | csp.Output() | csp.Input():
                return (self._of_prefix(term),)
            case csp.Guard(condition=condition, process=inner):
                return (when(move, condition) for move in self._of(inner))
            case csp.Conditional():
                return self._of_conditional(term)
            case csp.Case():
                return _of_case(term)
            case csp.Choice():
                return self._of_choice(term)
            case csp.Sequence(first=first, second=second):
                return self._of_sequence(first, second, term.span)
            case csp.Interrupt(process=inner, by=by):
                return self._of_interrupt(inner, by, term)
            case csp.Hide():
                return self._of_hide(term)
            case csp.Atomic(process=inner):
                return (
                    replace(move, target=atomic(move.target, term.span), atomic=True)
                    for move in self._of(inner)
                )
            case csp.Parallel() | csp.Copies():
                self.endless |= isinstance(term, csp.Copies)
                alphabets = start(term, self._alphabets)
                return self._of_running(begin(term, alphabets, counted=self.is_counted(term.span)))
            case Running():
                return self._of_running(term)
            case csp.Replicated():
                raise AssertionError("expanded by instantiate")

    def _of_ref(self, ref: csp.Ref) -> Iterator[Move]:
        definition = self._definitions[ref.name]
        values: dict[str, csp.Expr] = {}
        captured: list[tuple[str, csp.Expr]] = []
        limits: list[csp.Expr] = []
        for parameter, argument in zip(definition.parameters, ref.arguments, strict=True):
            value = argument
            if not isinstance(argument, csp.Number | csp.Bound):
                name = f"{parameter.name}#{next(self._fresh)}"
                captured.append((name, argument))
                value = csp.Bound(name, span=argument.span)
            values[parameter.name] = value
            if parameter.low is not None:
                limits.append(csp.Binary("<=", csp.Number(parameter.low), argument, span=argument.span))
            if parameter.high is not None:
                limits.append(csp.Binary("<=", argument, csp.Number(parameter.high), span=argument.span))
        for move in self._look_up(ref, instantiate(definition.body, values)):
            known = dict(captured)
            yield replace(
                move,
                captured=(*captured, *move.captured),
                conditions=tuple(put_in(each, known) for each in move.conditions),
                checks=tuple(limits) + tuple(put_in(each, known) for each in move.checks),
                act=put_in_act(move.act, known),
            )

    def _look_up(self, ref: csp.Ref, body: csp.Process) -> list[Move]:
        """Returns the steps of a definition's body; raises ModelError if they depend on the reference."""
        if ref in self._open or len(self._open) > LOOK_UPS_MAX:
            raise ModelError(
                f"{ref.name} refers to itself without a step",
                ref.span,
                "put an event first: `P() = a -> P();`",
            )
        self._open.add(ref)
        try:
            return list(self._of(body))
        finally:
            self._open.discard(ref)

    def _of_prefix(self, term: csp.Prefix | csp.Output | csp.Input) -> Move:
        program = term.program or ()
        match term:
            case csp.Prefix(event=None, then=then):
                return Move(Silent(), then, program=program, span=term.span)
            case csp.Prefix(event=csp.Event() as event, then=then):
                happens = Happens(event, term.program is not None)
                return Move(happens, then, program=program, span=term.span)
            case csp.Output(channel=channel, indices=indices, values=values, then=then):
                return Move(Sends(channel, indices, values), then, program=program, span=term.span)
            case csp.Input(channel=channel, indices=indices, fields=fields, condition=condition, then=then):
                conditions = () if condition is None else (condition,)
                receives = Receives(channel, indices, fields)
                return Move(receives, then, conditions, program=program, span=term.span)
            case _:
                raise AssertionError

    def _of_conditional(self, term: csp.Conditional) -> Iterator[Move]:
        negated = put_in(csp.Unary("!", term.condition, span=term.condition.span), {})
        for condition, branch, word in (
            (term.condition, term.then, "if"),
            (negated, term.otherwise, "else"),
        ):
            if term.atomic:
                yield from (when(move, condition) for move in self._of(branch))
            else:
                yield Move(Silent(word), branch, (condition,), span=term.span)

    def _of_choice(self, term: csp.Choice) -> Iterator[Move]:
        for position, branch in enumerate(term.branches):
            if term.kind == "internal":
                yield Move(Silent("choose"), branch, span=term.span)
                continue
            for move in self._of(branch):
                if term.kind == "external" and isinstance(move.act, Silent):
                    branches = list(term.branches)
                    branches[position] = cast("csp.Process", move.target)
                    yield replace(move, target=external(branches, term.span))
                else:
                    yield move

    def _of_sequence(self, first: Term, second: csp.Process, span: Span) -> Iterator[Move]:
        if is_skip(first):
            yield from self._of(second)
            return
        for move in self._of(first):
            if isinstance(move.act, Terminates):
                yield replace(move, act=Silent("terminate"), target=second)
            else:
                yield replace(move, target=sequence(move.target, second, span))

    def _of_interrupt(self, inner: csp.Process, by: csp.Process, term: csp.Interrupt) -> Iterator[Move]:
        for move in self._of(inner):
            if isinstance(move.act, Terminates):
                yield move
            else:
                yield replace(
                    move, target=csp.Interrupt(cast("csp.Process", move.target), by, span=term.span)
                )
        for move in self._of(by):
            if isinstance(move.act, Silent):
                yield replace(
                    move, target=csp.Interrupt(inner, cast("csp.Process", move.target), span=term.span)
                )
            else:
                yield move

    def _of_hide(self, term: csp.Hide) -> Iterator[Move]:
        hidden = names_of(term.events, "an argument of a hidden event")
        for move in self._of(term.process):
            halves = split_sent(move, hidden) if isinstance(move.act, Meets) else split(move, hidden, True)
            for one in halves:
                name = None if isinstance(one.act, Sends) else event_of(one)
                act: Act = one.act if name is None or name not in hidden else Silent(hidden_name(name))
                yield replace(one, act=act, target=hide(one.target, term.events, term.span))

    def _of_running(self, term: Running) -> Iterable[Move]:
        moves = self._of_branches(term)
        return dict.fromkeys(moves) if term.bag else moves  # equal branches contribute once

    def _of_branches(self, term: Running) -> Iterator[Move]:
        parts = parts_of(term)
        steps = [list(self._of(branch)) for branch in parts]
        shared = shared_events(term.alphabets)
        waiting: list[dict[Name, list[Move]]] = [{} for _ in parts]
        for position, moves in enumerate(steps):
            for move in moves:
                for one in split(move, shared) if shared else (move,):
                    name = concrete(one)
                    if isinstance(one.act, Terminates):
                        continue
                    if name is not None and shared and name in term.alphabets[position] & shared:
                        waiting[position].setdefault(name, []).append(one)
                    else:
                        yield from _moved(one, term, {position: one.target})
        yield from self._rendezvous(term, steps)
        for name in sorted(shared):
            yield from _together(term, name, waiting)
        yield from _terminations(term, steps[: len(term.branches) + (term.endless is not None)])

    def _rendezvous(self, term: Running, steps: list[list[Move]]) -> Iterator[Move]:
        for sender, outputs in enumerate(steps):
            for output in outputs:
                if not isinstance(output.act, Sends) or self._channels[output.act.channel].capacity:
                    continue
                for receiver, inputs in enumerate(steps):
                    for entry in inputs if receiver != sender else ():
                        joined = meet(output, entry)
                        if joined is not None:
                            targets = {sender: output.target, receiver: entry.target}
                            yield from _moved(joined, term, targets)


# --- Steps of compositions --------------------------------------------------------------------------


def shared_events(alphabets: tuple[Alphabet, ...]) -> Alphabet:
    """Returns the events that occur in two or more of the alphabets."""
    seen: set[Name] = set()
    shared: set[Name] = set()
    for alphabet in alphabets:
        shared |= seen & alphabet
        seen |= alphabet
    return frozenset(shared)


def parts_of(term: Running) -> tuple[Term, ...]:
    """Returns the branches that can move; unlimited copies add two, since two new ones may rendezvous."""
    return term.branches if term.endless is None else (*term.branches, term.endless, term.endless)


def _moved(move: Move, term: Running, changed: Mapping[int, Term]) -> Iterator[Move]:
    """Yields the move with the resulting composition, unless that has too many copies."""
    branches = [changed.get(position, branch) for position, branch in enumerate(term.branches)]
    branches += [target for position, target in changed.items() if position >= len(term.branches)]
    target = go_on(term, branches)
    if target is not None:
        paths = (
            zip(changed, move.actors, strict=False)
            if len(changed) > 1
            else ((position, path) for position in changed for path in move.actors)
        )
        actors = tuple((position, *path) for position, path in paths)
        yield replace(move, target=target, actors=actors)


def meet(output: Move, entry: Move) -> Move | None:
    """Joins an output and an input into one move, with the output's target; None if they do not match."""
    sent, taken = output.act, entry.act
    if not isinstance(sent, Sends) or not isinstance(taken, Receives):
        return None
    if sent.channel != taken.channel or len(sent.values) != len(taken.fields):
        return None
    conditions: list[csp.Expr] = [
        put_in(csp.Binary("==", mine, theirs, span=mine.span), {})
        for mine, theirs in zip(sent.indices, taken.indices, strict=True)
    ]
    captured: list[tuple[str, csp.Expr]] = []
    for value, part in zip(sent.values, taken.fields, strict=True):
        if isinstance(part, csp.Binder):
            captured.append((part.name, value))
        else:
            conditions.append(put_in(csp.Binary("==", value, part, span=part.span), {}))
    known = dict(captured)
    return Move(
        Meets(sent.channel, sent.indices, sent.values),
        output.target,
        (*output.conditions, *conditions, *(put_in(each, known) for each in entry.conditions)),
        (*output.captured, *entry.captured, *captured),
        # Names of the output's program must not hide the fields that the input's program reads.
        (*rename_locals(output.program, "!"), *entry.program),
        output.atomic or entry.atomic,
        (*output.checks, *entry.checks),
        (output.actors[0], entry.actors[0]),
        span=output.span,
    )


def _together(term: Running, name: Name, waiting: list[dict[Name, list[Move]]]) -> Iterator[Move]:
    who = [position for position, alphabet in enumerate(term.alphabets) if name in alphabet]
    for moves in product(*(waiting[position].get(name, []) for position in who)):
        targets = dict(zip(who, (move.target for move in moves), strict=True))
        yield from _moved(_joined(moves[0].act, term, moves), term, targets)


def _terminations(term: Running, steps: list[list[Move]]) -> Iterator[Move]:
    ends = [[move for move in moves if isinstance(move.act, Terminates)] for moves in steps]
    for moves in product(*ends):
        yield _joined(Terminates(), csp.Stop(span=term.span), moves)


def _joined(act: Act, target: Term, moves: tuple[Move, ...]) -> Move:
    return Move(
        act,
        target,
        tuple(condition for move in moves for condition in move.conditions),
        tuple(value for move in moves for value in move.captured),
        (),
        any(move.atomic for move in moves),
        tuple(check for move in moves for check in move.checks),
        tuple(move.actors[0] for move in moves),
        span=moves[0].span,
    )


def _of_case(term: csp.Case) -> Iterator[Move]:
    before: tuple[csp.Expr, ...] = ()
    for condition, branch in term.branches:
        yield Move(Silent("case"), branch, (*before, condition), span=condition.span)
        before += (put_in(csp.Unary("!", condition, span=condition.span), {}),)
    yield Move(Silent("default"), term.default, before, span=term.span)


def in_range(value: int, parameter: csp.Parameter) -> bool:
    """Whether an argument is in the range that its parameter declares, if any."""
    above = parameter.low is None or parameter.low <= value
    return above and (parameter.high is None or value <= parameter.high)


def _impossible(move: Move) -> bool:
    return any(isinstance(each, csp.Number) and not each.value for each in move.conditions)
