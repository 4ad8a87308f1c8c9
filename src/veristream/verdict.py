"""Verdicts: the one kind of result, from a search and from a history alike.

No exception ever becomes `Holds`, and a bound that was hit is `Unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from veristream.source import NOWHERE, Span

Shown = int | float | bool | str | list["Shown"] | dict[str, "Shown"]
"""A value as a person reads it: an enum member by its name, an array as a list, a record as a dict, a
clock by what it shows."""


@dataclass(frozen=True, slots=True)
class Step:
    """One action of a trace and the state after it; the first step of a trace has no action.

    Where time passes, `delay` says how long the run stayed in the state before; a last step without an
    action is a delay alone.
    """

    action: str | None
    process: str | None
    state: Mapping[str, Shown]
    delay: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """A run from the initial state; on a lasso the last step's state is that of step `loop` again.

    `loop` counts steps from 0, the initial one. `shortest` says that no run to such a state is
    shorter.
    """

    steps: tuple[Step, ...]
    loop: int | None = None
    shortest: bool = False


@dataclass(frozen=True, slots=True)
class Fault:
    """A run-time error of the model: what happened and where it is written."""

    message: str
    span: Span = NOWHERE


@dataclass(frozen=True, slots=True)
class Holds:
    """The property is true; of a reachable goal the trace is the witness."""

    reason: str = ""
    trace: Trace | None = None
    vacuous: str | None = None


@dataclass(frozen=True, slots=True)
class Violated:
    """The property is false; the trace shows it, where a run can show it."""

    reason: str = ""
    trace: Trace | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Not decided: a bound was hit, or the model itself fails at run time (`fault`, with its trace)."""

    reason: str
    trace: Trace | None = None
    fault: Fault | None = None


Verdict = Holds | Violated | Unknown
Word = Literal["holds", "violated", "unknown"]


def word(verdict: Verdict) -> Word:
    """The verdict as one word."""
    match verdict:
        case Holds():
            return "holds"
        case Violated():
            return "violated"
        case Unknown():
            return "unknown"


@dataclass(frozen=True, slots=True)
class Spread:
    """How a search was shared: between how many parts, how evenly, and what went over the network and to
    disks for it."""

    parts: int
    skew: float  # the states of the largest part over the mean: 1 where all are alike
    exchanged_bytes: int
    spilled_bytes: int


@dataclass(frozen=True, slots=True)
class Effort:
    """What a verdict cost, up to the moment it was known."""

    states: int
    transitions: int
    depth: int
    seconds: float
    memory_mib: float
    unreduced_states: int | None = None  # how many there are without symmetry, where it was used
    spread: Spread | None = None  # where several machines or processes shared the search


@dataclass(frozen=True, slots=True)
class Result:
    """A property with its verdict and its cost; `kind` is the claim's word, such as `always`."""

    property: str
    kind: str
    verdict: Verdict
    effort: Effort
