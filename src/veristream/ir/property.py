"""Properties of a Network.

Linear temporal logic is interpreted over infinite runs s0 a0 s1 a1 ...: `Holds(e)` is true at i if e
holds in s_i, `Occurs(a)` if the action taken in s_i is named a (state/event LTL: Chaki, Clarke, Ouaknine,
Sharygina, Sinha, "State/Event-Based Software Model Checking", IFM 2004). A finite run repeats its last
state forever with no action.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum as PythonEnum
from typing import TYPE_CHECKING, Literal, assert_never

from veristream.ir.expr import Expr
from veristream.source import Node

if TYPE_CHECKING:
    from veristream.ir.network import Network


@dataclass(frozen=True, slots=True)
class Holds(Node):
    """A proposition about states."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Occurs(Node):
    """A proposition about actions: the label's name and optional arguments; None matches any value."""

    name: str
    arguments: tuple[int | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class Silent:
    """A proposition about actions: the action is invisible (tau)."""


UnaryTemporal = Literal["!", "X", "[]", "<>"]
BinaryTemporal = Literal["&&", "||", "->", "<->", "U", "R"]


@dataclass(frozen=True, slots=True)
class TemporalUnary(Node):
    """Not, next, always or eventually."""

    op: UnaryTemporal
    operand: Formula


@dataclass(frozen=True, slots=True)
class TemporalBinary(Node):
    """A binary connective; `U` is until, `R` (also written `V`) release."""

    op: BinaryTemporal
    left: Formula
    right: Formula


Proposition = Holds | Occurs | Silent
Formula = Proposition | TemporalUnary | TemporalBinary


def propositions_of(formula: Formula) -> Iterator[Proposition]:
    """Yields the propositions of the formula from left to right, also those that occur again."""
    match formula:
        case Holds() | Occurs() | Silent():
            yield formula
        case TemporalUnary(operand=operand):
            yield from propositions_of(operand)
        case TemporalBinary(left=left, right=right):
            yield from propositions_of(left)
            yield from propositions_of(right)
        case _:
            assert_never(formula)


@dataclass(frozen=True, slots=True)
class DeadlockFree:
    """Every reachable state has a step or has terminated."""


@dataclass(frozen=True, slots=True)
class DivergenceFree:
    """No run takes invisible actions forever from some point on."""


@dataclass(frozen=True, slots=True)
class NonTerminating:
    """Every reachable state has a step, even if it has terminated."""


@dataclass(frozen=True, slots=True)
class Deterministic:
    """No reachable state has two steps of one event that lead to different states.

    Steps belong to one event if they have the same label and arguments. All invisible steps are one event.
    """


RefinementModel = Literal["T", "F", "FD"]
"""Traces; stable failures; failures and divergences."""


@dataclass(frozen=True, slots=True)
class Refines:
    """The specification allows all behaviour of the network that the semantic model of CSP observes.

    T: every trace of visible events. F: also every refusal of a state without invisible steps. FD: also
    every divergence; after a trace on which the specification can diverge, it allows everything (Roscoe,
    "Understanding Concurrent Systems", 2010). Events are compared by label and arguments. Termination is
    only the event, if any, that the networks use for it.
    """

    specification: Network
    model: RefinementModel = "T"


@dataclass(frozen=True, slots=True)
class Always:
    """An invariant: the condition holds in every reachable state."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Reachable:
    """The condition holds in some reachable state; `optimise` also requests an optimal value there."""

    condition: Expr
    optimise: Optimise | None = None


@dataclass(frozen=True, slots=True)
class Optimise:
    """The minimum or maximum of an expression over the reachable states where a goal holds.

    For a clock, the infimum or supremum, which no state need attain.
    """

    direction: Literal["min", "max"]
    value: Expr


@dataclass(frozen=True, slots=True)
class Transition:
    """The condition holds for every reachable step; `Primed` refers to the state after it."""

    condition: Expr


@dataclass(frozen=True, slots=True)
class Temporal:
    """The formula holds on every fair run."""

    formula: Formula


@dataclass(frozen=True, slots=True)
class LeadsTo:
    """On every fair run, whenever `cause` holds, `effect` holds at the same time or later."""

    cause: Expr
    effect: Expr


@dataclass(frozen=True, slots=True)
class Inevitable:
    """On every run of a timed network the condition holds at some moment (UPPAAL's `A<>`).

    A run is maximal: it continues forever, by steps or by delays, or ends where neither is possible. Runs
    with infinitely many steps in finite time count too.
    """

    condition: Expr


@dataclass(frozen=True, slots=True)
class PotentiallyAlways:
    """On some maximal run of a timed network the condition holds at every moment (UPPAAL's `E[]`)."""

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


def kind_of(claim: Claim) -> str:
    """Returns the claim's keyword, in the text form of networks and in reports."""
    match claim:
        case DeadlockFree():
            return "deadlockfree"
        case DivergenceFree():
            return "divergencefree"
        case NonTerminating():
            return "nonterminating"
        case Deterministic():
            return "deterministic"
        case Refines(model=model):
            return "refines" if model == "T" else f"refines<{model}>"
        case Always():
            return "always"
        case Reachable():
            return "reachable"
        case Transition():
            return "transition"
        case Temporal():
            return "ltl"
        case LeadsTo():
            return "leadsto"
        case Inevitable():
            return "inevitable"
        case PotentiallyAlways():
            return "potentially"
        case _:
            assert_never(claim)


class Fairness(PythonEnum):
    """The fairness assumption of a temporal property, in addition to the marks of the edges.

    Weak: what is continuously enabled from some point on is taken infinitely often. Strong: what is
    enabled infinitely often is taken infinitely often. The unit is an action, identified by its name and
    its constant arguments, or a process: a component that leads the step, receives in a rendezvous or meets
    in a barrier (the receivers of a broadcast do not choose, so it counts only for its sender). Strong
    global: every step of a state that is visited infinitely often is taken infinitely often (Sun, Liu,
    Dong, Pang, "PAT: Towards Flexible Verification under Fairness", CAV 2009).
    """

    NONE = "none"
    WEAK_ACTION = "weak-action"
    STRONG_ACTION = "strong-action"
    WEAK_PROCESS = "weak-process"
    STRONG_PROCESS = "strong-process"
    STRONG_GLOBAL = "strong-global"


@dataclass(frozen=True, slots=True)
class Property(Node):
    """A named claim."""

    name: str
    claim: Claim
    fairness: Fairness = Fairness.NONE


@dataclass(frozen=True, slots=True)
class Rejected(Node):
    """A property that its language cannot read, and why; `position` counts the properties before it.

    The span is what the message is about. `kind` is the property's keyword, as far as it is known.
    """

    name: str
    kind: str
    message: str
    hint: str = ""
    position: int = 0
