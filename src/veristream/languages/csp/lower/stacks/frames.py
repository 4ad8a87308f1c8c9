"""Terms with a stack: the process that runs, and those that wait behind it, each in a *frame*.

`(P; A); B` and `P; (A; B)` are one term, as in PAT: P runs, A and B wait. A process that is Skip is left
out unless it is the last one, since `P; Skip; Q` does exactly what `P; Q` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from veristream.languages.csp import syntax as csp
from veristream.languages.csp.lower.moves import Move, Silent, Terminates, when
from veristream.languages.csp.lower.slots import slot_name
from veristream.languages.csp.lower.terms import Term, instantiate, is_skip

EMPTY, OCCUPIED = "^empty", "^occupied"
"""The bound names for the conditions that no process waits, and that one waits."""


def top_name(number: int) -> str:
    """Returns the bound name for the condition that the process of this frame is the next one."""
    return f"^next {number}"


def kept_name(position: int) -> str:
    """Returns the bound name of a value in the frame of the next process."""
    return f"^{position}"


def take_apart(term: Term) -> tuple[Term, list[csp.Process]]:
    """Returns the process of a term that runs, and those that wait, in the order in which they run."""
    head, *rest = _parts(term)
    able = [one for one in rest[:-1] if not is_skip(one)]
    return head, cast("list[csp.Process]", able + rest[-1:])


def _parts(term: Term) -> Iterator[Term]:
    if isinstance(term, csp.Sequence):
        yield from _parts(term.first)
        yield from _parts(term.second)
    else:
        yield term


def is_stop(term: Term) -> bool:
    """Whether what waits behind the term never runs."""
    return isinstance(term, csp.Stop) or (
        isinstance(term, csp.Atomic) and isinstance(term.process, csp.Stop)
    )


def when_empty(move: Move) -> Move:
    """Returns the move on the condition that no process waits."""
    return when(move, csp.Bound(EMPTY, span=move.span))


def ways(move: Move) -> Iterator[Move]:
    """Splits a move by whether processes wait, if what it leads to depends on that.

    Where the target is Skip and a process waits, that one runs instead: `return_to` has these moves.
    """
    head, rest = take_apart(move.target)
    if rest and is_skip(rest[-1]):
        yield when_empty(move)
        occupied = csp.Bound(OCCUPIED, span=move.span)
        yield when(replace(move, target=_put_together(head, rest[:-1])), occupied)
    elif is_skip(move.target) or (isinstance(head, csp.Atomic) and is_stop(head)):
        yield when_empty(move)
        if is_stop(head):
            stop = csp.Stop(span=head.span)
            yield when(replace(move, target=stop), csp.Bound(OCCUPIED, span=move.span))
    else:
        yield move


def return_to(move: Move, process: Term, number: int, slots: int) -> Move:
    """Returns the move that ends a process, if the next one is in the frame of that number."""
    values = {slot_name(position): csp.Bound(kept_name(position)) for position in range(slots)}
    act = Silent("terminate") if isinstance(move.act, Terminates) else move.act
    target = instantiate(cast("csp.Process", process), values)
    return when(replace(move, act=act, target=target), csp.Bound(top_name(number), span=move.span))


def without_stack(move: Move) -> Move | None:
    """Returns the move of a component in which no process ever waits; None if it needs one to wait."""
    if csp.Bound(OCCUPIED) in move.conditions:
        return None
    return replace(move, conditions=tuple(one for one in move.conditions if one != csp.Bound(EMPTY)))


def _put_together(head: Term, rest: list[csp.Process]) -> Term:
    for one in rest:
        head = csp.Sequence(cast("csp.Process", head), one, span=head.span)
    return head
