"""A specification of TLA+ as a system that is explored."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from veristream.languages.tla.runs import Step
from veristream.languages.tla.specification import Action, Check, Specification
from veristream.languages.tla.values.operations import boolean
from veristream.languages.tla.values.sets import pairs
from veristream.languages.tla.values.values import (
    Delayed,
    Described,
    EvaluationError,
    Mapped,
    ModelValue,
    Value,
    elements,
    function,
    in_order,
    show,
)
from veristream.source import NOWHERE, Span
from veristream.system import Assumption, Condition, RunCondition, State, When
from veristream.verdict import Fault, Invalid, Shown


@dataclass
class TlaSystem:
    """States are tuples of values, in the order in which the variables are declared."""

    specification: Specification
    failure: type[Exception] = EvaluationError
    _representatives: set[State] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.specification.name

    @property
    def has_steps(self) -> bool:
        return self.specification.next is not None

    @property
    def checks_deadlock(self) -> bool:
        return self.specification.check_deadlock and self.has_steps

    @cached_property
    def conditions(self) -> Sequence[Condition]:
        return tuple(
            Condition(one.name, when, partial(_of_step if when is When.STEPS else _of_state, one))
            for when, checks in (
                (When.STATES, self.specification.invariants),
                (When.INITIAL, self.specification.initially),
                (When.STEPS, self.specification.of_steps),
            )
            for one in checks
        )

    @cached_property
    def assumptions(self) -> Sequence[Assumption]:
        found = self.specification.assumptions
        names = [one.name if one.name != "ASSUME" else f"ASSUME {at}" for at, one in enumerate(found, 1)]
        return tuple(
            Assumption(name, partial(_of_constants, one)) for name, one in zip(names, found, strict=True)
        )

    @property
    def refused(self) -> Mapping[str, Invalid]:
        found = self.specification.refused.items()
        return {name: Invalid(one.message, one.span, one.hint) for name, one in found}

    @cached_property
    def run_conditions(self) -> Sequence[RunCondition]:
        return tuple(
            RunCondition(
                one.name,
                one.formula,
                one.assumption,
                {name: partial(_of_pair, step) for name, step in one.propositions.items()},
            )
            for one in self.specification.runs
        )

    def initial(self) -> Iterable[State]:
        if self.specification.init is None:
            return
        state: list[Value] = [None] * len(self.specification.variables)
        begin = self.specification.init
        yield from self._run(lambda keep: begin(state, None, keep), state)

    def steps(self, state: State) -> Iterable[State]:
        if self.specification.next is None:
            return ()
        following: list[Value] = [None] * len(state)
        action, before = self.specification.next, list(state)
        return self._run(lambda keep: action(before, following, keep), following)

    def _run(self, act: Callable[[Callable[[], None]], None], into: list[Value]) -> list[State]:
        found: list[State] = []
        act(lambda: found.append(self._whole(into)))
        return found

    def named_steps(self, state: State) -> Iterable[tuple[str, State]]:
        following: list[Value] = [None] * len(state)
        found: list[tuple[str, State]] = []

        def keep(label: str) -> None:
            found.append((label, self._whole(following)))

        self._named_next(list(state), following, keep)
        return found

    @cached_property
    def _named_next(self) -> Action:
        return self.specification.named_next()

    def _whole(self, values: list[Value]) -> State:
        """A state, once all variables have values."""
        if None in values:
            name = self.specification.variables[values.index(None)]
            raise EvaluationError(f"nothing says which value {name} gets")
        return tuple(map(_plain, values))

    def key(self, state: State) -> Hashable:
        if self.specification.view is not None:
            state = (_plain(self.specification.view.compute(list(state), None)),)
        return self._representative(state) if self._permutations else state

    def _representative(self, state: State) -> State:
        """The first state that was found of those that differ from it only by a permutation."""
        if state in self._representatives:
            return state
        for permutation in self._permutations:
            other = tuple(_permuted(value, permutation) for value in state)
            if other in self._representatives:
                return other
        self._representatives.add(state)
        return state

    @cached_property
    def _permutations(self) -> Sequence[Mapping[Value, Value]]:
        """The group that the permutations of the configuration generate, without the identity."""
        given = [
            dict(pairs(one))
            for each in self.specification.symmetry
            for one in elements(each.compute(None, None))
        ]
        domain = sorted({value for one in given for value in one}, key=str)
        known = {tuple(domain)}
        waiting = [tuple(domain)]
        while waiting:
            before = waiting.pop()
            for one in given:
                after = tuple(one.get(value, value) for value in before)
                if after not in known:
                    known.add(after)
                    waiting.append(after)
        known.discard(tuple(domain))
        return [
            {a: b for a, b in zip(domain, one, strict=True) if a is not b} for one in sorted(known, key=str)
        ]

    def is_within(self, state: State) -> bool:
        values = list(state)
        return all(boolean(one.compute(values, None)) for one in self.specification.constraints)

    def is_allowed(self, before: State, after: State) -> bool:
        checks = self.specification.action_constraints
        return not checks or all(boolean(one.compute(list(before), list(after))) for one in checks)

    def show(self, state: State) -> Mapping[str, Shown]:
        return {name: _shown(one) for name, one in zip(self.specification.variables, state, strict=True)}

    def fault_of(self, error: Exception) -> Fault:
        return Fault(str(error), self._place(error))

    def _place(self, error: Exception) -> Span:
        """The innermost expression of the specification that failed."""
        found, trace = NOWHERE, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.specification.compiler.file:
                span = self.specification.compiler.places.spans[trace.tb_lineno]
                found = found if span is NOWHERE else span
            trace = trace.tb_next
        return found


def _of_state(check: Check, before: State | None, state: State) -> bool:
    return boolean(check.compute(list(state), None))


def _of_step(check: Check, before: State | None, state: State) -> bool:
    assert before is not None
    return boolean(check.compute(list(before), list(state)))


def _of_pair(step: Step, before: State, after: State) -> bool:
    return boolean(step(list(before), list(after)))


def _of_constants(check: Check) -> bool:
    return boolean(check.compute(None, None))


def _plain(value: Value) -> Value:
    """The value with its elements, so that it is computed once."""
    match value:
        case Described():
            return value.explicit
        case Delayed():
            return value.whole
        case _:
            return value


def _permuted(value: Value, permutation: Mapping[Value, Value]) -> Value:
    match value:
        case ModelValue():
            return permutation.get(value, value)
        case tuple():
            return tuple(_permuted(one, permutation) for one in value)
        case frozenset():
            return frozenset(_permuted(one, permutation) for one in value)
        case Mapped():
            return function(
                {
                    _permuted(key, permutation): _permuted(one, permutation)
                    for key, one in value.items.items()
                }
            )
        case Described() | Delayed():
            return _permuted(_plain(value), permutation)
        case _:
            return value


def _shown(value: Value) -> Shown:
    """As reports show it: functions as records, sequences as lists, everything else as TLA+ writes it."""
    match value:
        case bool() | int():
            return value
        case str():
            return value
        case Mapped():
            return {
                one if isinstance(one, str) else show(one): _shown(value.items[one])
                for one in in_order(frozenset(value.items))
            }
        case tuple() if value:
            return [_shown(one) for one in value]
        case _:
            return show(value)
