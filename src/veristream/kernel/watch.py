"""What a kernel is asked for; apart from `emit`, since a cached kernel is loaded without emitting it."""

from __future__ import annotations

from dataclasses import dataclass

from veristream.ir.expr import ClockConstraint, Expr
from veristream.ir.property import Occurs, Silent

ActionTest = Occurs | Silent | Expr
"""An action proposition: about the label, or an expression over the states before and after the step."""

STUTTER = 0xFFFFFFFF
"""The action index of a product's step in a state without steps."""
WATCH_FAILED = 0xFFFFFFFE
"""The action index that means that a state proposition fails."""
LINKS = "relation"
"""The table in the code for what is watched that has the addresses of the relation's functions."""


@dataclass(frozen=True, slots=True)
class Monitor:
    """An automaton in compressed sparse rows: state q has the transitions first[q]..first[q + 1] - 1.

    A letter has the state propositions in its low 32 bits and the action propositions above; it
    matches a transition that has all its positive and none of its negative bits.
    """

    first: tuple[int, ...]
    positive: tuple[int, ...]
    negative: tuple[int, ...]
    target: tuple[int, ...]
    acceptance: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """What a kernel reports about states and actions besides the steps."""

    states: tuple[Expr, ...] = ()
    premises: tuple[Expr, ...] = ()  # bits after those of `states`; a failing one counts as false
    actions: tuple[ActionTest, ...] = ()
    measures: tuple[Expr, ...] = ()
    monitor: Monitor | None = None
    argument_count: int = 0  # words after each successor's row for the arguments of its label
    tests: tuple[tuple[ClockConstraint, ...], ...] = ()  # of a timed network: what `tests` evaluates

    @property
    def shows_steps(self) -> bool:
        """Whether something about each step is watched."""
        return bool(self.actions or self.argument_count)


@dataclass(frozen=True, slots=True)
class Inside:
    """What the code of the steps itself reports, since the step does not show it afterwards.

    Everything else that is watched is computed from the step, so that it does not shape the relation."""

    tests: tuple[Occurs, ...] = ()  # the bits above an entry's action, in this order
    argument_count: int = 0
