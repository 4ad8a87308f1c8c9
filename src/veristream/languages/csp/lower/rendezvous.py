"""A static approximation of the rendezvous between two terms, for the decision in `automata` to fork."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.alphabet import parts_of
from veristream.languages.csp.lower.terms import Forked, Term

Half = tuple[str, bool]
"""One half of a rendezvous: a channel, and whether this is the output."""


def may_meet(
    inner: Term, by: Term, definitions: Mapping[str, csp.Definition], channels: Mapping[str, csp.Channel]
) -> bool:
    """Whether `inner` may contain the other half of a rendezvous that `by` may begin with."""
    begins = {half for half in _halves(by, definitions, set(), False) if not channels[half[0]].capacity}
    if not begins:
        return False
    wanted = {(channel, not output) for channel, output in begins}
    return not wanted.isdisjoint(_halves(inner, definitions, set(), True))


def _halves(
    term: Term, definitions: Mapping[str, csp.Definition], seen: set[tuple[str, bool]], all_: bool
) -> Iterator[Half]:
    """Yields the halves that the term may reach; without `all_`, those before its first visible step."""
    match term:
        case csp.Stop() | csp.Skip() | csp.Assert() | Forked():
            return
        case csp.Ref(name=name):
            if (name, all_) not in seen:
                seen.add((name, all_))
                yield from _halves(definitions[name].body, definitions, seen, all_)
        case csp.Prefix(event=event, then=then):
            if all_ or event is None:
                yield from _halves(then, definitions, seen, all_)
        case csp.Output(channel=channel, then=then) | csp.Input(channel=channel, then=then):
            yield channel, isinstance(term, csp.Output)
            if all_:
                yield from _halves(then, definitions, seen, all_)
        case csp.Hide(process=inner):  # its visible steps may be hidden
            yield from _halves(inner, definitions, seen, True)
        case csp.Guard(process=inner) | csp.Atomic(process=inner) | csp.Replicated(body=inner):
            yield from _halves(inner, definitions, seen, all_)
        case _:
            for part in parts_of(term):
                yield from _halves(part, definitions, seen, all_)
