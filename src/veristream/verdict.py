"""Verdicts: the result of checking a property, by a search or on a history.

No exception ever becomes `Holds`, and a search that reaches a limit returns `Unknown`.

`omission` is set if the verdict relies on a search that may have omitted a state, by hash compaction: the
probability of that is at most so much. A verdict that its trace proves does not rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from veristream.source import NOWHERE, Span

Shown = int | float | bool | str | list["Shown"] | dict[str, "Shown"]
"""A value for display: an enum member as its name, an array as a list, a record as a dict, a clock as its
current value."""


@dataclass(frozen=True, slots=True)
class Step:
    """An action of a trace and the state after it; the first step of a trace has no action.

    In timed models `delay` is the time spent in the state before; a last step without an action is only a
    delay.
    """

    action: str | None
    process: str | None
    state: Mapping[str, Shown]
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """A run from the initial state; in a lasso, the state of the last step equals that of step `loop`.

    `loop` counts steps from 0, the initial state. `shortest` says that no shorter run reaches such a state.
    """

    steps: tuple[Step, ...]
    loop: int | None = None
    shortest: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """A run-time error of the model, and the source text that causes it.

    If it is in a property, the search for another property may do without it.
    """

    message: str
    span: Span = NOWHERE
    in_property: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Holds:
    """The property is true; for a reachable goal, the trace is the witness."""

    reason: str = ""
    trace: Trace | None = None
    vacuous: str | None = None
    omission: float | None = None


@dataclass(frozen=True, slots=True)
class Violated:
    """The property is false; the trace is a counterexample, if a single run can be one."""

    reason: str = ""
    trace: Trace | None = None
    omission: float | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Undecided: the search reached a limit, or the model failed at run time (`fault`, with its trace)."""

    reason: str
    trace: Trace | None = None
    fault: Fault | None = None
    omission: float | None = None


@dataclass(frozen=True, slots=True)
class Invalid:
    """The property itself is wrong, or not supported: the reason, what it is about, and what to write.

    Nothing is said of the model; it never has a trace.
    """

    reason: str
    span: Span = NOWHERE
    hint: str = ""
    trace: Trace | None = None
    omission: float | None = None


Verdict = Holds | Violated | Unknown | Invalid
Word = Literal["holds", "violated", "unknown", "error"]


def word(verdict: Verdict) -> Word:
    """Returns the verdict as one word."""
    match verdict:
        case Holds():
            return "holds"
        case Violated():
            return "violated"
        case Unknown():
            return "unknown"
        case Invalid():
            return "error"


@dataclass(frozen=True, slots=True)
class Spread:
    """How a search was partitioned: the number of parts, their balance, the bytes exchanged and spilled."""

    parts: int
    skew: float  # states of the largest part divided by the mean; 1 is perfect balance
    exchanged_bytes: int
    spilled_bytes: int


@dataclass(frozen=True, slots=True)
class Counts:
    """How far an exploration has got: states and transitions seen, the depth reached, states to expand.

    What counts as a state depends on the exploration: a state, a zone, or a pair of states.
    """

    states: int
    transitions: int
    depth: int
    frontier: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True)
class Effort(Counts):
    """The cost of a verdict, up to the moment it was reached."""

    seconds: float
    memory_mib: float
    unreduced_states: int | None = None  # the count without symmetry reduction, if that was used
    spread: Spread | None = None  # set when several processes or machines shared the search
    reduced: bool = field(default=False, kw_only=True)  # by partial order: not all states were explored
    depth_first: bool = field(
        default=False, kw_only=True
    )  # the depth is the greatest of the search's stack
    hash_bits: int | None = field(default=None, kw_only=True)  # of a state that were kept; None: all


@dataclass(frozen=True, slots=True)
class Result:
    """A property with its verdict and cost; `kind` names the kind of claim, such as `always`."""

    property: str
    kind: str
    verdict: Verdict
    effort: Effort
