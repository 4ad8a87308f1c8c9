"""Properties of a Network.

Linear temporal logic is read over infinite runs s0 a0 s1 a1 ...: `Holds(e)` is true at i when e
holds in s_i, `Occurs(a)` when the action taken from s_i is called a (state/event LTL: Chaki, Clarke,
Ouaknine, Sharygina, Sinha, "State/Event-Based Software Model Checking", IFM 2004). A run that ends
repeats its last state for ever with no action.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum as PythonEnum
from typing import TYPE_CHECKING, Literal

from veristream.ir.expr import Expr
from veristream.source import NOWHERE, Span

if TYPE_CHECKING:
    from veristream.ir.network import Network


@dataclass(frozen=True, slots=True)
class Holds:
    """A proposition of states."""

    condition: Expr
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Occurs:
    """A proposition of actions: the label's name, and its arguments where given; None matches any."""

    name: str
    arguments: tuple[int | None, ...] | None = None
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Silent:
    """A proposition of actions: the action is invisible (tau)."""


UnaryTemporal = Literal["!", "X", "[]", "<>"]
BinaryTemporal = Literal["&&", "||", "->", "<->", "U", "R"]


@dataclass(frozen=True, slots=True)
class TemporalUnary:
    """Not, next, always or eventually."""

    op: UnaryTemporal
    operand: Formula
    span: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TemporalBinary:
    """Connectives; `U` is until, `R` (also written `V`) release."""

    op: BinaryTemporal
    left: Formula
    right: Formula
    span: Span = field(default=NOWHERE, compare=False, repr=False)


Formula = Holds | Occurs | Silent | TemporalUnary | TemporalBinary


@dataclass(frozen=True, slots=True)
class DeadlockFree:
    """Every reachable state has a step or has terminated properly."""


@dataclass(frozen=True, slots=True)
class DivergenceFree:
    """No run ends in invisible actions for ever."""


@dataclass(frozen=True, slots=True)
class NonTerminating:
    """Every reachable state has a step, terminated properly or not."""


@dataclass(frozen=True, slots=True)
class Deterministic:
    """In no reachable state do two steps of one event lead to different states.

    Steps are of one event when they are shown alike: the same label with equal arguments. All
    invisible steps are one event.
    """


RefinementModel = Literal["T", "F", "FD"]
"""Traces, stable failures, failures and divergences."""


@dataclass(frozen=True, slots=True)
class Refines:
    """The specification allows all that the network does, as the model of CSP observes it.

    T: every trace of visible events. F: also every refusal of a state without invisible steps. FD:
    also every divergence, and after a trace on which the specification may diverge it allows all
    (Roscoe, "Understanding Concurrent Systems", 2010). Events are compared as they are shown: label
    and arguments. Termination is whatever event the networks give it, and no other.
    """

    specification: Network
    model: RefinementModel = "T"


@dataclass(frozen=True, slots=True)
class Always:
    """An invariant: the condition holds in every reachable state."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Reachable:
    """The condition holds in some reachable state; `optimise` also asks for an extreme value there."""

    condition: Expr
    optimise: Optimise | None = None


@dataclass(frozen=True, slots=True)
class Optimise:
    """The least or greatest value of an expression over the reachable states where a goal holds.

    Of a clock the infimum or supremum, which need not be attained.
    """

    direction: Literal["min", "max"]
    value: Expr


@dataclass(frozen=True, slots=True)
class Transition:
    """The condition holds of every reachable step; `Primed` speaks of the state after it."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Temporal:
    """The formula holds of every fair run."""

    formula: Formula


@dataclass(frozen=True, slots=True)
class LeadsTo:
    """On every fair run, whenever `cause` holds, `effect` holds then or later."""

    cause: Expr
    effect: Expr


@dataclass(frozen=True, slots=True)
class Inevitable:
    """On every run of a timed network the condition holds at some moment (UPPAAL's `A<>`).

    A run is maximal: it goes on for ever, in steps or in time, or ends where neither is possible. Runs
    whose infinitely many steps take a finite time count too.
    """

    condition: Expr


@dataclass(frozen=True, slots=True)
class PotentiallyAlways:
    """On some run of a timed network, maximal in the same sense, the condition holds at every moment
    (UPPAAL's `E[]`)."""

    condition: Expr


Claim = (
    DeadlockFree
    | DivergenceFree
    | NonTerminating
    | Deterministic
    | Refines
    | Always
    | Reachable
    | Transition
    | Temporal
    | LeadsTo
    | Inevitable
    | PotentiallyAlways
)


class Fairness(PythonEnum):
    """Which runs a temporal property speaks of, beside the edges' own marks.

    Weak: what is enabled for ever from some point on is taken again and again. Strong: what is
    enabled again and again is taken again and again. The unit is an action, by its name and those of
    its arguments that are constants, or a process, that is a component that leads the step, receives
    in a rendezvous or meets in a barrier (the receivers of a broadcast do not choose, so it counts
    for its sender alone). Strong global: from a state that is visited again and again every single
    step is taken again and again (Sun, Liu, Dong, Pang, "PAT: Towards Flexible Verification under
    Fairness", CAV 2009).
    """

    NONE = "none"
    WEAK_ACTION = "weak-action"
    STRONG_ACTION = "strong-action"
    WEAK_PROCESS = "weak-process"
    STRONG_PROCESS = "strong-process"
    STRONG_GLOBAL = "strong-global"


@dataclass(frozen=True, slots=True)
class Property:
    """A named claim."""

    name: str
    claim: Claim
    fairness: Fairness = Fairness.NONE
    span: Span = field(default=NOWHERE, compare=False, repr=False)
