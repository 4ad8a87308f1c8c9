"""Computes the alphabets of terms, on which the branches of a `||` synchronise.

Lowering needs them whenever a composition starts, in `steps` and `automata`.
"""

from __future__ import annotations

from collections.abc import Mapping

from veristream.errors import ModelError
from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.expressions import reads_state
from veristream.languages.csp.lower.terms import (
    Alphabet,
    Forked,
    Name,
    Running,
    Term,
    instantiate,
    names_of,
    write_out,
)

INSTANCES_MAX = 10_000
HINT = "declare its events: `#alphabet {} {{...}};`"


class Alphabets:
    """Computes the alphabets of terms; visits each instance of a definition once."""

    def __init__(self, definitions: Mapping[str, csp.Definition]) -> None:
        self._definitions = definitions
        self._known: dict[csp.Ref, Alphabet] = {}

    def of(self, term: Term) -> Alphabet:
        """Returns the events of a term: those of `#alphabet`, or those of its prefixes without programs.

        Raises ModelError if they depend on values known only at run time.
        """
        seen: set[csp.Ref] = set()
        return frozenset(self._of(term, seen))

    def _of(self, term: Term, seen: set[csp.Ref]) -> set[Name]:
        match term:
            case csp.Stop() | csp.Skip() | csp.Assert() | Forked():
                return set()
            case csp.Ref():
                return self._of_ref(term, seen)
            case csp.Prefix(event=event, program=program, then=then):
                rest = self._of(then, seen)
                return rest if event is None or program is not None else rest | {_name(event)}
            case csp.Output(then=then) | csp.Input(then=then):
                return self._of(then, seen)
            case csp.Guard(process=inner) | csp.Atomic(process=inner):
                return self._of(inner, seen)
            case csp.Hide(process=inner, events=events):
                return self._of(inner, seen) - names_of(events, "a hidden event's argument")
            case _:
                return set().union(*(self._of(part, seen) for part in parts_of(term)))

    def _of_ref(self, ref: csp.Ref, seen: set[csp.Ref]) -> set[Name]:
        definition = self._definitions[ref.name]
        for argument in ref.arguments:
            if not isinstance(argument, csp.Number) and (
                reads_state(argument) or definition.alphabet is None
            ):
                raise _unknown(ref, argument)
        values = {
            parameter.name: argument
            for parameter, argument in zip(definition.parameters, ref.arguments, strict=True)
        }
        if definition.alphabet is not None:
            written = [one for events in definition.alphabet for one in write_out(events, values)]
            return set(names_of(written, f"an argument in the alphabet of {ref.name}"))
        if ref in seen:
            return set()
        seen.add(ref)
        if len(seen) > INSTANCES_MAX:
            message = f"the alphabet of {ref.name} is too large to compute"
            raise ModelError(message, ref.span, HINT.format(ref.name))
        return self._of(instantiate(definition.body, values), seen)


def parts_of(term: Term) -> tuple[Term, ...]:
    """Returns the operands of an operator."""
    match term:
        case csp.Choice(branches=branches) | csp.Parallel(branches=branches):
            return branches
        case Running(branches=parts, endless=endless):
            return parts if endless is None else (*parts, endless)
        case csp.Copies(body=body):
            return (body,)
        case csp.Conditional(then=then, otherwise=otherwise):
            return (then, otherwise)
        case csp.Case(branches=cases, default=default):
            return (*(branch for _, branch in cases), default)
        case csp.Sequence(first=first, second=second):
            return (first, second)
        case csp.Interrupt(process=inner, by=by):
            return (inner, by)
        case _:
            raise AssertionError(f"no operands: {type(term).__name__}")


def _name(event: csp.Event) -> Name:
    values: list[int] = []
    for argument in event.arguments:
        if not isinstance(argument, csp.Number):
            raise ModelError(
                f"the argument of {event.name} is known only at run time, so the alphabet of its process"
                " cannot be computed",
                argument.span,
                HINT.format("P") + " for the process P that is a branch of the `||`",
            )
        values.append(argument.value)
    return event.name, tuple(values)


def _unknown(ref: csp.Ref, argument: csp.Expr) -> ModelError:
    return ModelError(
        f"an argument of {ref.name} is known only at run time, so its alphabet cannot be computed",
        argument.span,
        HINT.format(ref.name),
    )


def start(term: csp.Process, alphabets: Alphabets) -> tuple[Alphabet, ...]:
    """Returns the alphabets of the branches of a `||` at its start, or none for other terms."""
    if not isinstance(term, csp.Parallel) or term.interleave:
        return ()
    return tuple(alphabets.of(branch) for branch in term.branches)
